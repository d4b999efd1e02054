//! The CRI configuration of a pod's sandbox (kubelet kuberuntime_sandbox.go, kuberuntime_sandbox_linux.go).

use nodewarden_proto::runtime::v1 as cri;

use super::{Host, SpecError, dns, hostname, labels, ports, resources, security};
use nodewarden_manifest::Pod;
use nodewarden_qos::container;

/// The configuration of the pod's sandbox. `cgroup_parent` is the pod's cgroup in the form that CRI expects.
///
/// # Errors
/// The fully qualified name is too long for the kernel, or the `dnsPolicy` is unknown.
pub fn sandbox_config(
    pod: &Pod,
    attempt: u32,
    cgroup_parent: &str,
    host: &Host,
) -> Result<cri::PodSandboxConfig, SpecError> {
    let spec = pod.spec();
    let host_network = pod.host_network;
    // On the host network the pod has the node's host name.
    let hostname = if host_network { String::new() } else { hostname::for_kernel(pod, host)? };
    let overhead =
        container::overhead(pod, host.node).map(|parameters| resources(&parameters)).unwrap_or_default();
    let own = spec.security_context.iter().flat_map(|c| c.sysctls.iter().flatten());
    let own = own.map(|sysctl| (nodewarden_manifest::dotted(&sysctl.name), sysctl.value.clone()));
    let of_node = nodewarden_manifest::default_sysctls(pod, &host.pods.default_sysctls);
    let of_node = of_node.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            attempt,
        }),
        hostname,
        log_directory: host.paths(pod).logs.display().to_string(),
        dns_config: Some(dns::config(pod, host)?.0),
        port_mappings: ports::mappings(pod),
        labels: labels::sandbox_labels(pod, host),
        annotations: pod.annotations.clone().into_iter().collect(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: cgroup_parent.to_owned(),
            security_context: Some(security::sandbox(pod)),
            sysctls: of_node.chain(own).collect(),
            overhead: Some(overhead),
            resources: Some(resources(&container::sandbox(pod, host.node))),
        }),
    })
}

/// Differences from the manifest, each as reason and message of an event: a resolver configuration that
/// exceeds the limits, or `ClusterFirst` without servers of a cluster.
pub fn warnings(pod: &Pod, host: &Host) -> Vec<(String, String)> {
    dns::config(pod, host).map(|(_, warnings)| warnings).unwrap_or_default()
}

#[cfg(test)]
mod tests;
