//! Names of images as runtimes keep them (distribution/reference `ParseDockerRef`), so that a manifest's short name and
//! the runtime's whole one compare equal.

const HUB: &str = "docker.io";

/// `busybox` as `docker.io/library/busybox:latest`; a name with a digest without its tag; an id as it is.
pub fn whole(reference: &str) -> String {
    let (name, digest) = match reference.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (reference, None),
    };
    if name.is_empty() || is_id(reference) {
        return reference.to_owned();
    }
    // A colon before a slash is a port's.
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (bare, tag) = match name[last..].split_once(':') {
        Some((part, tag)) => (&name[..last + part.len()], tag),
        None => (name, "latest"),
    };
    let is_domain = |part: &str| part.contains(['.', ':']) || part == "localhost";
    let (domain, path) = match bare.split_once('/') {
        Some((domain, path)) if is_domain(domain) => (domain, path),
        _ => (HUB, bare),
    };
    let domain = if domain == "index.docker.io" { HUB } else { domain };
    let library = if domain == HUB && !path.contains('/') { "library/" } else { "" };
    match digest {
        Some(digest) => format!("{domain}/{library}{path}@{digest}"),
        None => format!("{domain}/{library}{path}:{tag}"),
    }
}

/// `sha256:<64 digits>`, or the digits alone.
fn is_id(reference: &str) -> bool {
    let digits = reference.strip_prefix("sha256:").unwrap_or(reference);
    digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn names_are_made_whole() {
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
        ] {
            assert_eq!(whole(reference), expected);
            assert_eq!(whole(expected), expected);
        }
    }
}
