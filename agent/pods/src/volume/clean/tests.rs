use std::os::unix::fs::symlink;

use nix::mount::{MsFlags, mount, umount};

use super::super::tests::{Cleaned, can_mount};
use super::*;

fn bind(from: &Path, to: &Path) {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
}

#[test]
fn removing_a_missing_directory_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    clean(&dir.path().join("none")).unwrap();
    clean(&dir.path().join("none/below")).unwrap();
}

#[test]
fn links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    let pod_dir = dir.path().join("pods/u");
    fs::create_dir_all(pod_dir.join("volumes/p/v/deep")).unwrap();
    symlink(&outside, pod_dir.join("volumes/p/v/link")).unwrap();
    symlink(outside.join("kept"), pod_dir.join("volumes/p/v/deep/file")).unwrap();
    symlink("..", pod_dir.join("volumes/p/up")).unwrap();
    fs::hard_link(outside.join("kept"), pod_dir.join("hard")).unwrap();
    clean(&pod_dir).unwrap();
    assert!(!pod_dir.exists());
    assert_eq!(fs::read(outside.join("kept")).unwrap(), b"x");
    // A link in place of the pod's directory is refused.
    symlink(&outside, &pod_dir).unwrap();
    assert!(clean(&pod_dir).is_err());
    assert!(outside.join("kept").exists());
}

#[test]
fn trees_deeper_than_the_limit_of_open_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let pod_dir = dir.path().join("u");
    fs::create_dir(&pod_dir).unwrap();
    let mut at = open(&pod_dir, DIRECTORY, Mode::empty()).unwrap();
    for level in 0..300 {
        nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
        if level % 7 == 0 {
            nix::sys::stat::mkdirat(&at, "e", Mode::S_IRWXU).unwrap();
        }
        at = openat(&at, "d", DIRECTORY, Mode::empty()).unwrap();
    }
    drop(at);
    clean(&pod_dir).unwrap();
    assert!(!pod_dir.exists());
}

#[test]
fn mounts_are_removed_first_and_their_contents_are_kept() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir_all(outside.join("below")).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    fs::write(outside.join("below/kept"), "x").unwrap();
    let pod_dir = dir.path().join("a pod_dir\\with\ttabs");
    let _cleaned = Cleaned(pod_dir.clone());
    let [volume, part, file] =
        ["volumes/p/v", "volume-subpaths/v/c/0", "volume-subpaths/v/c/1"].map(|p| pod_dir.join(p));
    fs::create_dir_all(&volume).unwrap();
    fs::create_dir_all(&part).unwrap();
    fs::write(&file, "").unwrap();
    mount(Some("tmpfs"), &volume, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    fs::create_dir(volume.join("inner")).unwrap();
    bind(&outside, &volume.join("inner"));
    bind(&outside, &part);
    bind(&outside, &part);
    bind(&outside.join("kept"), &file);
    // The mount is still in use.
    let _used = fs::File::open(part.join("below/kept")).unwrap();
    clean(&pod_dir).unwrap();
    assert!(!pod_dir.exists());
    assert!(outside.join("kept").exists() && outside.join("below/kept").exists());
}

/// The second safeguard: something is mounted after the mounts were removed.
#[test]
fn removal_stops_at_a_mount() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    let pod_dir = dir.path().join("u");
    fs::create_dir_all(pod_dir.join("v")).unwrap();
    // A bind mount of the same file system has the same device number.
    bind(&outside, &pod_dir.join("v"));
    let top = open(&pod_dir, DIRECTORY, Mode::empty()).unwrap();
    let mut removal = Removal { top: top.as_fd(), pod_dir: &pod_dir, moved: 0 };
    let result = removal.empty(top.as_fd(), &pod_dir, 0);
    umount(&pod_dir.join("v")).unwrap();
    assert!(matches!(&result, Err(VolumeError::Mounted(at)) if *at == pod_dir.join("v")), "{result:?}");
    assert!(outside.join("kept").exists());
}
