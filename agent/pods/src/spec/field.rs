//! `fieldRef` of an environment variable: a field of the pod or node as text (kubelet
//! `podFieldSelectorRuntimeValue`).

use std::net::IpAddr;

use super::Host;
use crate::fields::{FieldError, pod_field};
use nodewarden_manifest::Pod;

/// The value of a variable; empty for a label or annotation that does not exist.
pub(super) fn field(path: &str, pod: &Pod, ips: &[IpAddr], host: &Host) -> Result<String, FieldError> {
    let joined = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let first = |ips: &[IpAddr]| ips.first().map(ToString::to_string).unwrap_or_default();
    match path {
        "spec.nodeName" => Ok(host.node_name.to_owned()),
        "spec.serviceAccountName" => Ok(pod.spec().service_account_name.clone().unwrap_or_default()),
        "status.hostIP" => Ok(first(host.host_ips)),
        "status.hostIPs" => Ok(joined(host.host_ips)),
        "status.podIP" => Ok(first(ips)),
        "status.podIPs" => Ok(joined(ips)),
        _ => pod_field(path, pod).ok_or_else(|| FieldError::Unsupported(path.to_owned())),
    }
}
