//! Device nodes of a machine whose file system is seen at some root.

use std::path::{Path, PathBuf};

use nodewarden_machine::device_nodes::{device_nodes, matching_nodes};
use nodewarden_model::{HostDevice, HostDeviceKind};

/// What a device is to the kernel.
pub type Numbers = (HostDeviceKind, u32, u32);

/// The kernel's identity of a device node.
pub fn numbers(device: &HostDevice) -> Numbers {
    (device.kind, device.major, device.minor)
}

/// `c 10:229`
pub fn name((kind, major, minor): Numbers) -> String {
    let kind = if kind == HostDeviceKind::Block { 'b' } else { 'c' };
    format!("{kind} {major}:{minor}")
}

/// Where the file system of the machine is seen. Its calls block.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The device node at a path of the machine, or those in a directory there; `None` if nothing is there.
    /// Paths outside of `/dev` are not looked at: they may be on a file system that does not answer.
    pub fn nodes(&self, path: &str) -> Option<Vec<HostDevice>> {
        self.is_looked_at(path).then(|| device_nodes(&self.seen(path)).map(|found| self.unseen(found)))?
    }

    /// The device nodes that match a path of the configuration.
    pub fn matching(&self, pattern: &str) -> Vec<HostDevice> {
        match self.is_looked_at(pattern) {
            true => self.unseen(matching_nodes(&self.seen(pattern))),
            false => Vec::new(),
        }
    }

    fn is_looked_at(&self, path: &str) -> bool {
        path.starts_with("/dev/") && !path.split('/').any(|part| part == "..")
    }

    fn seen(&self, path: &str) -> String {
        let root = self.0.to_string_lossy();
        format!("{}{path}", root.trim_end_matches('/'))
    }

    fn unseen(&self, found: Vec<HostDevice>) -> Vec<HostDevice> {
        let root = self.0.to_string_lossy();
        let root = root.trim_end_matches('/');
        let own = |device: HostDevice| HostDevice {
            path: device.path.strip_prefix(root).unwrap_or(&device.path).to_owned(),
            ..device
        };
        found.into_iter().map(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_machine() {
        let null = HostDevice { path: "/dev/null".into(), kind: HostDeviceKind::Char, major: 1, minor: 3 };
        for root in ["/", "/proc/self/root", "/proc/self/root/"] {
            let root = Root::new(Path::new(root));
            assert_eq!(root.nodes("/dev/null"), Some(vec![null.clone()]), "{root:?}");
            assert_eq!(root.matching("/dev/nul*"), std::slice::from_ref(&null), "{root:?}");
            assert_eq!(root.nodes("/dev/no such device"), None);
        }
        let root = Root::new(Path::new("/"));
        for outside in ["/proc/self", "/dev/../proc", "dev/null"] {
            assert_eq!(root.nodes(outside), None, "{outside}");
        }
        assert_eq!(name(numbers(&null)), "c 1:3");
    }
}
