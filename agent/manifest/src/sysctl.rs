//! Names of sysctls, and which of them a pod may set.

use std::collections::{BTreeMap, BTreeSet};

use crate::Pod;

/// Sysctls that affect only the pod itself, so that it may set them without permission of the node's operator
/// (kubelet pkg/kubelet/sysctl/safe_sysctls.go).
pub(crate) const SAFE: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Why a node on which these unsafe sysctls are allowed rejects the pod; `None` if it does not (kubelet
/// pkg/kubelet/sysctl `patternAllowlist.Admit`).
pub fn forbidden_sysctl(pod: &Pod, allowed: &[String]) -> Option<String> {
    let spec = &pod.spec();
    let (host_network, host_ipc) = (spec.host_network.unwrap_or(false), spec.host_ipc.unwrap_or(false));
    let is_allowed = |name: &str| {
        let fits = |allowed: &String| match dotted(allowed).strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => dotted(allowed) == name,
        };
        SAFE.contains(&name) || allowed.iter().any(fits)
    };
    let sysctls = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    sysctls.map(|sysctl| dotted(&sysctl.name)).find_map(|name| {
        let why = if !is_allowed(&name) {
            "not allowlisted"
        } else if host_network && name.starts_with("net.") {
            "not allowed with host net enabled"
        } else if host_ipc && is_ipc(&name) {
            "not allowed with host ipc enabled"
        } else {
            return None;
        };
        Some(format!("forbidden sysctl: {name:?} {why}"))
    })
}

/// Those of the node's default sysctls that the pod gets: it has the namespace for itself and sets no other
/// value (kubelet `applyPodSysctls`, KEP-5996). Names are in the form with dots. Pods have no user namespace
/// of their own here, so that `user.*` is set for none.
pub fn default_sysctls<'a>(
    pod: &'a Pod,
    defaults: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let spec = &pod.spec();
    let (host_network, host_ipc) = (spec.host_network.unwrap_or(false), spec.host_ipc.unwrap_or(false));
    let is_shared = move |name: &str| {
        name.starts_with("user.")
            || (host_ipc && is_ipc(name))
            || (host_network && (name.starts_with("net.") || name == "kernel.domainname"))
    };
    let own = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    let own: BTreeSet<String> = own.map(|sysctl| dotted(&sysctl.name)).collect();
    let of_pod = defaults.iter().filter(move |(name, _)| !is_shared(name) && !own.contains(*name));
    of_pod.map(|(name, value)| (name.as_str(), value.as_str()))
}

/// A sysctl's name with dots as separators: `net/ipv4/conf/eth0.1/x` becomes `net.ipv4.conf.eth0/1.x`
/// (component-helpers `NormalizeSysctlName`). In a name with slashes as separators, dots are part of a
/// component and become slashes.
pub fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => name
            .chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// Whether it is a sysctl of the IPC namespace.
pub(crate) fn is_ipc(name: &str) -> bool {
    ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix))
        || name == "kernel.sem"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        Pod::unchecked(serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap())
            .unwrap()
    }

    /// The cases of the kubelet's documentation: host namespaces, and a pod's own values.
    #[test]
    fn a_pod_gets_the_defaults_of_its_own_namespaces() {
        let all = ["kernel.domainname", "kernel.sem", "net.core.somaxconn", "user.max_user_namespaces"];
        let defaults = all.map(|name| (name.to_owned(), "1".to_owned())).into();
        let given = |spec: serde_json::Value| {
            let pod = pod(spec);
            default_sysctls(&pod, &defaults).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            given(json!({"containers": []})),
            ["kernel.domainname", "kernel.sem", "net.core.somaxconn"]
        );
        assert_eq!(given(json!({"containers": [], "hostNetwork": true})), ["kernel.sem"]);
        assert_eq!(
            given(json!({"containers": [], "hostIPC": true})),
            ["kernel.domainname", "net.core.somaxconn"]
        );
        let own = json!({"sysctls": [{"name": "net/core/somaxconn", "value": "9"}]});
        assert_eq!(
            given(json!({"containers": [], "securityContext": own})),
            ["kernel.domainname", "kernel.sem"]
        );
    }

    #[test]
    fn only_safe_and_allowed_sysctls_are_set() {
        let forbidden = |name: &str, host_network: bool| {
            let pod = json!({"metadata": {"name": "p"}, "spec": {
                "hostNetwork": host_network, "hostIPC": host_network,
                "securityContext": {"sysctls": [{"name": name, "value": "1"}]}, "containers": []}});
            let pod = Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap();
            forbidden_sysctl(&pod, &["kernel.msg*".to_owned(), "net.core.somaxconn".to_owned()])
        };
        for good in
            ["kernel.shm_rmid_forced", "kernel.msgmax", "net/core/somaxconn", "net.ipv4.tcp_syncookies"]
        {
            assert_eq!(forbidden(good, false), None, "{good}");
        }
        let why = |name: &str, host: bool| forbidden(name, host).unwrap();
        assert_eq!(why("kernel.sem", false), "forbidden sysctl: \"kernel.sem\" not allowlisted");
        assert_eq!(
            why("net.core.somaxconn2", false),
            "forbidden sysctl: \"net.core.somaxconn2\" not allowlisted"
        );
        assert!(why("net.core.somaxconn", true).ends_with("not allowed with host net enabled"));
        assert!(why("kernel.msgmax", true).ends_with("not allowed with host ipc enabled"));
    }
}
