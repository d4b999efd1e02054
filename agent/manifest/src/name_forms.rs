//! The forms of names (apimachinery util/validation).

/// RFC 1123 label: `[a-z0-9]([-a-z0-9]*[a-z0-9])?`, at most 63 characters.
pub(crate) fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Labels joined by dots, at most 253 characters together.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    bounded_by(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), |b| b == b'-')
}

/// `name` or `domain/name`; names of at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at
/// each end.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    domain.is_none_or(is_dns_subdomain)
        && name.len() <= 63
        && bounded_by(name, |b| b.is_ascii_alphanumeric(), |b| matches!(b, b'-' | b'_' | b'.'))
}

/// `IsConfigMapKey`: at most 253 letters, digits, `-`, `_` and `.`, not `.` and not beginning with `..`.
pub(crate) fn is_config_key(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text != "."
        && !text.starts_with("..")
}

/// RFC 6335 as Kubernetes has it (`IsValidPortName`): 1 to 15 lower-case letters, digits and `-`, one letter
/// at least.
pub(crate) fn is_port_name(text: &str) -> bool {
    text.len() <= 15
        && is_dns_part(text)
        && !text.contains("--")
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Empty, or at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at each end.
pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || (!text.contains('/') && is_qualified_name(text))
}

/// Whether a text begins and ends with bytes that match `end`, with bytes between them that match `end` or
/// `inner`.
fn bounded_by(text: &str, end: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| end(*b))
        && bytes.last().is_some_and(|b| end(*b))
        && bytes.iter().all(|b| end(*b) || inner(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_form_are_recognised() {
        let (l63, l64) = ("a".repeat(63), "a".repeat(64));
        for good in ["a", "0", "a-b", "web-1", &l63] {
            assert!(is_dns_label(good) && is_dns_subdomain(good) && is_qualified_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "ä", "a b", " a", "..", "a\n"] {
            assert!(!is_dns_label(bad) && !is_dns_subdomain(bad), "{bad:?}");
        }
        assert!(!is_dns_label(&l64) && is_dns_subdomain(&l64) && !is_qualified_name(&l64));
        assert!(!is_dns_label("a.b") && is_dns_subdomain("a.b") && is_qualified_name("a.b"));
        assert!(!is_dns_subdomain("a..b") && !is_dns_subdomain(".a"));
        assert!(!is_dns_subdomain(&["a"; 128].join(".")));
        for good in ["nvidia.com/gpu", "A_b.c", "example.com/Foo"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for good in ["http", "a", "web-1", "1a"] {
            assert!(is_port_name(good), "{good}");
        }
        for bad in ["", "1", "80-1", "a--b", "-a", "a-", "A", "a_b", "abcdefghijklmnop"] {
            assert!(!is_port_name(bad), "{bad}");
        }
        for good in ["", "a", "A.b_c-1", &l63] {
            assert!(is_label_value(good), "{good}");
        }
        for bad in ["-a", "a/b", "a b", &l64] {
            assert!(!is_label_value(bad), "{bad}");
        }
        for bad in ["", "/", "a/", "/a", "a/b/c", "_a", "A.com/b", "a/ä"] {
            assert!(!is_qualified_name(bad), "{bad:?}");
        }
    }
}
