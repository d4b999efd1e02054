//! Which images a registry's address in a configuration means (kubelet credentialprovider `URLsMatch`).

/// Whether an image's name is below an address, whose parts between dots may have `*` and `?`. Both are
/// without scheme: `*.registry.test:5000/team`.
pub(super) fn matches(address: &str, image: &str) -> bool {
    let (host, path) = split(address);
    let (image_host, image_path) = split(image);
    let (host, port) = split_port(host);
    let (image_host, image_port) = split_port(image_host);
    let parts: Vec<&str> = host.split('.').collect();
    let image_parts: Vec<&str> = image_host.split('.').collect();
    port == image_port
        && parts.len() == image_parts.len()
        && image_path.starts_with(path)
        && parts.iter().zip(&image_parts).all(|(part, image)| glob(part.as_bytes(), image.as_bytes()))
}

/// Host with port, and path with its slash.
pub(super) fn split(address: &str) -> (&str, &str) {
    address.find('/').map_or((address, ""), |slash| address.split_at(slash))
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (host, ""),
    }
}

/// `*` and `?`, as Go's `filepath.Match` has them.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=text.len()).any(|skip| glob(rest, &text[skip..])),
        (Some((b'?', rest)), Some((_, text))) => glob(rest, text),
        (Some((a, rest)), Some((b, text))) => a == b && glob(rest, text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn an_address_means_the_images_below_it() {
        for (address, image, good) in [
            ("registry.test", "registry.test/a/b", true),
            ("registry.test/a", "registry.test/a/b", true),
            ("registry.test/c", "registry.test/a/b", false),
            ("*.test", "registry.test/a", true),
            ("*.test", "a.b.test/x", false),
            ("*.*.test", "a.b.test/x", true),
            ("reg*.t?st", "registry.test/x", true),
            ("registry.test:5000", "registry.test:5000/x", true),
            ("registry.test", "registry.test:5000/x", false),
            ("registry.test:5000", "registry.test/x", false),
            ("other.test", "registry.test/x", false),
        ] {
            assert_eq!(matches(address, image), good, "{address} {image}");
        }
    }
}
