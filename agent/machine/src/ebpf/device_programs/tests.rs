//! A program attached to a real cgroup.

use nodewarden_ebpf_abi::{DEVICE_CHAR, DEVICE_READ, DEVICE_WRITE};

use super::*;
use crate::cgroup::fixture::TestTree;
use crate::cgroup::join;

const PROG_LOAD: u32 = 5;
const PROG_ATTACH: u32 = 8;
const PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const ALLOW_MULTI: u32 = 2;

#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

/// Attaches a program that allows only one major number, and only to read. It is gone with the cgroup.
fn attach(cgroup: &Path, major: i32, name: &str) {
    let code = |operation: u8, registers: u8, offset: i16, constant: i32| {
        let mut bytes = vec![operation, registers];
        bytes.extend(offset.to_le_bytes());
        bytes.extend(constant.to_le_bytes());
        bytes
    };
    let program = [
        code(0x61, 0x12, 0, 0),
        code(0x74, 0x02, 0, 16),
        code(0x54, 0x02, 0, DEVICE_WRITE as i32),
        code(0x61, 0x13, 4, 0),
        code(0xb7, 0x00, 0, 0),
        code(0x55, 0x02, 2, 0),
        code(0x55, 0x03, 1, major),
        code(0xb7, 0x00, 0, 1),
        code(0x95, 0x00, 0, 0),
    ]
    .concat();
    let mut load = Load {
        kind: PROG_TYPE_CGROUP_DEVICE,
        count: (program.len() / 8) as u32,
        code: program.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..Load::default()
    };
    load.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the addresses are those of the program and of its license.
    let fd = unsafe { bpf(PROG_LOAD, &mut load) }.unwrap();
    // SAFETY: the kernel has just opened it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let directory = File::open(cgroup).unwrap();
    let mut attach = Attach {
        target: directory.as_raw_fd() as u32,
        program: fd.as_raw_fd() as u32,
        kind: CGROUP_DEVICE,
        flags: ALLOW_MULTI,
    };
    // SAFETY: there are no addresses in it.
    unsafe { bpf(PROG_ATTACH, &mut attach) }.unwrap();
}

#[test]
fn the_programs_of_a_cgroup_and_of_those_above_it_are_read_and_understood() {
    if !nix::unistd::geteuid().is_root() {
        return nodewarden_testing::skip("not root");
    }
    let Some(tree) = TestTree::make("device-programs") else { return };
    let Some(unified) = tree.layout.unified() else {
        return nodewarden_testing::skip("no unified hierarchy");
    };
    tree.group("pod/c");
    let cgroup = |below: &str| join(&unified.mount, &tree.path(below));
    let names = |below: &str| {
        let found = effective(&cgroup(below)).unwrap();
        found.into_iter().map(|own| own.name).filter(|name| name.starts_with("nwtest")).collect::<Vec<_>>()
    };
    assert_eq!(names("pod/c"), [""; 0]);
    attach(&cgroup("pod"), 240, "nwtest_above");
    attach(&cgroup("pod/c"), 240, "nwtest_own");
    attach(&cgroup("pod/c"), 1, "device_access");
    assert_eq!(names("pod"), ["nwtest_above"]);
    let mut both = names("pod/c");
    both.sort();
    assert_eq!(both, ["nwtest_above", "nwtest_own"]);

    let programs = effective(&cgroup("pod/c")).unwrap();
    let own = programs.iter().find(|own| own.name == "nwtest_own").unwrap();
    assert!(!own.loaded.is_zero());
    for (major, access, expected) in
        [(240, DEVICE_READ, true), (240, DEVICE_READ | DEVICE_WRITE, false), (241, DEVICE_READ, false)]
    {
        let asked = DeviceQuestion { kind: DEVICE_CHAR, major, minor: 7, access };
        assert_eq!(own.allows(asked), Some(expected), "{asked:?}");
    }
    let error = effective(Path::new("/no such cgroup")).unwrap_err().to_string();
    assert!(error.contains("/no such cgroup"), "{error}");
}
