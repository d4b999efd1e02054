//! Whether a text can be an image's name at all: the grammar of references of distribution/reference, which the kubelet
//! asks before anything is pulled.

/// Longest name without tag and digest in bytes (`NameTotalLengthMax`).
const LONGEST: usize = 255;

/// `[domain/]path[:tag][@digest]`.
pub fn is_valid(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before a slash is a port's.
    let at = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[at..].split_once(':') {
        Some((last, tag)) => (&name[..at + last.len()], Some(tag)),
        None => (name, None),
    };
    let mut parts = name.split('/').peekable();
    let first = parts.peek().copied().unwrap_or_default();
    let has_domain = name.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    if has_domain && !is_domain(parts.next().unwrap_or_default()) {
        return false;
    }
    name.len() <= LONGEST && parts.all(is_component) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_domain(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let word = |part: &str| {
        let inside = part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        !part.is_empty() && inside && !part.starts_with('-') && !part.ends_with('-')
    };
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let good =
        address.map_or_else(|| host.split('.').all(word), |text| text.parse::<std::net::Ipv6Addr>().is_ok());
    good && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Small letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_component(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends =
        bytes.first().copied().is_some_and(alphanumeric) && bytes.last().copied().is_some_and(alphanumeric);
    let mut between =
        text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).filter(|s| !s.is_empty());
    ends && between.all(|s| matches!(s, "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=128).contains(&text.len())
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
}

/// `algorithm:hex`, of at least 32 digits.
fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && algorithm.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-' | b'_'))
            && hex.len() >= 32
            && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn names_of_images() {
        let digest = "sha256:".to_owned() + &"0a".repeat(32);
        for (image, valid) in [
            ("busybox", true),
            ("busybox:1.36", true),
            ("a/b_c/d--e__f.g", true),
            ("registry.test:5000/Upper", false),
            ("Registry.Test:5000/busybox:1", true),
            ("localhost/x", true),
            ("127.0.0.1:5000/missing:1", true),
            ("[fd00::1]:5000/x", true),
            ("[fd00]:5000/x", false),
            ("-x.test/y", false),
            ("host.test:/x", false),
            (&format!("busybox@{digest}"), true),
            (&format!("busybox:1@{digest}"), true),
            ("busybox@sha256:00", false),
            ("Not A Name", false),
            ("busybox:", false),
            ("busybox:.x", false),
            ("a//b", false),
            ("a___b", false),
            ("a-", false),
            ("", false),
            (&"a".repeat(255), true),
            (&"a".repeat(256), false),
        ] {
            assert_eq!(is_valid(image), valid, "{image}");
        }
    }
}
