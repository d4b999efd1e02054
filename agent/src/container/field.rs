//! `fieldRef`: a field of the pod as text (kubelet `podFieldSelectorRuntimeValue`, pkg/fieldpath).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::Host;
use super::error::FieldError;
use crate::pod::Pod;

/// Those that a file of a `downwardAPI` volume can have; the API server allows no other there.
pub(crate) fn is_volume_field(path: &str) -> bool {
    matches!(
        path,
        "metadata.name" | "metadata.namespace" | "metadata.uid" | "metadata.labels" | "metadata.annotations"
    ) || subscript(path).is_some()
}

/// `metadata.labels['key']`: the map's name and the key.
pub(crate) fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    matches!(map, "metadata.labels" | "metadata.annotations").then_some((map, key))
}

/// The value of a variable. A label or annotation that is not there is an empty text.
pub(super) fn field(path: &str, pod: &Pod, ips: &[IpAddr], host: &Host) -> Result<String, FieldError> {
    let joined = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let first = |ips: &[IpAddr]| ips.first().map(ToString::to_string).unwrap_or_default();
    match path {
        "spec.nodeName" => Ok(host.node_name.to_owned()),
        "spec.serviceAccountName" => Ok(pod.spec.service_account_name.clone().unwrap_or_default()),
        "status.hostIP" => Ok(first(host.host_ips)),
        "status.hostIPs" => Ok(joined(host.host_ips)),
        "status.podIP" => Ok(first(ips)),
        "status.podIPs" => Ok(joined(ips)),
        _ => pod_field(path, pod).ok_or_else(|| FieldError::Unsupported(path.to_owned())),
    }
}

/// What the manifest alone tells.
pub(crate) fn pod_field(path: &str, pod: &Pod) -> Option<String> {
    match path {
        "metadata.name" => Some(pod.name.clone()),
        "metadata.namespace" => Some(pod.namespace.clone()),
        "metadata.uid" => Some(pod.uid.clone()),
        "metadata.labels" => Some(lines(&pod.labels)),
        "metadata.annotations" => Some(lines(&pod.annotations)),
        _ => {
            let (map, key) = subscript(path)?;
            let map = if map == "metadata.labels" { &pod.labels } else { &pod.annotations };
            Some(map.get(key).cloned().unwrap_or_default())
        }
    }
}

/// `key="value"`, one a line, sorted (pkg/fieldpath `FormatMap`).
fn lines(map: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (index, (key, value)) in map.iter().enumerate() {
        let _ = write!(text, "{}{key}={}", if index > 0 { "\n" } else { "" }, quoted(value));
    }
    text
}

/// As Go's `%q` writes a text.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\u{7}' => write!(out, "\\a"),
            '\u{8}' => write!(out, "\\b"),
            '\u{c}' => write!(out, "\\f"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            '\u{b}' => write!(out, "\\v"),
            c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c)),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('"');
    out
}
