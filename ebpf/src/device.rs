//! Topic device: which pod may open which device. This is one program at the kubepods cgroup of the unified
//! hierarchy. The kernel runs it at every open and mknod of a device node by a process below that cgroup,
//! after the programs of cgroups further down (the runtime's); the access is allowed if all of them allow it.
//!
//! It takes constant time: the devices that every container has are recognised by a few comparisons, others
//! need one look-up for the pod and at most two for its rules. Only an access that no rule allows costs more.

use aya_ebpf::{
    helpers::generated::{bpf_get_current_ancestor_cgroup_id, bpf_get_retval, bpf_ktime_get_ns},
    macros::{cgroup_device, map},
    maps::{Array, HashMap, LruHashMap},
    programs::DeviceContext,
};
use nodewarden_ebpf_abi::{
    ANY_MINOR, DEVICE_AUDIT, DEVICE_HAS_ANY_MINOR, DEVICE_ONLY_WATCHED, DEVICE_READ, DEVICE_WRITE,
    DEVICES_COUNTED, DeviceCount, DeviceKey, DeviceRecord, DeviceTurn, Kind, PLACE_CLASSES, PLACE_LEVEL,
    PLACES, WATCHED, is_default_device,
};

use crate::{
    count::add,
    globals::*,
    read::{Ptr, probe},
    ring::{command, current, emit, header},
};

/// BPF_F_NO_PREALLOC: allocates memory for the entries in the table, not for the largest number of them.
const NO_PREALLOC: u32 = 1;

/// Where pods are in the unified hierarchy: see `PLACE_LEVEL` and `PLACE_CLASSES`.
#[map]
static DEVICE_PLACES: Array<u64> = Array::with_max_entries(PLACES, 0);
/// Pods whose accesses are checked: kernel id of the pod's cgroup → mode (`DEVICE_AUDIT`, `DEVICE_ENFORCE`).
#[map]
static DEVICE_PODS: HashMap<u64, u32> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Rules: pod and device → accesses that are allowed. Those of pod `WATCHED`: the devices that are checked of
/// pods with `DEVICE_ONLY_WATCHED`.
#[map]
static DEVICE_RULES: HashMap<DeviceKey, u32> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Counts of accesses that no rule allowed.
#[map]
static DEVICE_COUNTS: HashMap<DeviceKey, DeviceCount> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Kernel id of the pod's cgroup → number of its devices that have a count of their own.
#[map]
static DEVICES_OF: HashMap<u64, u64> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Records that some CPU sends or has sent: see `DeviceTurn`.
#[map]
static DEVICE_TURNS: LruHashMap<DeviceTurn, u32> = LruHashMap::with_max_entries(1, 0);

globals! {
    /// cgroup
    OFF_CGROUP_ANCESTORS: u32 = 0;
}

const DENY: i32 = 0;
const ALLOW: i32 = 1;
/// BPF_NOEXIST
const NO_EXIST: u64 = 1;
/// Least time between two records about the same device and pod, in ns.
const REPORT_NS: u64 = 1_000_000_000;

/// Finds ancestors by the kernel's helper, which `cgroup_device` programs may call since Linux 6.4.
#[cgroup_device]
pub fn device_access(ctx: DeviceContext) -> i32 {
    // SAFETY: the helper checks the level itself.
    access(&ctx, |level| unsafe { bpf_get_current_ancestor_cgroup_id(level as i32) })
}

/// The same for older kernels: reads ancestors from the task's structures.
#[cgroup_device]
pub fn device_access_probed(ctx: DeviceContext) -> i32 {
    access(&ctx, |level| ancestor(level).unwrap_or(0))
}

/// Kernel id of the ancestor at `level` (or the cgroup itself) of the current task's cgroup in the unified
/// hierarchy.
#[inline(always)]
fn ancestor(level: u32) -> Option<u64> {
    let cgroup = own_cgroup()?;
    if level > probe::<u32>(cgroup, get(&OFF_CGROUP_LEVEL))? {
        return None;
    }
    let above: Ptr = probe(cgroup, get(&OFF_CGROUP_ANCESTORS) + level * 8)?;
    id_of(above)
}

/// The current task's cgroup in the unified hierarchy.
#[inline(always)]
fn own_cgroup() -> Option<Ptr> {
    let set: Ptr = probe(current(), get(&OFF_TASK_CGROUPS))?;
    probe(set, get(&OFF_CSSET_DFL))
}

/// Kernel id of a cgroup.
#[inline(always)]
fn id_of(cgroup: Ptr) -> Option<u64> {
    let node: Ptr = probe(cgroup, get(&OFF_CGROUP_KN))?;
    probe(node, get(&OFF_KN_ID))
}

/// Decides on one access: `ALLOW` or `DENY`. `ancestor` returns the id of the current task's ancestor at a
/// level, 0 for none.
#[inline(always)]
fn access(ctx: &DeviceContext, ancestor: impl Fn(u32) -> u64) -> i32 {
    // SAFETY: the program's context; volatile, so that each field is loaded whole as the verifier wants it.
    let (kind, major, minor) = unsafe {
        let device = ctx.device;
        (
            (&raw const (*device).access_type).read_volatile(),
            (&raw const (*device).major).read_volatile(),
            (&raw const (*device).minor).read_volatile(),
        )
    };
    let wanted = kind >> 16 & (DEVICE_READ | DEVICE_WRITE);
    let kind = kind & 0xffff;
    // Creating a node is always allowed, since it is not using the device: runtimes allow it too.
    if wanted == 0 || is_default_device(kind, major, minor) {
        return ALLOW;
    }
    let Some((pod, mode)) = guarded(ancestor) else { return ALLOW };
    if mode & DEVICE_ONLY_WATCHED != 0 && !watched(kind, major, minor) {
        return ALLOW;
    }
    let device = DeviceKey { pod, kind, major, minor, pad: 0 };
    if allowed(&device, wanted, mode & DEVICE_HAS_ANY_MINOR != 0) {
        return ALLOW;
    }
    let mode = mode & !(DEVICE_HAS_ANY_MINOR | DEVICE_ONLY_WATCHED);
    count(&device, wanted, mode);
    if mode == DEVICE_AUDIT { ALLOW } else { DENY }
}

