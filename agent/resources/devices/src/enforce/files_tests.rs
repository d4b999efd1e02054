//! The files of the v1 devices controller, on a real one where there is one.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::*;
use crate::policy::{Access, DeviceRule};
use nodewarden_machine::cgroup::fixture::TestTree;
use nodewarden_model::HostDeviceKind;

const FUSE: &str = "c 10:229";
const KMSG: &str = "c 1:11";

fn tree(name: &str) -> Option<(TestTree, Files)> {
    if !nix::unistd::geteuid().is_root() {
        nodewarden_testing::skip("not root");
        return None;
    }
    let tree = TestTree::make(name)?;
    let Some(devices) = tree.layout.devices() else {
        nodewarden_testing::skip("no v1 devices controller");
        return None;
    };
    let files = Files::new(devices);
    Some((tree, files))
}

fn rule(major: u32, minor: u32, access: Access) -> DeviceRule {
    DeviceRule { kind: HostDeviceKind::Char, major, minor: Some(minor), access }
}

fn enforce(rules: &[DeviceRule]) -> PodPolicy {
    PodPolicy { mode: Enforcement::Enforce, rules: rules.to_vec() }
}

/// What a cgroup allows of a device.
fn allowed(files: &Files, cgroup: &str, device: &str) -> String {
    let text = fs::read_to_string(join(&files.mount, cgroup).join("devices.list")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(device)).unwrap_or_default();
    line.trim().to_owned()
}

fn write_list(files: &Files, cgroup: &str, file: &str, line: &str) {
    fs::write(join(&files.mount, cgroup).join(file), line).unwrap();
}

/// Whether a process of a cgroup can read the kernel's log.
fn reads_kmsg(files: &Files, cgroup: &str) -> bool {
    let procs = join(&files.mount, cgroup).join("cgroup.procs");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ": < /dev/kmsg"]).stderr(std::process::Stdio::null());
    // SAFETY: after fork, one file is written.
    unsafe { command.pre_exec(move || fs::write(&procs, "0")) };
    command.status().unwrap().success()
}

#[test]
fn a_pod_is_refused_what_nobody_gave_it() {
    let Some((tree, mut files)) = tree("devices-v1") else { return };
    let pod = tree.group("poda");
    assert!(matches!(
        files.guard("a", &pod, &PodPolicy { mode: Enforcement::Audit, rules: Vec::new() }),
        Err(EnforceError::AuditOnV1)
    ));
    assert_eq!(allowed(&files, &pod, "a *:*"), "rwm", "as it was");
    files.guard("a", &pod, &enforce(&[rule(10, 229, Access::READ_WRITE)])).unwrap();
    assert_eq!(allowed(&files, &pod, FUSE), "rw");
    assert_eq!(allowed(&files, &pod, "c 136:*"), "rwm");
    assert_eq!(allowed(&files, &pod, "b *:*"), "m");
    assert_eq!(allowed(&files, &pod, "a"), "");
    let container = tree.group("poda/c");
    if Path::new("/dev/kmsg").exists() {
        assert!(!reads_kmsg(&files, &container));
        // v1 lets nothing be allowed below by allowing it above.
        files.guard("a", &pod, &enforce(&[rule(1, 11, Access::READ)])).unwrap();
        assert!(!reads_kmsg(&files, &container));
        write_list(&files, &container, "devices.allow", &format!("{KMSG} r"));
        assert!(reads_kmsg(&files, &container));
    }
}

#[test]
fn what_is_cut_off_is_given_back_to_who_had_it() {
    let Some((tree, mut files)) = tree("devices-v1-cut") else { return };
    let pod = tree.group("poda");
    let both = [rule(10, 229, Access::ALL), rule(1, 11, Access::ALL)];
    files.guard("a", &pod, &enforce(&both)).unwrap();
    let (one, other, inner) = (tree.group("poda/one"), tree.group("poda/other"), tree.group("poda/one/in"));
    write_list(&files, &other, "devices.deny", &format!("{FUSE} rwm"));
    write_list(&files, &inner, "devices.deny", &format!("{FUSE} m"));
    let fuse = |files: &Files| [&pod, &one, &inner, &other].map(|path| allowed(files, path, FUSE));
    let before = ["rwm", "rwm", "rw", ""].map(str::to_owned);
    assert_eq!(fuse(&files), before);

    files.guard("a", &pod, &enforce(&both[1..])).unwrap();
    assert_eq!(fuse(&files), ["", "", "", ""].map(str::to_owned), "cut off");
    assert_eq!(allowed(&files, &one, KMSG), "rwm", "nothing else is");
    files.guard("a", &pod, &enforce(&[both[1], rule(10, 229, Access::READ)])).unwrap();
    assert_eq!(fuse(&files), ["r", "r", "r", ""].map(str::to_owned), "partly back");
    files.guard("a", &pod, &enforce(&both)).unwrap();
    assert_eq!(fuse(&files), before, "back");
    assert!(files.taken["a"].is_empty());

    // A container that ended while its device was cut off hinders nobody.
    files.guard("a", &pod, &enforce(&both[1..])).unwrap();
    tree.remove("poda/one/in");
    tree.remove("poda/one");
    files.guard("a", &pod, &enforce(&both)).unwrap();
    assert_eq!(allowed(&files, &pod, FUSE), "rwm");
}

#[test]
fn a_pod_with_containers_is_not_turned_over() {
    let Some((tree, mut files)) = tree("devices-v1-late") else { return };
    let (pod, guarded) = (tree.group("poda"), tree.group("podb"));
    files.guard("b", &guarded, &enforce(&[])).unwrap();
    tree.group("poda/c");
    tree.group("podb/c");
    let off = PodPolicy { mode: Enforcement::Off, rules: Vec::new() };
    files.guard("a", &pod, &off).unwrap();
    for (path, policy) in [(&pod, enforce(&[])), (&guarded, off.clone())] {
        let error = files.guard("a", path, &policy).unwrap_err();
        assert!(
            matches!(&error, EnforceError::HasChildren { path: at } if at.ends_with(&path[1..])),
            "{error}"
        );
    }
    tree.remove("podb/c");
    // The kernel takes a removed cgroup offline a moment later.
    let freed = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        files.guard("b", &guarded, &off).is_ok()
    });
    assert!(freed);
    assert_eq!(allowed(&files, &guarded, "a *:*"), "rwm");
    let error = files.guard("c", &tree.path("gone"), &off).unwrap_err();
    assert!(matches!(error, EnforceError::Read { .. }), "{error}");
}
