//! `/etc/hosts` of a pod's containers, with the kubelet's content (`ensureHostsFile`).

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use k8s_openapi::api::core::v1::HostAlias;

use super::hostname::{Hostname, hostname};
use super::{Host, SpecError};
use crate::paths::PodPaths;
use nodewarden_manifest::Pod;

/// Path of the file, both in containers and on the node.
pub(super) const HOSTS: &str = "/etc/hosts";
const MODE: u32 = 0o644;

/// Writes the pod's hosts file: with the pod's addresses, or with the content of the node's file on the host
/// network. Changes made by a container are overwritten, as in the kubelet.
///
/// # Errors
/// A file cannot be read or written.
pub fn write_hosts(pod: &Pod, ips: &[IpAddr], paths: &PodPaths, host: &Host) -> Result<(), SpecError> {
    let spec = pod.spec();
    let aliases = spec.host_aliases.as_deref().unwrap_or_default();
    let content = if pod.host_network {
        let own = fs::read(HOSTS).map_err(fail("read", Path::new(HOSTS)))?;
        on_host_network(&own, aliases)
    } else {
        managed(ips, &hostname(pod, host), aliases).into_bytes()
    };
    let path = paths.hosts();
    // Written in place, because the file is mounted into running containers.
    fs::write(&path, content).map_err(fail("write", &path))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).map_err(fail("chmod", &path))
}

fn fail(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SpecError {
    move |source| SpecError::File { call, path: path.to_owned(), source }
}

fn on_host_network(own: &[u8], aliases: &[HostAlias]) -> Vec<u8> {
    [b"# Kubernetes-managed hosts file (host network).\n", own, added(aliases).as_bytes()].concat()
}

fn managed(ips: &[IpAddr], name: &Hostname, aliases: &[HostAlias]) -> String {
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n",
    );
    let Hostname { host, domain } = name;
    for ip in ips {
        let _ = if domain.is_empty() {
            writeln!(text, "{ip}\t{host}")
        } else {
            writeln!(text, "{ip}\t{host}.{domain}\t{host}")
        };
    }
    text + &added(aliases)
}

fn added(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n# Entries added by HostAliases.\n");
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        let _ = writeln!(text, "{}\t{names}", alias.ip);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::fixture::{Fixture, pod};

    fn alias(ip: &str, names: &[&str]) -> HostAlias {
        let hostnames = Some(names.iter().map(|name| (*name).to_owned()).collect());
        HostAlias { ip: ip.to_owned(), hostnames }
    }

    fn name(host: &str, domain: &str) -> Hostname {
        Hostname { host: host.to_owned(), domain: domain.to_owned() }
    }

    const HEAD: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
                        ::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
                        fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

    #[test]
    fn the_content_is_that_of_the_kubelet() {
        let ips = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(managed(&ips[..1], &name("p", ""), &[]), format!("{HEAD}10.0.0.1\tp\n"));
        assert_eq!(
            managed(&ips, &name("p", "s.ns.svc.x"), &[]),
            format!("{HEAD}10.0.0.1\tp.s.ns.svc.x\tp\nfd00::1\tp.s.ns.svc.x\tp\n")
        );
        let aliases = [alias("1.2.3.4", &["a", "b.c"]), alias("::2", &["d"])];
        let tail = "\n# Entries added by HostAliases.\n1.2.3.4\ta\tb.c\n::2\td\n";
        assert_eq!(managed(&ips[..1], &name("p", ""), &aliases), format!("{HEAD}10.0.0.1\tp\n{tail}"));
        assert_eq!(
            on_host_network(b"127.0.0.1 x\n", &aliases),
            format!("# Kubernetes-managed hosts file (host network).\n127.0.0.1 x\n{tail}").into_bytes()
        );
    }

    #[test]
    fn the_file_is_written_in_place() {
        let fixture = Fixture::new();
        let pod = pod("containers: [{name: c}]");
        let paths = fixture.host().paths(&pod);
        fs::create_dir_all(&paths.pod_dir).unwrap();
        let ip = ["10.0.0.9".parse().unwrap()];
        write_hosts(&pod, &ip, &paths, &fixture.host()).unwrap();
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
        let before = inode(&paths.hosts());
        write_hosts(&pod, &ip, &paths, &fixture.host()).unwrap();
        assert_eq!(inode(&paths.hosts()), before);
        assert_eq!(fs::read_to_string(paths.hosts()).unwrap(), format!("{HEAD}10.0.0.9\tp\n"));
        assert_eq!(fs::metadata(paths.hosts()).unwrap().permissions().mode() & 0o777, 0o644);
    }
}