/// The current task's pod (the id of its cgroup) and the pod's mode; `None` if its accesses are not checked.
/// Pods are one level below kubepods (Guaranteed) or two (in the cgroup of their QoS class).
#[inline(always)]
fn guarded(ancestor: impl Fn(u32) -> u64) -> Option<(u64, u32)> {
    let level = *DEVICE_PLACES.get(PLACE_LEVEL)? as u32;
    let mut pod = ancestor(level + 1);
    if pod == *DEVICE_PLACES.get(PLACE_CLASSES[0])? || pod == *DEVICE_PLACES.get(PLACE_CLASSES[1])? {
        pod = ancestor(level + 2);
    }
    // SAFETY: the value is copied at once.
    unsafe { DEVICE_PODS.get(&pod) }.map(|mode| (pod, *mode))
}

/// Whether the device is watched: an access by a pod that was not given it is reported or refused.
#[inline(always)]
fn watched(kind: u32, major: u32, minor: u32) -> bool {
    // SAFETY: only whether there is a value is looked at.
    unsafe { DEVICE_RULES.get(&DeviceKey { pod: WATCHED, kind, major, minor, pad: 0 }) }.is_some()
}

/// Whether the pod's rules allow all of the `wanted` accesses.
#[inline(always)]
fn allowed(device: &DeviceKey, wanted: u32, has_any_minor: bool) -> bool {
    // SAFETY: the values are copied at once.
    let rule = |device: &DeviceKey| unsafe { DEVICE_RULES.get(device).copied().unwrap_or(0) };
    let exact = rule(device);
    let any = || rule(&DeviceKey { minor: ANY_MINOR, ..*device });
    wanted & !exact == 0 || has_any_minor && wanted & !(exact | any()) == 0
}

/// Counts an access that no rule allows, and sends a record of it unless the last one was less than
/// `REPORT_NS` ago.
#[inline(always)]
fn count(device: &DeviceKey, wanted: u32, mode: u32) {
    let Some((key, count)) = counter(device) else { return crate::ring::lost(Kind::Device) };
    // SAFETY: a map value; other CPUs write whole words.
    let (seen, reported, reported_ns, now) = unsafe {
        let word = if mode == DEVICE_AUDIT { &raw mut (*count).audited } else { &raw mut (*count).denied };
        add(word, 1);
        let seen =
            (&raw const (*count).denied).read_volatile() + (&raw const (*count).audited).read_volatile();
        let reported = (&raw const (*count).reported).read_volatile();
        (seen, reported, (&raw const (*count).reported_ns).read_volatile(), bpf_ktime_get_ns())
    };
    if reported_ns != 0 && now < reported_ns + REPORT_NS {
        return;
    }
    // Of several CPUs that come here at once, the one that inserts the key sends the record.
    if DEVICE_TURNS.insert(&DeviceTurn { key, after_ns: reported_ns }, &0, NO_EXIST).is_err() {
        return;
    }
    let task = current();
    let sent = emit::<DeviceRecord>(Kind::Device, |record| {
        let cgroup = own_cgroup().and_then(id_of).unwrap_or(device.pod);
        // SAFETY: the record is reserved and as large as its type; every field is written.
        unsafe {
            (*record).header = header(Kind::Device, get(&SPACE_UNIFIED), cgroup);
            (*record).device = *device;
            (*record).count = seen - reported;
            (*record).pid = probe(task, get(&OFF_TASK_TGID)).unwrap_or(0);
            (*record).wanted = wanted;
            (*record).mode = mode;
            (*record).refused_before = (bpf_get_retval() != 0) as u32;
            (*record).command = command(task);
        }
    });
    // SAFETY: as above; only the CPU that inserted the key writes these words.
    unsafe {
        if sent {
            (&raw mut (*count).reported).write_volatile(seen);
        }
        (&raw mut (*count).reported_ns).write_volatile(now);
    }
}

/// The count of a device, created if it is new, and its key. Once a pod has `DEVICES_COUNTED` counts, further
/// devices share one. `None` if a map is full.
#[inline(always)]
fn counter(device: &DeviceKey) -> Option<(DeviceKey, *mut DeviceCount)> {
    if let Some(count) = DEVICE_COUNTS.get_ptr_mut(device) {
        return Some((*device, count));
    }
    let devices = DEVICES_OF.get_ptr_mut(&device.pod)?;
    let mut key = *device;
    // SAFETY: a map value.
    unsafe {
        if devices.read_volatile() >= DEVICES_COUNTED {
            key = DeviceKey { pod: device.pod, kind: 0, major: 0, minor: 0, pad: 0 };
        }
        let new = DeviceCount { denied: 0, audited: 0, reported: 0, reported_ns: 0 };
        // Another CPU may have created it in the meantime.
        if DEVICE_COUNTS.insert(&key, &new, NO_EXIST).is_ok() {
            add(devices, 1);
        }
    }
    Some((key, DEVICE_COUNTS.get_ptr_mut(&key)?))
}
