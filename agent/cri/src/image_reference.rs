//! Names of images (distribution/reference): `[domain/]path[:tag][@digest]`.

/// The domain of names without one.
const HUB: &str = "docker.io";
/// Longest name without tag and digest in bytes (`NameTotalLengthMax`).
const LONGEST: usize = 255;

/// The parts of a text as the grammar splits it, whether they are valid or not.
struct Parts<'a> {
    /// Domain and path.
    name: &'a str,
    domain: Option<&'a str>,
    path: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let (tagged, digest) = match text.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(digest)),
            None => (text, None),
        };
        // A colon before a slash belongs to a port.
        let last = tagged.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match tagged[last..].split_once(':') {
            Some((part, tag)) => (&tagged[..last + part.len()], Some(tag)),
            None => (tagged, None),
        };
        let is_domain = |part: &str| part.contains(['.', ':']) || part == "localhost";
        let (domain, path) = match name.split_once('/') {
            Some((domain, path)) if is_domain(domain) => (Some(domain), path),
            _ => (None, name),
        };
        Self { name, domain, path, tag, digest }
    }
}

/// Whether a text can be an image's name at all, which the kubelet checks before it pulls anything.
pub fn is_valid(image: &str) -> bool {
    let parts = Parts::of(image);
    parts.domain.is_none_or(is_valid_domain)
        && parts.name.len() <= LONGEST
        && parts.path.split('/').all(is_component)
        && parts.tag.is_none_or(is_tag)
        && parts.digest.is_none_or(is_digest)
}

/// A name as runtimes keep it (`ParseDockerRef`), so that a manifest's short name and the runtime's full one
/// compare equal: `busybox` as `docker.io/library/busybox:latest`; a name with a digest without its tag; an
/// id as it is.
pub fn normalized(reference: &str) -> String {
    if reference.is_empty() || reference.starts_with('@') || is_id(reference) {
        return reference.to_owned();
    }
    let parts = Parts::of(reference);
    let (domain, path) = match parts.domain {
        None | Some("index.docker.io") => (HUB, parts.path),
        Some(domain) => (domain, parts.path),
    };
    let library = if domain == HUB && !path.contains('/') { "library/" } else { "" };
    match (parts.digest, parts.tag) {
        (Some(digest), _) => format!("{domain}/{library}{path}@{digest}"),
        (None, tag) => format!("{domain}/{library}{path}:{}", tag.unwrap_or("latest")),
    }
}

/// The name of an image with its domain, without tag and digest, as credentials are looked up by it:
/// `docker.io/library/busybox` for `busybox:1`.
pub fn repository(reference: &str) -> String {
    let whole = normalized(reference);
    let named = whole.split_once('@').map_or(whole.as_str(), |(name, _)| name);
    let last = named.rfind('/').map_or(0, |slash| slash + 1);
    let end = named[last..].find(':').map_or(named.len(), |colon| last + colon);
    named[..end].to_owned()
}

fn is_valid_domain(text: &str) -> bool {
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

/// `sha256:<64 digits>`, or the digits alone.
fn is_id(reference: &str) -> bool {
    let digits = reference.strip_prefix("sha256:").unwrap_or(reference);
    digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_of_references() {
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

    #[test]
    fn a_repository_has_its_domain_and_no_tag() {
        for (reference, expected) in [
            ("busybox", "docker.io/library/busybox"),
            ("busybox:1", "docker.io/library/busybox"),
            ("registry.test:5000/a/b:1", "registry.test:5000/a/b"),
            ("registry.test:5000/a/b", "registry.test:5000/a/b"),
            ("q.io/x@sha256:00", "q.io/x"),
        ] {
            assert_eq!(repository(reference), expected);
        }
    }

    #[test]
    fn names_are_made_normalized() {
        let hex = "0a".repeat(32);
        for (reference, expected) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1", "docker.io/library/busybox:1"),
            ("docker.io/busybox", "docker.io/library/busybox:latest"),
            ("index.docker.io/a/b:2", "docker.io/a/b:2"),
            ("a/b", "docker.io/a/b:latest"),
            ("localhost/x", "localhost/x:latest"),
            ("registry.test:5000/x", "registry.test:5000/x:latest"),
            ("registry.test:5000/x:1", "registry.test:5000/x:1"),
            ("x:1@sha256:00", "docker.io/library/x@sha256:00"),
            ("q.io/x@sha256:00", "q.io/x@sha256:00"),
            (&format!("sha256:{hex}"), &format!("sha256:{hex}")),
            (&hex, &hex),
            ("", ""),
            ("@sha256:00", "@sha256:00"),
        ] {
            assert_eq!(normalized(reference), expected);
            assert_eq!(normalized(expected), expected);
        }
    }
}
