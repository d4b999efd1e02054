//! Tables of both runtimes, and a process that makes an overlay of its own its root.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::*;

const ID: &str = "0f1e2d";

#[test]
fn an_overlay_is_found_by_the_container_id_in_its_mount_point() {
    let dir = tempfile::tempdir().unwrap();
    let upper = dir.path().join("a b,c");
    fs::create_dir(&upper).unwrap();
    let shown = upper.to_str().unwrap().replace(' ', "\\040").replace(',', "\\054");
    let tasks = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
    let line = |n: u32, point: &str, kind: &str, options: &str| {
        format!("{n} 1 0:{n} / {point} rw,relatime - {kind} {kind} {options}\n")
    };
    let table = [
        line(1, "/", "ext4", "rw"),
        line(
            2,
            &format!("{tasks}/{ID}/rootfs"),
            "overlay",
            &format!("rw,lowerdir=/l:/m,upperdir={shown},workdir=/w"),
        ),
        line(3, &format!("{tasks}/read-only/rootfs"), "overlay", "ro,lowerdir=/l:/m"),
        line(4, &format!("{tasks}/relative/rootfs"), "overlay", "rw,upperdir=a"),
        line(5, &format!("{tasks}/ext4/rootfs"), "ext4", "rw,upperdir=/tmp"),
        line(6, &format!("{tasks}/other/rootfs/{ID}"), "overlay", "rw,upperdir=/tmp"),
        line(7, &format!("{tasks}/gone/rootfs"), "overlay", "rw,upperdir=/nodewarden-none"),
    ]
    .concat();
    let overlays = Overlays::parse(table.as_bytes());
    assert_eq!(overlays.upper(ID, None), Some(upper));
    for other in ["read-only", "relative", "ext4", "other", "gone", "none", ""] {
        assert_eq!(overlays.upper(other, None), None, "{other}");
    }
}

#[test]
fn the_device_of_the_root_is_found() {
    let table = b"1 0 0:2 / / rw - ext4 /dev/x rw\n2 1 0:3 / / rw - overlay overlay rw,upperdir=/a\n\
        3 2 0:4 / /proc rw - proc proc rw\n";
    assert_eq!(root_device(table).as_deref(), Some("0:3"));
    assert_eq!(root_device(b"1 0 0:2 / / rw - ext4 /dev/x rw\n"), None);
    assert_eq!(root_device(b""), None);
}

/// Unmounts at the end, also of a test that fails.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Ends when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A container with the machine's overlay as its root is found by the device. One that has made an overlay of
/// its own its root, with an upper directory that it chose, is not.
#[test]
fn an_overlay_that_a_container_mounted_itself_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    // An upper directory cannot be on an overlay itself.
    let disk = Mounted(dir.path().join("disk"));
    fs::create_dir(&disk.0).unwrap();
    if let Err(error) = mount(Some("tmpfs"), &disk.0, Some("tmpfs"), MsFlags::empty(), None::<&str>) {
        nodewarden_testing::skip(format_args!("mount: {error}"));
        return;
    }
    let below = |name: &str| {
        let path = disk.0.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let make = |upper: &Path, work: &Path, at: &Path| {
        let options = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
        mount(Some("overlay"), at, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
    };
    let (upper, root) = (below("upper"), Mounted(below("merged")));
    if let Err(error) = make(&upper, &below("work"), &root.0) {
        nodewarden_testing::skip(format_args!("overlay: {error}"));
        return;
    }
    let (chosen, chosen_work, own) = (below("chosen"), below("chosen-work"), below("own"));
    let start = |script: String| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).stdout(Stdio::null());
        Ended(command.spawn().unwrap())
    };
    let sleep = |root: &Path| format!("exec chroot {} /bin/sleep 60", root.display());
    let honest = start(sleep(&root.0));
    let cheating = start(format!(
        "mount -t overlay overlay -o lowerdir=/,upperdir={},workdir={} {own} && {}",
        chosen.display(),
        chosen_work.display(),
        sleep(&own),
        own = own.display()
    ));
    let group = dir.path().join("group");
    fs::create_dir(&group).unwrap();
    let has_overlay = |child: &Ended| {
        let table = fs::read(format!("/proc/{}/mountinfo", child.0.id())).unwrap();
        fs::write(group.join("cgroup.procs"), format!("{}\n", child.0.id())).unwrap();
        root_device(&table).is_some()
    };
    let machine = Overlays::parse(&fs::read("/proc/self/mountinfo").unwrap());
    let deadline = Instant::now() + Duration::from_secs(20);
    for (child, expected) in [(&honest, Some(&upper)), (&cheating, None)] {
        while !has_overlay(child) {
            assert!(Instant::now() < deadline, "no overlay");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(machine.upper(ID, Some(&group)).as_ref(), expected);
    }
}
