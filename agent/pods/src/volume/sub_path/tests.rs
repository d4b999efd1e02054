use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::tests::{Cleaned, can_mount};
use super::*;

/// A volume, a secret outside it, and a pod's directory.
struct Stage {
    dir: tempfile::TempDir,
    _cleaned: Cleaned,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for path in ["volume", "secret", "pod_dir"] {
            fs::create_dir(dir.path().join(path)).unwrap();
        }
        fs::write(dir.path().join("secret/key"), "secret").unwrap();
        let cleaned = Cleaned(dir.path().join("pod_dir"));
        Self { dir, _cleaned: cleaned }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn target(&self) -> PathBuf {
        self.at("pod_dir/volume-subpaths/v/c/0")
    }

    fn bind(&self, path: &str) -> Result<(), VolumeError> {
        bind(&hold(&self.at("volume"), path)?, &self.target())
    }
}

#[test]
fn files_directories_and_what_is_missing() {
    if !can_mount() {
        return;
    }
    let stage = Stage::new();
    fs::create_dir(stage.at("volume/dir")).unwrap();
    fs::write(stage.at("volume/dir/file"), "one").unwrap();
    fs::set_permissions(stage.at("volume"), fs::Permissions::from_mode(0o2775)).unwrap();
    stage.bind("dir").unwrap();
    assert_eq!(fs::read(stage.target().join("file")).unwrap(), b"one");
    // Another part at the same place replaces the earlier mount.
    stage.bind("dir/file").unwrap();
    assert_eq!(fs::read(stage.target()).unwrap(), b"one");
    stage.bind("./new//deep/").unwrap();
    fs::write(stage.target().join("x"), "two").unwrap();
    assert_eq!(fs::read(stage.at("volume/new/deep/x")).unwrap(), b"two");
    for made in ["volume/new", "volume/new/deep"] {
        assert_eq!(fs::metadata(stage.at(made)).unwrap().permissions().mode() & 0o7777, 0o2775, "{made}");
    }
    stage.bind(".").unwrap();
    assert!(stage.target().join("dir").exists());
    let mounts = mount_table::below(&fs::canonicalize(stage.at("pod_dir")).unwrap()).unwrap();
    assert_eq!(mounts.len(), 1, "{mounts:?}");
}

#[test]
fn links_inside_are_followed() {
    if !can_mount() {
        return;
    }
    let stage = Stage::new();
    fs::create_dir_all(stage.at("volume/a/b")).unwrap();
    fs::write(stage.at("volume/a/b/f"), "x").unwrap();
    symlink("a/b", stage.at("volume/link")).unwrap();
    symlink("../a/../link", stage.at("volume/a/round")).unwrap();
    stage.bind("a/round").unwrap();
    assert_eq!(fs::read(stage.target().join("f")).unwrap(), b"x");
}

#[test]
fn nothing_leads_out() {
    let stage = Stage::new();
    let secret = stage.at("secret");
    symlink(&secret, stage.at("volume/absolute")).unwrap();
    symlink("../secret", stage.at("volume/relative")).unwrap();
    symlink("/proc/self/cwd", stage.at("volume/magic")).unwrap();
    symlink("loop", stage.at("volume/loop")).unwrap();
    for path in [
        "../secret",
        "/etc",
        "a/../../secret",
        "absolute",
        "absolute/key",
        "absolute/new",
        "relative",
        "relative/key",
        "relative/new/deeper",
        "magic",
        "loop",
    ] {
        let result = stage.bind(path);
        assert!(matches!(result, Err(VolumeError::Escape { .. })), "{path}: {result:?}");
    }
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
}

/// The walk of older kernels follows no link at all.
#[test]
fn without_openat2() {
    let stage = Stage::new();
    fs::create_dir_all(stage.at("volume/a/b")).unwrap();
    symlink("a", stage.at("volume/link")).unwrap();
    let root = stage.at("volume");
    let volume = open(&root, OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
    let walk = Walk { root: &root, volume: volume.as_fd() };
    walk.without_links(Path::new("a/b")).unwrap();
    walk.without_links(Path::new(".")).unwrap();
    for path in ["link", "link/b"] {
        assert!(matches!(walk.without_links(Path::new(path)), Err(VolumeError::Escape { .. })), "{path}");
    }
    let missing = walk.without_links(Path::new("a/c")).unwrap_err();
    assert!(
        matches!(missing, VolumeError::File { source, .. } if source.raw_os_error() == Some(libc::ENOENT))
    );
}

/// A container that turns a directory into a link and back, as fast as it can.
#[test]
fn a_race_is_not_won() {
    if !can_mount() {
        return;
    }
    let stage = Stage::new();
    fs::create_dir(stage.at("volume/part")).unwrap();
    fs::write(stage.at("volume/part/key"), "mine").unwrap();
    symlink(stage.at("secret"), stage.at("volume/evil")).unwrap();
    let (from, to) = (stage.at("volume/part"), stage.at("volume/evil"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let at = nix::fcntl::AT_FDCWD;
            while !done.load(Ordering::Relaxed) {
                let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
                nix::fcntl::renameat2(at, &from, at, &to, flags).unwrap();
            }
        });
        for _ in 0..100 {
            if stage.bind("part").is_ok() {
                assert_eq!(fs::read(stage.target().join("key")).unwrap(), b"mine");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
