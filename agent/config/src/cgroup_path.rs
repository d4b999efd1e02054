//! Parses paths of cgroups in the kubelet's configuration file.

use crate::fields::Fields;

/// Description of the texts that [`clean`] accepts.
const EXPECTED: &str = "a cgroup as an absolute path like /system.slice";
const EXPECTED_BELOW: &str = "a cgroup below the root as an absolute path like /system.slice";

/// Normalizes a cgroup's path to one slash before each component. As in the kubelet, `a/b` means `/a/b`
/// (`ParseCgroupfsToCgroupName`). `None` if the text is not a path of a cgroup.
pub fn clean(text: &str) -> Option<String> {
    let mut path = String::new();
    for part in text.split('/').filter(|p| !p.is_empty()) {
        if part == "." || part == ".." || part.chars().any(char::is_control) {
            return None;
        }
        path.push('/');
        path.push_str(part);
    }
    Some(if path.is_empty() { "/".to_owned() } else { path })
}

/// Reads a cgroup's path; `None` for an empty text.
pub fn take(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    optional(fields, key, EXPECTED, clean)
}

/// Reads a cgroup's path, which must not be the root.
pub fn take_below_root(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    optional(fields, key, EXPECTED_BELOW, |t| clean(t).filter(|path| path != "/"))
}

fn optional(
    fields: &mut Fields<'_>,
    key: &'static str,
    expected: &str,
    read: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    fields.text(key, expected, |t| if t.is_empty() { Some(None) } else { read(t).map(Some) }).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_in_the_kubelet() {
        for (text, path) in [
            ("/", Some("/")),
            ("/a/b", Some("/a/b")),
            ("a/b", Some("/a/b")),
            ("/a/", Some("/a")),
            ("//a//b", Some("/a/b")),
            ("/system.slice/kubelet.service", Some("/system.slice/kubelet.service")),
            ("/a/../b", None),
            ("/./a", None),
            ("/a\nb", None),
        ] {
            assert_eq!(clean(text).as_deref(), path, "{text:?}");
        }
    }
}
