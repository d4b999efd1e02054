//! The v1 devices controller, on a real one if the machine has one.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nodewarden_machine::cgroup::fixture::TestTree;
use nodewarden_model::HostDeviceKind;

use super::*;
use crate::policy::{Access, DeviceRule, Scope};

const FUSE: &str = "c 10:229";
const KMSG: &str = "c 1:11";

fn tree(name: &str) -> Option<(TestTree, V1Controller)> {
    if !nix::unistd::geteuid().is_root() {
        nodewarden_testing::skip("not root");
        return None;
    }
    let tree = TestTree::make(name)?;
    let Some(devices) = tree.layout.devices() else {
        nodewarden_testing::skip("no v1 devices controller");
        return None;
    };
    let controller = V1Controller::new(devices);
    Some((tree, controller))
}

fn rule(major: u32, minor: u32, access: Access) -> DeviceRule {
    DeviceRule { kind: HostDeviceKind::Char, major, minor: Some(minor), access }
}

fn enforce(rules: &[DeviceRule]) -> PodPolicy {
    PodPolicy { mode: Enforcement::Enforce, rules: rules.to_vec(), scope: Scope::Everything }
}

/// The letters that a cgroup allows for a device.
fn allowed(controller: &V1Controller, cgroup: &str, device: &str) -> String {
    let text = fs::read_to_string(join(&controller.mount, cgroup).join("devices.list")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(device)).unwrap_or_default();
    line.trim().to_owned()
}

fn write_list(controller: &V1Controller, cgroup: &str, file: &str, line: &str) {
    fs::write(join(&controller.mount, cgroup).join(file), line).unwrap();
}

/// Whether a process of a cgroup can read the kernel's log.
fn reads_kmsg(controller: &V1Controller, cgroup: &str) -> bool {
    let procs = join(&controller.mount, cgroup).join("cgroup.procs");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ": < /dev/kmsg"]).stderr(std::process::Stdio::null());
    // SAFETY: after fork, one file is written.
    unsafe { command.pre_exec(move || fs::write(&procs, "0")) };
    command.status().unwrap().success()
}

#[test]
fn a_pod_is_refused_devices_outside_its_policy() {
    let Some((tree, mut controller)) = tree("devices-v1") else { return };
    let pod = tree.group("poda");
    assert!(matches!(
        controller.guard(
            "a",
            &pod,
            &PodPolicy { mode: Enforcement::Audit, rules: Vec::new(), scope: Scope::Everything }
        ),
        Err(EnforceError::AuditOnV1)
    ));
    assert_eq!(allowed(&controller, &pod, "a *:*"), "rwm", "as it was");
    controller.guard("a", &pod, &enforce(&[rule(10, 229, Access::READ_WRITE)])).unwrap();
    assert_eq!(allowed(&controller, &pod, FUSE), "rw");
    assert_eq!(allowed(&controller, &pod, "c 136:*"), "rwm");
    assert_eq!(allowed(&controller, &pod, "b *:*"), "m");
    assert_eq!(allowed(&controller, &pod, "a"), "");
    let container = tree.group("poda/c");
    if Path::new("/dev/kmsg").exists() {
        assert!(!reads_kmsg(&controller, &container));
        // On v1, allowing a device above does not allow it below.
        controller.guard("a", &pod, &enforce(&[rule(1, 11, Access::READ)])).unwrap();
        assert!(!reads_kmsg(&controller, &container));
        write_list(&controller, &container, "devices.allow", &format!("{KMSG} r"));
        assert!(reads_kmsg(&controller, &container));
    }
}

#[test]
fn a_device_that_is_allowed_again_is_restored_to_the_containers_that_had_it() {
    let Some((tree, mut controller)) = tree("devices-v1-cut") else { return };
    let pod = tree.group("poda");
    let both = [rule(10, 229, Access::ALL), rule(1, 11, Access::ALL)];
    controller.guard("a", &pod, &enforce(&both)).unwrap();
    let (one, other, inner) = (tree.group("poda/one"), tree.group("poda/other"), tree.group("poda/one/in"));
    write_list(&controller, &other, "devices.deny", &format!("{FUSE} rwm"));
    write_list(&controller, &inner, "devices.deny", &format!("{FUSE} m"));
    let fuse =
        |controller: &V1Controller| [&pod, &one, &inner, &other].map(|path| allowed(controller, path, FUSE));
    let before = ["rwm", "rwm", "rw", ""].map(str::to_owned);
    assert_eq!(fuse(&controller), before);

    controller.guard("a", &pod, &enforce(&both[1..])).unwrap();
    assert_eq!(fuse(&controller), ["", "", "", ""].map(str::to_owned), "cut off");
    assert_eq!(allowed(&controller, &one, KMSG), "rwm", "nothing else is");
    controller.guard("a", &pod, &enforce(&[both[1], rule(10, 229, Access::READ)])).unwrap();
    assert_eq!(fuse(&controller), ["r", "r", "r", ""].map(str::to_owned), "partly back");
    controller.guard("a", &pod, &enforce(&both)).unwrap();
    assert_eq!(fuse(&controller), before, "back");
    assert!(controller.revoked["a"].is_empty());

    // A container that ended while its device was cut off causes no error.
    controller.guard("a", &pod, &enforce(&both[1..])).unwrap();
    tree.remove("poda/one/in");
    tree.remove("poda/one");
    controller.guard("a", &pod, &enforce(&both)).unwrap();
    assert_eq!(allowed(&controller, &pod, FUSE), "rwm");
}

#[test]
fn a_pod_that_already_has_containers_is_refused() {
    let Some((tree, mut controller)) = tree("devices-v1-late") else { return };
    let (pod, guarded) = (tree.group("poda"), tree.group("podb"));
    controller.guard("b", &guarded, &enforce(&[])).unwrap();
    tree.group("poda/c");
    tree.group("podb/c");
    let off = PodPolicy { mode: Enforcement::Off, rules: Vec::new(), scope: Scope::Everything };
    controller.guard("a", &pod, &off).unwrap();
    for (path, policy) in [(&pod, enforce(&[])), (&guarded, off.clone())] {
        let error = controller.guard("a", path, &policy).unwrap_err();
        assert!(
            matches!(&error, EnforceError::HasChildren { path: at } if at.ends_with(&path[1..])),
            "{error}"
        );
    }
    tree.remove("podb/c");
    // The kernel takes a removed cgroup offline a moment later.
    let freed = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        controller.guard("b", &guarded, &off).is_ok()
    });
    assert!(freed);
    assert_eq!(allowed(&controller, &guarded, "a *:*"), "rwm");
    let error = controller.guard("c", &tree.path("gone"), &off).unwrap_err();
    assert!(matches!(error, EnforceError::Read { .. }), "{error}");
}
