//! Topic device: which pod may open which device. One program at the kubepods root of the unified hierarchy, which
//! the kernel runs at every open and mknod of a device node by a process below it; the programs of cgroups further
//! down (the runtime's) have run before, and all must allow.
//!
//! Constant time: the devices that every container has are told by a few comparisons, the others by one
//! look-up for the pod and at most two for its rules. Only an access that no rule allows costs more.

use aya_ebpf::{
    helpers::generated::{bpf_get_current_ancestor_cgroup_id, bpf_get_retval, bpf_ktime_get_ns},
    macros::cgroup_device,
    programs::DeviceContext,
};
use nodewarden_ebpf_abi::{
    ANY_MINOR, DEVICE_AUDIT, DEVICE_HAS_ANY_MINOR, DEVICE_READ, DEVICE_WRITE, DEVICES_COUNTED, DeviceCount,
    DeviceKey, DeviceRecord, DeviceTurn, Kind, PLACE_CLASSES, PLACE_LEVEL, is_default_device,
};

use crate::{
    count::add,
    globals::*,
    maps::{DEVICE_COUNTS, DEVICE_PLACES, DEVICE_PODS, DEVICE_RULES, DEVICE_TURNS, DEVICES_OF},
    read::{Ptr, probe},
    ring::{command, current, emit, header},
};

const DENY: i32 = 0;
const ALLOW: i32 = 1;
/// BPF_NOEXIST
const NO_EXIST: u64 = 1;
/// The same device of the same pod is told once in this time.
const TELL_NS: u64 = 1_000_000_000;

/// Ancestors by the kernel's helper, which `cgroup_device` programs have since Linux 6.4.
#[cgroup_device]
pub fn device_access(ctx: DeviceContext) -> i32 {
    // SAFETY: the helper checks the level itself.
    access(&ctx, |level| unsafe { bpf_get_current_ancestor_cgroup_id(level as i32) })
}

/// The same with ancestors read from the task, for kernels before that.
#[cgroup_device]
pub fn device_access_probed(ctx: DeviceContext) -> i32 {
    access(&ctx, |level| ancestor(level).unwrap_or(0))
}

/// Id of the cgroup of the unified hierarchy that the current task is in or below, at a level.
#[inline(always)]
fn ancestor(level: u32) -> Option<u64> {
    let cgroup = own_cgroup()?;
    if level > probe::<u32>(cgroup, get(&OFF_CGROUP_LEVEL))? {
        return None;
    }
    let above: Ptr = probe(cgroup, get(&OFF_CGROUP_ANCESTORS) + level * 8)?;
    id_of(above)
}

#[inline(always)]
fn own_cgroup() -> Option<Ptr> {
    let set: Ptr = probe(current(), get(&OFF_TASK_CGROUPS))?;
    probe(set, get(&OFF_CSSET_DFL))
}

#[inline(always)]
fn id_of(cgroup: Ptr) -> Option<u64> {
    let node: Ptr = probe(cgroup, get(&OFF_CGROUP_KN))?;
    probe(node, get(&OFF_KN_ID))
}

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
    // Making a node is not using it: runtimes allow it too.
    if wanted == 0 || is_default_device(kind, major, minor) {
        return ALLOW;
    }
    let Some((pod, mode)) = guarded(ancestor) else { return ALLOW };
    let device = DeviceKey { pod, kind, major, minor, pad: 0 };
    if allowed(&device, wanted, mode & DEVICE_HAS_ANY_MINOR != 0) {
        return ALLOW;
    }
    let mode = mode & !DEVICE_HAS_ANY_MINOR;
    count(&device, wanted, mode);
    if mode == DEVICE_AUDIT { ALLOW } else { DENY }
}

/// The current task's pod and what is done about its accesses, if it is guarded. Pods are one level below kubepods
/// (Guaranteed) or two (in their class's cgroup).
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

#[inline(always)]
fn allowed(device: &DeviceKey, wanted: u32, has_any_minor: bool) -> bool {
    // SAFETY: the values are copied at once.
    let rule = |device: &DeviceKey| unsafe { DEVICE_RULES.get(device).copied().unwrap_or(0) };
    let exact = rule(device);
    let any = || rule(&DeviceKey { minor: ANY_MINOR, ..*device });
    wanted & !exact == 0 || has_any_minor && wanted & !(exact | any()) == 0
}

/// Counts an access that no rule allows, and tells it if it is its turn.
#[inline(always)]
fn count(device: &DeviceKey, wanted: u32, mode: u32) {
    let Some((key, count)) = counter(device) else { return crate::ring::lost(Kind::Device) };
    // SAFETY: a map value; what other CPUs write meanwhile is a word each.
    let (seen, told, told_ns, now) = unsafe {
        let word = if mode == DEVICE_AUDIT { &raw mut (*count).audited } else { &raw mut (*count).denied };
        add(word, 1);
        let seen =
            (&raw const (*count).denied).read_volatile() + (&raw const (*count).audited).read_volatile();
        let told = (&raw const (*count).told).read_volatile();
        (seen, told, (&raw const (*count).told_ns).read_volatile(), bpf_ktime_get_ns())
    };
    if told_ns != 0 && now < told_ns + TELL_NS {
        return;
    }
    // Of several CPUs that come to this point at once, one gets the turn.
    if DEVICE_TURNS.insert(&DeviceTurn { key, after_ns: told_ns }, &0, NO_EXIST).is_err() {
        return;
    }
    let task = current();
    let told_it = emit::<DeviceRecord>(Kind::Device, |record| {
        let cgroup = own_cgroup().and_then(id_of).unwrap_or(device.pod);
        // SAFETY: the record is reserved and as large as its type; every field is written.
        unsafe {
            (*record).header = header(Kind::Device, get(&SPACE_UNIFIED), cgroup);
            (*record).device = *device;
            (*record).count = seen - told;
            (*record).pid = probe(task, get(&OFF_TASK_TGID)).unwrap_or(0);
            (*record).wanted = wanted;
            (*record).mode = mode;
            (*record).refused_before = (bpf_get_retval() != 0) as u32;
            (*record).command = command(task);
        }
    });
    // SAFETY: as above; only who has the turn writes these.
    unsafe {
        if told_it {
            (&raw mut (*count).told).write_volatile(seen);
        }
        (&raw mut (*count).told_ns).write_volatile(now);
    }
}

/// The count of a device, made now if it is new, and its key: beyond `DEVICES_COUNTED` devices, the one that a pod's
/// further ones share.
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
        let new = DeviceCount { denied: 0, audited: 0, told: 0, told_ns: 0 };
        // Another CPU may have made it just now.
        if DEVICE_COUNTS.insert(&key, &new, NO_EXIST).is_ok() {
            add(devices, 1);
        }
    }
    Some((key, DEVICE_COUNTS.get_ptr_mut(&key)?))
}
