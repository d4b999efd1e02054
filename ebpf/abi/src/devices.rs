//! Which pod may open which device: what the agent writes for the kernel's check, and what the check counts.

/// A block device, in the context of a `cgroup_device` program (BPF_DEVCG_DEV_BLOCK,
/// include/uapi/linux/bpf.h).
pub const DEVICE_BLOCK: u32 = 1;
/// A character device (BPF_DEVCG_DEV_CHAR).
pub const DEVICE_CHAR: u32 = 2;
/// Access: creating a device node (BPF_DEVCG_ACC_MKNOD).
pub const DEVICE_MKNOD: u32 = 1;
/// Access: opening for reading (BPF_DEVCG_ACC_READ).
pub const DEVICE_READ: u32 = 2;
/// Access: opening for writing (BPF_DEVCG_ACC_WRITE).
pub const DEVICE_WRITE: u32 = 4;

/// In a rule: every minor number of its major number. No device has this number, since the kernel's have 20
/// bits.
pub const ANY_MINOR: u32 = u32::MAX;

/// Index in the table of where pods are in the unified hierarchy: the level of kubepods (the root cgroup has
/// level 0).
pub const PLACE_LEVEL: u32 = 0;
/// Indexes in that table: kernel ids of the cgroups of the QoS classes below kubepods; 0 for none.
pub const PLACE_CLASSES: [u32; 2] = [1, 2];
/// Entries of that table.
pub const PLACES: u32 = 3;

/// Mode of a pod: accesses that no rule allows are counted and let pass. A pod without a mode is not checked.
pub const DEVICE_AUDIT: u32 = 1;
/// Mode of a pod: accesses that no rule allows are counted and refused.
pub const DEVICE_ENFORCE: u32 = 2;
/// Bit added to the mode: the pod has a rule for every minor number of a major one. Without the bit the
/// program does not look for such a rule.
pub const DEVICE_HAS_ANY_MINOR: u32 = 4;
/// Bit added to the mode: only devices for which [`WATCHED`] has a rule are checked, all others let pass.
pub const DEVICE_ONLY_WATCHED: u32 = 8;

/// In place of a pod's cgroup in the key of a rule: the device is watched. No cgroup has this id.
pub const WATCHED: u64 = 0;

/// Number of devices of one pod that have a count of their own; all further ones share one count, with kind
/// 0. A pod may create device nodes with numbers of its choice, so there must be a bound.
pub const DEVICES_COUNTED: u64 = 16;

/// A device and a pod: the key of a rule and of a count.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceKey {
    /// Kernel id of the pod's cgroup in the unified hierarchy, or [`WATCHED`].
    pub pod: u64,
    /// `DEVICE_BLOCK` or `DEVICE_CHAR`.
    pub kind: u32,
    /// Major number.
    pub major: u32,
    /// Minor number, or `ANY_MINOR` in a rule.
    pub minor: u32,
    /// Unused; 0.
    pub pad: u32,
}

/// Accesses that no rule allowed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceCount {
    /// Refused.
    pub denied: u64,
    /// Counted and let pass.
    pub audited: u64,
    /// How many of both are in records sent so far.
    pub reported: u64,
    /// When the last record was sent or lost (CLOCK_MONOTONIC, ns); 0 before the first.
    pub reported_ns: u64,
}

/// Key of the right to send the record that follows the one of time `after_ns`: of several CPUs that count an
/// access to the same device at once, the one that inserts the key sends the record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceTurn {
    /// Pod and device.
    pub key: DeviceKey,
    /// `DeviceCount::reported_ns` before this record.
    pub after_ns: u64,
}

/// Major and minor numbers of the device nodes that every container has (OCI runtime specification, "Default
/// Devices", and its console).
pub const DEFAULT_DEVICES: [(u32, u32); 16] = [
    (1, 3),           // null
    (1, 5),           // zero
    (1, 7),           // full
    (1, 8),           // random
    (1, 9),           // urandom
    (5, 0),           // tty
    (5, 1),           // console
    (5, 2),           // ptmx
    (136, ANY_MINOR), // pts: majors 136 to 143 (Documentation/admin-guide/devices.txt)
    (137, ANY_MINOR),
    (138, ANY_MINOR),
    (139, ANY_MINOR),
    (140, ANY_MINOR),
    (141, ANY_MINOR),
    (142, ANY_MINOR),
    (143, ANY_MINOR),
];

/// Whether a device is one of `DEFAULT_DEVICES`, computed in a few instructions.
#[inline(always)]
pub const fn is_default_device(kind: u32, major: u32, minor: u32) -> bool {
    // The mask has the bits of minors 3, 5, 7, 8 and 9 (memory devices); terminals have minors 0, 1 and 2.
    kind == DEVICE_CHAR
        && (major == 1 && minor < 32 && 0b11_1010_1000 >> minor & 1 == 1
            || major == 5 && minor < 3
            || major >> 3 == 17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_agrees_with_the_list() {
        for major in 0..300 {
            for minor in 0..300 {
                let listed =
                    DEFAULT_DEVICES.iter().any(|(a, i)| *a == major && (*i == minor || *i == ANY_MINOR));
                assert_eq!(is_default_device(DEVICE_CHAR, major, minor), listed, "c {major}:{minor}");
                assert!(!is_default_device(DEVICE_BLOCK, major, minor));
            }
        }
    }
}
