//! Who may open which device: what the agent writes for the kernel's check, and what the check counts.

/// Kinds of devices and of accesses, as a `cgroup_device` program is told them (include/uapi/linux/bpf.h,
/// BPF_DEVCG_DEV_* and BPF_DEVCG_ACC_*).
pub const DEVICE_BLOCK: u32 = 1;
pub const DEVICE_CHAR: u32 = 2;
pub const DEVICE_MKNOD: u32 = 1;
pub const DEVICE_READ: u32 = 2;
pub const DEVICE_WRITE: u32 = 4;

/// Every minor number of a major one. The kernel's have 20 bits.
pub const ANY_MINOR: u32 = u32::MAX;

/// Where pods are in the unified hierarchy, by index: how deep kubepods is, and the ids of the cgroups of QoS classes in
/// it (0 for none), which pods may be in.
pub const PLACE_LEVEL: u32 = 0;
pub const PLACE_CLASSES: [u32; 2] = [1, 2];
pub const PLACES: u32 = 3;

/// What is done about accesses that no rule allows. A pod without a mode is not guarded.
pub const DEVICE_AUDIT: u32 = 1;
pub const DEVICE_ENFORCE: u32 = 2;
/// Beside the mode: a rule of the pod is for every minor. Without it such a rule is not looked for.
pub const DEVICE_HAS_ANY_MINOR: u32 = 4;

/// Devices that are counted each for itself, by pod: the numbers of device nodes are a pod's own choice (it may make
/// nodes), so they are bounded. The others share one count, of kind 0.
pub const DEVICES_COUNTED: u64 = 16;

/// A device of a pod: key of its rule and of its count.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceKey {
    /// Kernel id of the pod's cgroup in the unified hierarchy.
    pub pod: u64,
    pub kind: u32,
    pub major: u32,
    pub minor: u32,
    pub pad: u32,
}

/// Accesses that no rule allowed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceCount {
    pub denied: u64,
    pub audited: u64,
    /// How many of both have been told, and when last (CLOCK_MONOTONIC, ns).
    pub told: u64,
    pub told_ns: u64,
}

/// Which accesses are told: one for each pod and device after the time at which the one before was.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceTurn {
    pub key: DeviceKey,
    pub after_ns: u64,
}

/// Device nodes that every container has (OCI runtime specification, "Default Devices", and its console), with all
/// minors where the last is `ANY_MINOR`.
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

/// Whether a device is one of `DEFAULT_DEVICES`, in a few instructions.
#[inline(always)]
pub const fn is_default_device(kind: u32, major: u32, minor: u32) -> bool {
    // By the bits of minors 3, 5, 7, 8, 9 of the memory devices and 0, 1, 2 of the terminals.
    kind == DEVICE_CHAR
        && (major == 1 && minor < 32 && 0b11_1010_1000 >> minor & 1 == 1
            || major == 5 && minor < 3
            || major >> 3 == 17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_answer_is_the_list() {
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
