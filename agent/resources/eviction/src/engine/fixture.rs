//! What the tests of the engine are made of.

use std::path::PathBuf;

use nodewarden_machine::cgroup::{Facts, Layout, MountFact, Version};

/// A machine with one cgroup v2 tree that has every controller and no files.
pub fn v2_layout() -> Layout {
    let mount = MountFact {
        root: "/".to_owned(),
        mount_point: PathBuf::from("/c"),
        version: Version::V2,
        controllers: ["cpu", "cpuset", "hugetlb", "io", "memory", "pids"].map(str::to_owned).into(),
        visible: true,
    };
    Layout::decide(&Facts { mounts: vec![mount], ..Facts::default() }).unwrap()
}
