//! To the kubelet's file: what `json.Marshal` makes of `checkpoint.Data`, byte for byte.

use std::collections::BTreeSet;

use super::Checkpoint;
use super::text::{self, Decimal, Entry, Fnv, Sink};

pub(super) fn bytes(checkpoint: &Checkpoint) -> Vec<u8> {
    let responses =
        checkpoint.entries.iter().flat_map(|entry| &entry.alloc_resp).map(Vec::len).sum::<usize>();
    let mut out = Vec::with_capacity(256 + checkpoint.entries.len() * 320 + responses * 4 / 3);
    out.extend(b"{\"Data\":{\"PodDeviceEntries\":");
    entries(&mut out, checkpoint);
    out.extend(b",\"RegisteredDevices\":{");
    for (i, (name, ids)) in checkpoint.registered.iter().enumerate() {
        comma(&mut out, i);
        string(&mut out, name);
        out.push(b':');
        strings(&mut out, ids);
    }
    out.extend(b"}},\"Checksum\":");
    let mut hash = Fnv::new();
    put(checkpoint, &mut hash);
    out.extend(Decimal::of(i64::from(hash.0)).text());
    out.push(b'}');
    out
}

/// The text that the checksum is of.
pub(super) fn put(checkpoint: &Checkpoint, sink: &mut impl Sink) {
    let entries = checkpoint.entries.iter().map(|entry| Entry {
        pod: &entry.pod_uid,
        container: &entry.container_name,
        resource: &entry.resource_name,
        devices: Some(entry.device_ids.iter().map(|(node, ids)| (*node, some(ids)))),
        response: entry.alloc_resp.as_deref(),
    });
    let registered = checkpoint.registered.iter().map(|(name, ids)| {
        let ids = (!ids.is_empty()).then(|| ids.iter().map(String::as_str));
        (name.as_str(), ids)
    });
    text::put(sink, (!checkpoint.entries.is_empty()).then_some(entries), Some(registered));
}

/// Nil where there are none.
fn some(ids: &BTreeSet<String>) -> Option<impl Iterator<Item = &str>> {
    (!ids.is_empty()).then(|| ids.iter().map(String::as_str))
}

fn entries(out: &mut Vec<u8>, checkpoint: &Checkpoint) {
    if checkpoint.entries.is_empty() {
        return out.extend(b"null");
    }
    out.push(b'[');
    for (i, entry) in checkpoint.entries.iter().enumerate() {
        comma(out, i);
        out.extend(b"{\"PodUID\":");
        string(out, &entry.pod_uid);
        out.extend(b",\"ContainerName\":");
        string(out, &entry.container_name);
        out.extend(b",\"ResourceName\":");
        string(out, &entry.resource_name);
        out.extend(b",\"DeviceIDs\":{");
        // Go sorts keys as strings: "10" is before "2".
        let mut nodes: Vec<_> =
            entry.device_ids.iter().map(|(node, ids)| (Decimal::of(*node), ids)).collect();
        nodes.sort_by(|a, b| a.0.text().cmp(b.0.text()));
        for (i, (node, ids)) in nodes.iter().enumerate() {
            comma(out, i);
            out.push(b'"');
            out.extend(node.text());
            out.extend(b"\":");
            strings(out, *ids);
        }
        out.extend(b"},\"AllocResp\":");
        match &entry.alloc_resp {
            Some(bytes) => base64(out, bytes),
            None => out.extend(b"null"),
        }
        out.push(b'}');
    }
    out.push(b']');
}

fn comma(out: &mut Vec<u8>, i: usize) {
    if i > 0 {
        out.push(b',');
    }
}

fn strings<'a>(out: &mut Vec<u8>, ids: impl IntoIterator<Item = &'a String>) {
    let mut ids = ids.into_iter().peekable();
    if ids.peek().is_none() {
        return out.extend(b"null");
    }
    out.push(b'[');
    for (i, id) in ids.enumerate() {
        comma(out, i);
        string(out, id);
    }
    out.push(b']');
}

/// As Go's encoding/json escapes (1.22 and later: with `\b` and `\f`): also `<`, `>`, `&` and the two line separators.
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let plain = |byte: u8| (b' '..0x80).contains(&byte) && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&');
    if text.bytes().all(plain) {
        out.extend(text.as_bytes());
    } else {
        for c in text.chars() {
            let escaped = match c {
                '"' => "\\\"",
                '\\' => "\\\\",
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                '\u{8}' => "\\b",
                '\u{c}' => "\\f",
                '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    out.extend(format!("\\u{:04x}", u32::from(c)).as_bytes());
                    continue;
                }
                c => {
                    out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
                    continue;
                }
            };
            out.extend(escaped.as_bytes());
        }
    }
    out.push(b'"');
}

/// Standard alphabet, padded, quoted.
fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b'"');
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        let letter = |shift: u32| ALPHABET[(word >> shift & 63) as usize];
        let third = if three.len() > 1 { letter(6) } else { b'=' };
        let fourth = if three.len() > 2 { letter(0) } else { b'=' };
        out.extend([letter(18), letter(12), third, fourth]);
    }
    out.push(b'"');
}
