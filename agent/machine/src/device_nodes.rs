//! Device nodes of the machine.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use nix::sys::stat::{major, minor};
use nodewarden_model::{HostDevice, HostDeviceKind};

/// The device nodes at a host path: the node itself, or those directly in a
/// directory, sorted by path. Links are followed; the returned path is the one that was asked for. `None` if
/// nothing exists there.
pub fn device_nodes(path: &str) -> Option<Vec<HostDevice>> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_dir() {
        return Some(node(Path::new(path)).into_iter().collect());
    }
    let entries = fs::read_dir(path).ok()?.flatten();
    let mut found: Vec<HostDevice> = entries.filter_map(|entry| node(&entry.path())).collect();
    found.sort();
    Some(found)
}

/// The device nodes that match a path of the configuration; its last component may contain `*` for any
/// characters.
pub fn matching_nodes(pattern: &str) -> Vec<HostDevice> {
    let Some((directory, last)) = pattern.rsplit_once('/').filter(|(_, last)| last.contains('*')) else {
        return node(Path::new(pattern)).into_iter().collect();
    };
    let directory = if directory.is_empty() { "/" } else { directory };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| matches(last, name)));
    let mut found: Vec<HostDevice> = named.filter_map(|entry| node(&entry.path())).collect();
    found.sort();
    found
}

/// The path below `/dev` of a device (`c 10:229`) according to sysfs; `None` if the machine does not have the
/// device.
pub fn path_of(device: &str) -> Option<String> {
    let (kind, numbers) = device.split_once(' ')?;
    let kind = if kind == "b" { "block" } else { "char" };
    let uevent = fs::read_to_string(format!("/sys/dev/{kind}/{numbers}/uevent")).ok()?;
    uevent.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(|name| format!("/dev/{name}"))
}

fn node(path: &Path) -> Option<HostDevice> {
    let metadata = fs::metadata(path).ok()?;
    let file_type = metadata.file_type();
    let kind = match (file_type.is_char_device(), file_type.is_block_device()) {
        (true, _) => HostDeviceKind::Char,
        (_, true) => HostDeviceKind::Block,
        _ => return None,
    };
    let (major, minor) = (major(metadata.rdev()), minor(metadata.rdev()));
    let (Ok(major), Ok(minor)) = (u32::try_from(major), u32::try_from(minor)) else { return None };
    Some(HostDevice { path: path.to_str()?.to_owned(), kind, major, minor })
}

/// Whether `name` matches `pattern`, in which each `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters() {
        for (pattern, name, expected) in [
            ("nvidia*", "nvidia", true),
            ("nvidia*", "nvidia0", true),
            ("nvidia*", "xnvidia", false),
            ("*ctl", "nvidiactl", true),
            ("n*c*l", "nvidiactl", true),
            ("n*x*l", "nvidiactl", false),
            ("a*a", "a", false),
            ("*", "anything", true),
            ("null", "null", true),
            ("null", "nulls", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn device_nodes_of_this_machine_are_found() {
        let null = HostDevice { path: "/dev/null".into(), kind: HostDeviceKind::Char, major: 1, minor: 3 };
        assert_eq!(device_nodes("/dev/null"), Some(vec![null.clone()]));
        assert_eq!(device_nodes("/dev/no such device"), None);
        assert_eq!(device_nodes("/proc/self/status"), Some(Vec::new()));
        assert!(device_nodes("/dev").unwrap().contains(&null));
        for pattern in ["/dev/nul*", "/dev/null"] {
            assert_eq!(matching_nodes(pattern), std::slice::from_ref(&null));
        }
        assert!(matching_nodes("/no such directory/*").is_empty());
        assert_eq!(path_of("c 1:3").as_deref(), Some("/dev/null"));
        assert_eq!(path_of("c 4095:7"), None);
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let link = link.to_str().unwrap();
        assert_eq!(device_nodes(link), Some(vec![HostDevice { path: link.into(), ..null }]));
    }
}
