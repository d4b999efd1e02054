use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use nix::mount::{MsFlags, mount, umount};

use super::*;
use crate::spec::fixture::{Fixture, pod};

/// Whether this process may mount; without it what mounts is not tested.
pub(super) fn can_mount() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let can = mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), None::<&str>).is_ok();
    if can {
        umount(dir.path()).unwrap();
    } else {
        nodewarden_testing::skip("mounting is not permitted here");
    }
    can
}

/// Unmounts what a failed test left.
pub(super) struct Cleaned(pub PathBuf);

impl Drop for Cleaned {
    fn drop(&mut self) {
        let _ = clean(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Bytes of the file system.
fn size(path: &Path) -> u64 {
    let stat = nix::sys::statvfs::statvfs(path).unwrap();
    stat.blocks() as u64 * stat.fragment_size() as u64
}

#[test]
fn directories_of_a_pod() {
    let fixture = Fixture::new();
    let pod = pod("volumes: [{name: a}, {name: b, emptyDir: {}}]\ncontainers: [{name: c}]");
    let paths = fixture.paths(&pod);
    assert!(!has_volumes(&paths.pod_dir));
    prepare(&pod, &paths, fixture.node(), "me", &PodObjects::default()).unwrap();
    assert!(paths.logs.is_dir() && has_volumes(&paths.pod_dir));
    assert_eq!(log_owner::owner(&paths.logs).as_deref(), Some("me"));
    assert_eq!((mode(&paths.pod_dir), mode(&paths.volumes())), (0o750, 0o750));
    assert_eq!([mode(&paths.empty_dir("a")), mode(&paths.empty_dir("b"))], [0o777; 2]);
    // What a container did to it stays.
    fs::set_permissions(paths.empty_dir("a"), Permissions::from_mode(0o700)).unwrap();
    fs::write(paths.empty_dir("a").join("file"), "x").unwrap();
    prepare(&pod, &paths, fixture.node(), "me", &PodObjects::default()).unwrap();
    assert_eq!(mode(&paths.empty_dir("a")), 0o700);
    assert_eq!(fs::read(paths.empty_dir("a").join("file")).unwrap(), b"x");
    assert_eq!(present(fixture.host().state_pods).unwrap(), ["u"]);
    clean(&paths.pod_dir).unwrap();
    assert!(!has_volumes(&paths.pod_dir) && paths.logs.is_dir());
    assert!(present(fixture.host().state_pods).unwrap().is_empty());
}

#[test]
fn what_is_no_pods_directory_is_not_present() {
    let dir = tempfile::tempdir().unwrap();
    assert!(present(&dir.path().join("none")).unwrap().is_empty());
    fs::create_dir(dir.path().join("b")).unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink("/", dir.path().join("link")).unwrap();
    assert_eq!(present(dir.path()).unwrap(), ["a", "b"]);
}

#[test]
fn a_group_has_its_volumes() {
    if !nix::unistd::geteuid().is_root() {
        nodewarden_testing::skip("not root");
        return;
    }
    let fixture = Fixture::new();
    let pod = pod("securityContext: {fsGroup: 4321}\nvolumes: [{name: a}]\ncontainers: [{name: c}]");
    let paths = fixture.paths(&pod);
    // Left by an agent that was killed while it created the volume.
    fs::create_dir_all(paths.empty_dir(".a.new")).unwrap();
    prepare(&pod, &paths, fixture.node(), "me", &PodObjects::default()).unwrap();
    let found = fs::metadata(paths.empty_dir("a")).unwrap();
    assert_eq!((found.gid(), mode(&paths.empty_dir("a"))), (4321, 0o2777));
    assert!(!paths.empty_dir(".a.new").exists());
}

#[test]
fn a_memory_volume_is_mounted_once_and_unmounted() {
    if !can_mount() {
        return;
    }
    let fixture = Fixture::new();
    let pod = pod(
        "securityContext: {fsGroup: 4321}\nvolumes: [{name: m, emptyDir: {medium: Memory, sizeLimit: 1Mi}}, {name: n, emptyDir: {medium: Memory}}]\ncontainers: [{name: c, resources: {limits: {memory: 64Mi}}}]",
    );
    let paths = fixture.paths(&pod);
    let _cleaned = Cleaned(paths.pod_dir.clone());
    prepare(&pod, &paths, fixture.node(), "me", &PodObjects::default()).unwrap();
    let volume = paths.empty_dir("m");
    assert_eq!((size(&volume), size(&paths.empty_dir("n"))), (1 << 20, 64 << 20));
    assert_eq!((mode(&volume), fs::metadata(&volume).unwrap().gid()), (0o3777, 4321));
    fs::write(volume.join("kept"), "x").unwrap();
    prepare(&pod, &paths, fixture.node(), "me", &PodObjects::default()).unwrap();
    assert!(volume.join("kept").exists());
    assert_eq!(mount_table::below(&fs::canonicalize(&paths.pod_dir).unwrap()).unwrap().len(), 2);
    clean(&paths.pod_dir).unwrap();
    assert!(!paths.pod_dir.exists());
}

/// Where the kernel has huge pages of 2 MiB; whether some are preallocated does not matter.
#[test]
fn huge_pages_are_mounted() {
    if !can_mount() {
        return;
    }
    if !Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB").exists() {
        nodewarden_testing::skip("no huge pages of 2 MiB");
        return;
    }
    let fixture = Fixture::new();
    let pod = pod(
        "securityContext: {fsGroup: 4321}\nvolumes: [{name: h, emptyDir: {medium: HugePages}}]\ncontainers: [{name: c, resources: {limits: {hugepages-2Mi: 4Mi, cpu: 1}}}]",
    );
    let paths = fixture.paths(&pod);
    let _cleaned = Cleaned(paths.pod_dir.clone());
    prepare(&pod, &paths, fixture.node(), "me", &PodObjects::default()).unwrap();
    let volume = paths.empty_dir("h");
    let kind = nix::sys::statfs::statfs(&volume).unwrap();
    assert_eq!((kind.filesystem_type(), kind.block_size()), (nix::sys::statfs::HUGETLBFS_MAGIC, 2 << 20));
    assert_eq!((mode(&volume), fs::metadata(&volume).unwrap().gid()), (0o2775, 4321));
    clean(&paths.pod_dir).unwrap();
}

#[test]
fn a_fault_names_its_volume() {
    let fixture = Fixture::new();
    let faulty = |volume: &str| {
        let pod = pod(&format!("volumes: [{{name: v, {volume}}}]\ncontainers: [{{name: c}}]"));
        prepare(&pod, &fixture.paths(&pod), fixture.node(), "me", &PodObjects::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        faulty("emptyDir: {medium: HugePages}"),
        "MountVolume.SetUp failed for volume \"v\" : medium HugePages needs huge pages of one size among the containers' limits"
    );
    assert_eq!(
        faulty("secret: {secretName: s}"),
        "MountVolume.SetUp failed for volume \"v\" : secret \"s\" needs an API server, and this agent has none"
    );
}

#[test]
fn downward_files_follow_a_resize() {
    let fixture = Fixture::new();
    let spec = "volumes: [{name: d, downwardAPI: {items: [{path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}]}}]\ncontainers: [{name: c, resources: {limits: {cpu: 100m}}}]";
    let before = pod(spec);
    let paths = fixture.paths(&before);
    prepare(&before, &paths, fixture.node(), "me", &PodObjects::default()).unwrap();
    let file = paths.downward_api("d").join("cpu");
    let write = |pod: &Pod| write_files(pod, &paths, fixture.node(), &PodObjects::default());
    assert_eq!(fs::read_to_string(&file).unwrap(), "100");
    assert_eq!(write(&before).unwrap().changed, [""; 0]);
    assert_eq!(write(&pod(&spec.replace("100m", "300m"))).unwrap().changed, ["d"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "300");
    assert!(write(&pod(&spec.replace("path: cpu", "path: ../cpu"))).is_err());
}
