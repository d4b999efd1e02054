//! The host name of a pod (kubelet `GeneratePodHostNameAndDomain`, pkg/kubelet/util `GetNodenameForKernel`).

use super::{Host, SpecError};
use nodewarden_manifest::Pod;

/// Maximum length of a host name: what `sethostname` accepts, less the terminating byte.
const LONGEST_HOSTNAME: usize = 63;
/// Maximum length of a fully qualified name that the kernel accepts.
const LONGEST_FQDN: usize = 64;

/// A pod's host name and domain; the domain is empty without a subdomain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hostname {
    pub(super) host: String,
    pub(super) domain: String,
}

pub(super) fn hostname(pod: &Pod, host: &Host) -> Hostname {
    let spec = &pod.spec();
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(own) = set(&spec.hostname_override) {
        return Hostname { host: shortened(&own), domain: String::new() };
    }
    let name = set(&spec.hostname).unwrap_or_else(|| pod.name.clone());
    let domain = set(&spec.subdomain).map_or_else(String::new, |subdomain| {
        format!("{subdomain}.{}.svc.{}", pod.namespace, host.pods.cluster_domain)
    });
    Hostname { host: shortened(&name), domain }
}

fn shortened(name: &str) -> String {
    if name.len() <= LONGEST_HOSTNAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_HOSTNAME).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

/// The output of `hostname` inside the pod.
pub(super) fn for_kernel(pod: &Pod, host: &Host) -> Result<String, SpecError> {
    let Hostname { host, domain } = hostname(pod, host);
    if domain.is_empty() || !pod.spec().set_hostname_as_fqdn.unwrap_or(false) {
        return Ok(host);
    }
    let fqdn = format!("{host}.{domain}");
    if fqdn.len() > LONGEST_FQDN { Err(SpecError::FqdnTooLong { fqdn }) } else { Ok(fqdn) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::fixture::{Fixture, pod};

    fn names(spec: &str) -> (String, String, Result<String, String>) {
        let fixture = Fixture::new();
        let pod = pod(&format!("{spec}\ncontainers: [{{name: c}}]"));
        let Hostname { host, domain } = hostname(&pod, &fixture.host());
        (host, domain, for_kernel(&pod, &fixture.host()).map_err(|e| e.to_string()))
    }

    #[test]
    fn the_host_name_is_the_pods_name_or_the_field() {
        let plain = |name: &str, domain: &str, kernel: &str| {
            (name.to_owned(), domain.to_owned(), Ok::<_, String>(kernel.to_owned()))
        };
        assert_eq!(names(""), plain("p", "", "p"));
        assert_eq!(names("hostname: web"), plain("web", "", "web"));
        let domain = "sub.ns.svc.cluster.local";
        assert_eq!(names("hostname: web\nsubdomain: sub"), plain("web", domain, "web"));
        assert_eq!(
            names("hostname: web\nsubdomain: sub\nsetHostnameAsFQDN: true"),
            plain("web", domain, "web.sub.ns.svc.cluster.local")
        );
        assert_eq!(names("hostname: web\nsetHostnameAsFQDN: true"), plain("web", "", "web"));
        assert_eq!(names("hostnameOverride: a.b\nhostname: web"), plain("a.b", "", "a.b"));
    }

    #[test]
    fn long_names_are_cut_or_refused() {
        assert_eq!(shortened(&format!("{}-x", "a".repeat(62))), "a".repeat(62));
        assert_eq!(shortened(&"a".repeat(63)), "a".repeat(63));
        assert_eq!(shortened(&"a".repeat(70)), "a".repeat(63));
        let long = format!("hostname: {}\nsubdomain: sub\nsetHostnameAsFQDN: true", "w".repeat(40));
        let error = names(&long).2.unwrap_err();
        assert!(error.contains("64 characters is the max, 65 characters requested"), "{error}");
    }
}
