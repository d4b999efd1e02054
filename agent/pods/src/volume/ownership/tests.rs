use std::os::unix::fs::{MetadataExt, chown, symlink};

use super::*;
use crate::spec::fixture::pod;

const GROUP: u32 = 4321;

fn owned(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.gid(), found.mode() & 0o7777)
}

fn file(path: &Path, mode: u32) {
    fs::write(path, "x").unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn directory(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn wanted(on_root_mismatch: bool) -> Wanted {
    Wanted { group: GROUP, on_root_mismatch }
}

fn may_chown() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        nodewarden_testing::skip("not root");
    }
    is_root
}

#[test]
fn the_group_may_read_and_write_and_enter_directories() {
    for (mode, is_dir, expected) in [
        (0o600, false, 0o660),
        (0o400, false, 0o660),
        (0o755, false, 0o775),
        (0o4755, false, 0o4775),
        (0o000, false, 0o660),
        (0o700, true, 0o2770),
        (0o1777, true, 0o3777),
        (0o2775, true, 0o2775),
    ] {
        assert_eq!(with_group(mode, is_dir), expected, "{mode:o} {is_dir}");
    }
}

#[test]
fn a_pod_says_which_group_and_when() {
    for (context, expected) in [
        ("{}", None),
        ("{fsGroupChangePolicy: OnRootMismatch}", None),
        ("{fsGroup: 4321}", Some(wanted(false))),
        ("{fsGroup: 4321, fsGroupChangePolicy: Always}", Some(wanted(false))),
        ("{fsGroup: 4321, fsGroupChangePolicy: OnRootMismatch}", Some(wanted(true))),
    ] {
        let pod = pod(&format!("securityContext: {context}\ncontainers: [{{name: c}}]"));
        assert_eq!(Wanted::of(pod.spec().security_context.as_ref()), expected, "{context}");
    }
}

#[test]
fn everything_in_the_volume_is_the_groups_and_nothing_else() {
    if !may_chown() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("volume"), dir.path().join("outside"));
    directory(&outside, 0o700);
    file(&outside.join("file"), 0o600);
    directory(&root, 0o755);
    directory(&root.join("a"), 0o700);
    directory(&root.join("a/b"), 0o700);
    file(&root.join("a/b/deep"), 0o600);
    file(&root.join("program"), 0o4755);
    symlink(&outside, root.join("directory-outside")).unwrap();
    symlink(outside.join("file"), root.join("a/file-outside")).unwrap();
    nix::unistd::mkfifo(&root.join("pipe"), Mode::S_IRUSR).unwrap();
    give(&root, wanted(false), &Moves::default()).unwrap();
    for (path, mode) in [
        ("", 0o2775),
        ("a", 0o2770),
        ("a/b", 0o2770),
        ("a/b/deep", 0o660),
        ("program", 0o4775),
        ("pipe", 0o660),
    ] {
        assert_eq!(owned(&root.join(path)), (GROUP, mode), "{path}");
    }
    // Links belong to the group themselves; what they lead to is as it was.
    for link in ["directory-outside", "a/file-outside"] {
        assert_eq!(owned(&root.join(link)).0, GROUP, "{link}");
    }
    let own = fs::metadata(dir.path()).unwrap().gid();
    assert_eq!(owned(&outside), (own, 0o700));
    assert_eq!(owned(&outside.join("file")), (own, 0o600));
}

#[test]
fn a_root_that_matches_ends_it_if_the_pod_says_so() {
    if !may_chown() {
        return;
    }
    for (on_root_mismatch, group, mode, changed) in [
        (true, GROUP, 0o2770, false),
        (true, GROUP, 0o2777, false),
        (true, GROUP, 0o770, true),
        (true, GROUP, 0o2750, true),
        (true, 1, 0o2770, true),
        (false, GROUP, 0o2770, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("volume");
        directory(&root, 0o700);
        file(&root.join("file"), 0o600);
        chown(&root, None, Some(group)).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(mode)).unwrap();
        give(&root, wanted(on_root_mismatch), &Moves::default()).unwrap();
        let is_changed = owned(&root.join("file")) == (GROUP, 0o660);
        assert_eq!(is_changed, changed, "{on_root_mismatch} {group} {mode:o}");
        assert_eq!(group_of(&root).unwrap(), GROUP);
    }
}

#[test]
fn a_volume_that_cannot_be_read_is_an_error_and_its_root_does_not_match() {
    if !may_chown() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(give(&dir.path().join("none"), wanted(false), &Moves::default()).is_err());
    let root = dir.path().join("volume");
    directory(&root, 0o755);
    // Deeper than names reach: made and removed by descriptors.
    let mut at = open(&root, OFlag::O_PATH, Mode::empty()).unwrap();
    for _ in 0..=DEPTH {
        nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
        at = openat(&at, "d", OFlag::O_PATH, Mode::empty()).unwrap();
    }
    assert!(give(&root, wanted(false), &Moves::default()).is_err());
    assert_eq!(owned(&root).1, 0o755);
    let stopped = Moves::default();
    stopped.stop();
    assert!(give(&root, wanted(false), &stopped).is_err());
}
