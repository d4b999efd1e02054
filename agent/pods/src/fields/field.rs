//! `fieldRef`: a field of the pod as text (kubelet `podFieldSelectorRuntimeValue`, pkg/fieldpath).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodewarden_manifest::{Pod, subscript};

/// The value of a field that the manifest alone determines; `None` for other paths.
pub fn pod_field(path: &str, pod: &Pod) -> Option<String> {
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

/// The sorted entries as `key="value"`, one per line (pkg/fieldpath `FormatMap`).
fn lines(map: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (index, (key, value)) in map.iter().enumerate() {
        let _ = write!(text, "{}{key}={}", if index > 0 { "\n" } else { "" }, quoted(value));
    }
    text
}

/// Quotes a text like Go's `%q`.
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
