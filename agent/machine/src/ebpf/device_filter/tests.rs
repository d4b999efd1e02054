//! Programs as runtimes and systemd make them.

use nodewarden_ebpf_abi::{DEVICE_BLOCK, DEVICE_CHAR, DEVICE_MKNOD};
use proptest::prelude::*;

use super::*;

/// One instruction: operation, registers, offset, constant.
fn code(operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> [u8; 8] {
    let mut bytes = [operation, from << 4 | to, 0, 0, 0, 0, 0, 0];
    bytes[2..4].copy_from_slice(&offset.to_le_bytes());
    bytes[4..8].copy_from_slice(&constant.to_le_bytes());
    bytes
}

/// As runc's (libcontainer/cgroups/devices, devicefilter.go): type, access, major and minor are taken apart,
/// then each rule is a block of jumps.
fn runc(rules: &[(u32, u32, u32, u32)]) -> Vec<u8> {
    let mut all = vec![
        code(0x61, 2, 1, 0, 0),
        code(0x54, 2, 0, 0, 0xffff),
        code(0x61, 3, 1, 0, 0),
        code(0x74, 3, 0, 0, 16),
        code(0x61, 4, 1, 4, 0),
        code(0x61, 5, 1, 8, 0),
    ];
    for (kind, major, minor, access) in rules {
        all.extend([
            code(0x55, 2, 0, 8, *kind as i32),
            code(0xbc, 1, 3, 0, 0),
            code(0x54, 1, 0, 0, *access as i32),
            code(0x5d, 1, 3, 5, 0),
            code(0x55, 4, 0, 4, *major as i32),
            code(0x55, 5, 0, 3, *minor as i32),
            code(0xb4, 0, 0, 0, 1),
            code(0x95, 0, 0, 0, 0),
            code(0x05, 0, 0, 0, 0),
        ]);
    }
    all.extend([code(0xb4, 0, 0, 0, 0), code(0x95, 0, 0, 0, 0)]);
    all.concat()
}

fn question(kind: u32, major: u32, minor: u32, access: u32) -> DeviceQuestion {
    DeviceQuestion { kind, major, minor, access }
}

#[test]
fn a_list_of_rules_allows_what_is_in_it() {
    let program = runc(&[
        (DEVICE_CHAR, 1, 3, DEVICE_READ | DEVICE_WRITE | DEVICE_MKNOD),
        (DEVICE_BLOCK, 8, 0, DEVICE_READ),
    ]);
    for (kind, major, minor, access, expected) in [
        (DEVICE_CHAR, 1, 3, DEVICE_READ, true),
        (DEVICE_CHAR, 1, 3, DEVICE_READ | DEVICE_WRITE, true),
        (DEVICE_CHAR, 1, 5, DEVICE_READ, false),
        (DEVICE_BLOCK, 1, 3, DEVICE_READ, false),
        (DEVICE_BLOCK, 8, 0, DEVICE_READ, true),
        (DEVICE_BLOCK, 8, 0, DEVICE_WRITE, false),
    ] {
        let asked = question(kind, major, minor, access);
        assert_eq!(allows(&program, asked), Some(expected), "{asked:?}");
    }
}

#[test]
fn halves_and_bytes_of_the_context_are_loaded() {
    let returned = |load: [u8; 8], expected: i32| {
        let program = [
            load,
            code(0xb7, 0, 0, 0, 0),
            code(0x55, 2, 0, 1, expected),
            code(0xb7, 0, 0, 0, 1),
            code(0x95, 0, 0, 0, 0),
        ];
        allows(&program.concat(), question(DEVICE_CHAR, 0x1234_5678, 9, DEVICE_READ))
    };
    for (load, expected) in [
        (code(0x69, 2, 1, 0, 0), DEVICE_CHAR as i32),
        (code(0x69, 2, 1, 2, 0), DEVICE_READ as i32),
        (code(0x71, 2, 1, 5, 0), 0x56),
        (code(0x61, 2, 1, 8, 0), 9),
    ] {
        assert_eq!(returned(load, expected), Some(true), "{load:?}");
        assert_eq!(returned(load, expected + 1), Some(false), "{load:?}");
    }
}

#[test]
fn what_is_not_understood_says_nothing() {
    let end = code(0x95, 0, 0, 0, 0);
    for program in [
        vec![],
        vec![end],
        // A call, a map, a store, an endless loop, a jump out of it, a wide and an unaligned load, a
        // division.
        vec![code(0x85, 0, 0, 0, 1), end],
        vec![code(0x18, 0, 1, 0, 1), code(0, 0, 0, 0, 0), end],
        vec![code(0x7b, 10, 1, -8, 0), end],
        vec![code(0x05, 0, 0, -1, 0)],
        vec![code(0x05, 0, 0, 9, 0)],
        vec![code(0x79, 0, 1, 0, 0), end],
        vec![code(0x61, 0, 1, 12, 0), end],
        vec![code(0xb7, 0, 0, 0, 1), code(0x37, 0, 0, 0, 1), end],
        vec![code(0x61, 0, 2, 0, 0), end],
    ] {
        assert_eq!(allows(&program.concat(), question(1, 1, 1, DEVICE_READ)), None, "{program:?}");
    }
}

#[test]
fn opening_asks_for_each_access() {
    let own = question(DEVICE_CHAR, 1, 1, DEVICE_READ | DEVICE_WRITE | DEVICE_MKNOD);
    let asked: Vec<u32> = own.of_opening().map(|one| one.access).collect();
    assert_eq!(asked, [DEVICE_READ, DEVICE_WRITE]);
}

proptest! {
    #[test]
    fn any_bytes_are_followed_to_an_end(program in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = allows(&program, question(DEVICE_CHAR, 1, 3, DEVICE_READ));
    }
}
