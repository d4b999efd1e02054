use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::tests::{Cleaned, can_mount};
use super::*;

/// A volume, a secret outside it, and a pod's directory.
struct Fixture {
    dir: tempfile::TempDir,
    _cleaned: Cleaned,
}

impl Fixture {
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
    let fixture = Fixture::new();
    fs::create_dir(fixture.at("volume/dir")).unwrap();
    fs::write(fixture.at("volume/dir/file"), "one").unwrap();
    fs::set_permissions(fixture.at("volume"), fs::Permissions::from_mode(0o2775)).unwrap();
    fixture.bind("dir").unwrap();
    assert_eq!(fs::read(fixture.target().join("file")).unwrap(), b"one");
    // Another part at the same place replaces the earlier mount.
    fixture.bind("dir/file").unwrap();
    assert_eq!(fs::read(fixture.target()).unwrap(), b"one");
    fixture.bind("./new//deep/").unwrap();
    fs::write(fixture.target().join("x"), "two").unwrap();
    assert_eq!(fs::read(fixture.at("volume/new/deep/x")).unwrap(), b"two");
    for made in ["volume/new", "volume/new/deep"] {
        assert_eq!(fs::metadata(fixture.at(made)).unwrap().permissions().mode() & 0o7777, 0o2775, "{made}");
    }
    fixture.bind(".").unwrap();
    assert!(fixture.target().join("dir").exists());
    let mounts = mount_table::below(&fs::canonicalize(fixture.at("pod_dir")).unwrap()).unwrap();
    assert_eq!(mounts.len(), 1, "{mounts:?}");
}

#[test]
fn links_inside_are_followed() {
    if !can_mount() {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.at("volume/a/b")).unwrap();
    fs::write(fixture.at("volume/a/b/f"), "x").unwrap();
    symlink("a/b", fixture.at("volume/link")).unwrap();
    symlink("../a/../link", fixture.at("volume/a/round")).unwrap();
    fixture.bind("a/round").unwrap();
    assert_eq!(fs::read(fixture.target().join("f")).unwrap(), b"x");
}

#[test]
fn nothing_leads_out() {
    let fixture = Fixture::new();
    let secret = fixture.at("secret");
    symlink(&secret, fixture.at("volume/absolute")).unwrap();
    symlink("../secret", fixture.at("volume/relative")).unwrap();
    symlink("/proc/self/cwd", fixture.at("volume/magic")).unwrap();
    symlink("loop", fixture.at("volume/loop")).unwrap();
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
        let result = fixture.bind(path);
        assert!(matches!(result, Err(VolumeError::Escape { .. })), "{path}: {result:?}");
    }
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
}

/// The walk of older kernels follows no link at all.
#[test]
fn without_openat2() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.at("volume/a/b")).unwrap();
    symlink("a", fixture.at("volume/link")).unwrap();
    let root = fixture.at("volume");
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
    let fixture = Fixture::new();
    fs::create_dir(fixture.at("volume/part")).unwrap();
    fs::write(fixture.at("volume/part/key"), "mine").unwrap();
    symlink(fixture.at("secret"), fixture.at("volume/evil")).unwrap();
    let (from, to) = (fixture.at("volume/part"), fixture.at("volume/evil"));
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
            if fixture.bind("part").is_ok() {
                assert_eq!(fs::read(fixture.target().join("key")).unwrap(), b"mine");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
