//! Writes the kubelet's file: the output of `json.Marshal` for `checkpoint.Data`, byte for byte.

use std::sync::Arc;

use nodewarden_model::fnv::Fnv32a;

use super::text::{self, Decimal, Entry};
use super::{Checkpoint, PodDevicesEntry};

/// Writes successive checkpoints. Encoding and hashing continue from the first entry that is another one than
/// in the previous checkpoint: they are most of the work, and appended entries leave the rest unchanged.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The entries of the previous checkpoint, encoded.
    encoded: Vec<u8>,
    /// Each of them, where it ends in `encoded`, and the hash up to there.
    previous: Vec<(Arc<PodDevicesEntry>, usize, Fnv32a)>,
}

impl Writer {
    /// The file's content.
    pub fn bytes(&mut self, checkpoint: &Checkpoint) -> Vec<u8> {
        const BEGIN: &[u8] = b"{\"Data\":{\"PodDeviceEntries\":";
        let mut hash = self.encode(&checkpoint.entries);
        let registered_size: usize =
            checkpoint.registered.values().flat_map(|ids| ids.iter()).map(|id| id.len() + 3).sum();
        let mut out = Vec::with_capacity(1024 + self.encoded.len() + registered_size);
        out.extend(BEGIN);
        out.extend(&self.encoded);
        let nil = checkpoint.entries.is_empty();
        out.extend(if nil { b"null".as_slice() } else { b"]" });
        hash.put(if nil { b"<nil>".as_slice() } else { b"]" });
        text::end(&mut hash, Some(registered(checkpoint)));
        out.extend(b",\"RegisteredDevices\":{");
        for (i, (name, ids)) in checkpoint.registered.iter().enumerate() {
            comma(&mut out, i);
            string(&mut out, name);
            out.push(b':');
            strings(&mut out, &**ids);
        }
        out.extend(b"}},\"Checksum\":");
        out.extend(Decimal::of(i64::from(hash.value())).text());
        out.push(b'}');
        out
    }

    /// Makes [`Writer::encoded`] that of these entries, and returns the hash up to their end.
    fn encode(&mut self, entries: &[Arc<PodDevicesEntry>]) -> Fnv32a {
        let pairs = self.previous.iter().zip(entries);
        let same = pairs.take_while(|(previous, entry)| Arc::ptr_eq(&previous.0, entry)).count();
        self.previous.truncate(same);
        let (end, mut hash) = self.previous.last().map_or_else(
            || {
                let mut hash = Fnv32a::new();
                text::begin(&mut hash);
                (0, hash)
            },
            |(_, end, hash)| (*end, *hash),
        );
        self.encoded.truncate(end);
        for (i, entry) in entries.iter().enumerate().skip(same) {
            self.encoded.push(if i == 0 { b'[' } else { b',' });
            json(&mut self.encoded, entry);
            text::entry(&mut hash, i, values(entry));
            self.previous.push((entry.clone(), self.encoded.len(), hash));
        }
        hash
    }
}

/// Writes the text that the checksum covers.
#[cfg(test)]
pub(super) fn put(checkpoint: &Checkpoint, sink: &mut impl text::Sink) {
    let entries = checkpoint.entries.iter().map(|entry| values(entry));
    text::put(sink, (!checkpoint.entries.is_empty()).then_some(entries), Some(registered(checkpoint)));
}

/// The entry's values as in Go: nil for empty lists.
fn values(
    entry: &PodDevicesEntry,
) -> Entry<'_, impl Iterator<Item = (i64, Option<impl Iterator<Item = &str>>)>> {
    Entry {
        pod: &entry.pod_uid,
        container: &entry.container_name,
        resource: &entry.resource_name,
        devices: Some(entry.device_ids.iter().map(|(node, set)| (*node, some(set)))),
        response: entry.alloc_resp.as_deref(),
    }
}

fn registered(checkpoint: &Checkpoint) -> impl Iterator<Item = (&str, Option<impl Iterator<Item = &str>>)> {
    checkpoint.registered.iter().map(|(name, ids)| (name.as_str(), some(&**ids)))
}

/// The ids, or nil if there are none.
fn some<'a, L: ?Sized>(ids: &'a L) -> Option<impl Iterator<Item = &'a str>>
where
    &'a L: IntoIterator<Item = &'a String>,
{
    let mut ids = ids.into_iter().map(String::as_str).peekable();
    ids.peek().is_some().then_some(ids)
}

fn json(out: &mut Vec<u8>, entry: &PodDevicesEntry) {
    out.extend(b"{\"PodUID\":");
    string(out, &entry.pod_uid);
    out.extend(b",\"ContainerName\":");
    string(out, &entry.container_name);
    out.extend(b",\"ResourceName\":");
    string(out, &entry.resource_name);
    out.extend(b",\"DeviceIDs\":{");
    // Go sorts keys as strings: "10" is before "2".
    let mut nodes: Vec<_> = entry.device_ids.iter().map(|(node, ids)| (Decimal::of(*node), ids)).collect();
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

/// Writes a string escaped like Go's encoding/json (1.22 and later, with `\b` and `\f`), which also escapes
/// `<`, `>`, `&` and the two line separators.
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

/// Writes bytes as a base64 string: standard alphabet, padded, quoted.
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
