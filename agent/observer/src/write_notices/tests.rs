//! The kernel's notices of writes to real cgroups.

use std::sync::mpsc::channel;

use nodewarden_machine::cgroup::fixture::TestTree;
use nodewarden_machine::cgroup::{Version, join};

use super::*;

#[test]
fn a_write_names_its_cgroup_and_process() {
    let Some(tree) = TestTree::make("write-notices") else { return };
    let Some(memory) = tree.layout.hierarchy(Controller::Memory) else {
        return nodewarden_testing::skip("there is no memory controller");
    };
    let (sender, writes) = channel();
    let notices = match WriteNotices::start(&tree.layout, move |write| drop(sender.send(write))) {
        Ok(notices) => notices,
        Err(error) => return nodewarden_testing::skip(error),
    };
    let file = if memory.version == Version::V1 { "memory.limit_in_bytes" } else { "memory.max" };
    let group = join(&memory.mount, &tree.group("limited"));
    tree.group("writer");
    let id = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&group).unwrap());
    // None of the next two changes a limit.
    std::fs::write(group.join("cgroup.procs"), "none").unwrap_err();
    std::fs::read(group.join(file)).unwrap();
    let path = group.join(file);
    let pid = tree.run("writer", &format!("echo 67108864 > {}; sleep 60", path.display()));
    let of_group = || loop {
        let write = writes.recv_timeout(Duration::from_secs(10)).unwrap();
        if write.cgroup == id {
            return write;
        }
    };
    let write = of_group();
    assert_eq!((write.hierarchy, write.cgroup, write.file, write.pid), (memory.id, id, file, pid));
    assert_eq!(write.command, "sh");
    assert!(write.writer_cgroup.ends_with("/writer"), "{write:?}");
    drop(notices);
    assert!(writes.try_iter().all(|own| own.cgroup != id || own.pid == pid));
}
