//! What the kernel writes, with names that pods choose: mounts, cgroup files, other files of /proc, BTF,
//! records.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jiff::Timestamp;
use nodewarden_ebpf_abi::Record;
use nodewarden_machine::cgroup::Version;
use nodewarden_machine::cpu_list::CpuList;
use nodewarden_machine::ebpf::Moment;
use nodewarden_machine::{fuzzing, mountinfo};
use nodewarden_model::{Detail, Place};

use crate::{parts, text};

/// A table of mounts.
pub fn mountinfo(input: &[u8]) {
    let all: Vec<_> = mountinfo::parse(input).collect();
    assert!(all.len() <= input.split(|byte| *byte == b'\n').count());
    for dir in ["/", "/var/lib/kubelet", "/a b"].map(Path::new) {
        let below = mountinfo::parse_below(input, dir).map(|mount| mount.mnt_id);
        // By bytes: the kernel writes no path as `//a` or `/./a`, which is `/a` for `Path::starts_with`.
        let is_below = |path: &Path| {
            let rest = path.as_os_str().as_bytes().strip_prefix(dir.as_os_str().as_bytes());
            rest.is_some_and(|rest| dir == Path::new("/") || rest.is_empty() || rest[0] == b'/')
        };
        let expected = all.iter().filter(|mount| is_below(&mount.mount_point)).map(|mount| mount.mnt_id);
        let (below, expected): (Vec<_>, Vec<_>) = (below.collect(), expected.collect());
        // The kernel escapes no character that need not be escaped.
        if input.contains(&b'\\') {
            assert!(below.iter().all(|id| expected.contains(id)), "{}", dir.display());
        } else {
            assert_eq!(below, expected, "{}", dir.display());
        }
    }
    for mount in &all {
        let _ = mountinfo::unescape(mount.mount_source.as_deref().unwrap_or_default());
    }
}

/// The files of a cgroup with counters: of v1 when the input begins with `1`, else of v2.
pub fn cgroup_usage(input: &[u8]) {
    let (version, input) = version(input);
    let usage = fuzzing::usage(version, parts(input));
    if let Some(memory) = &usage.memory {
        assert!(memory.working_set_bytes <= memory.usage_bytes, "{memory:?}");
    }
    // Not compared as values: averages of a pressure may be NaN.
    let again = fuzzing::usage(version, parts(input));
    assert_eq!(format!("{usage:?}"), format!("{again:?}"));
}

/// The files of a cgroup with limits: of v1 when the input begins with `1`, else of v2.
pub fn cgroup_limits(input: &[u8]) {
    let (version, input) = version(input);
    let Some(text) = text(input) else { return };
    let texts = || parts(text.as_bytes()).map(|part| crate::text(part).unwrap_or_default());
    let Some(limits) = fuzzing::limits(version, texts()) else { return };
    assert_eq!(fuzzing::limits(version, texts()), Some(limits.clone()));
    if let Some(cpus) = &limits.cpuset_cpus {
        assert_eq!(CpuList::parse_cpuset(cpus).map(|list| list.to_string()).as_ref(), Ok(cpus));
    }
}

fn version(input: &[u8]) -> (Version, &[u8]) {
    match input.split_first() {
        Some((b'1', rest)) => (Version::V1, rest),
        Some((_, rest)) => (Version::V2, rest),
        None => (Version::V2, input),
    }
}

/// Other texts: `/proc/<pid>/cgroup`, `/proc/kallsyms`, lists of CPUs, resolv.conf, `devices.list`.
pub fn proc_files(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let lines = text.lines().count();
    assert!(fuzzing::memberships(text).len() <= lines);
    for (start, end) in fuzzing::symbols(text) {
        assert!(start < end, "{start} {end}");
    }
    for line in text.lines().take(100) {
        if let Some(list) = CpuList::parse(line) {
            assert_eq!(CpuList::parse(&list.to_string()), Some(list.clone()), "{line:?}");
            assert_eq!(list.count() as usize, list.iter().count());
        }
    }
    match nodewarden_pods::fuzzing::resolv(text) {
        Ok(resolv) => assert!(resolv.nameservers.len() <= lines),
        Err(line) => assert!((1..=lines).contains(&line)),
    }
    let [first, again] = nodewarden_devices::fuzzing::devices_list(text);
    assert_eq!(first, again);
}

/// The kernel's types.
pub fn btf(input: &[u8]) {
    let _ = fuzzing::btf(input);
}

/// Records of the kernel programs, one after another: two bytes with the length, then the record. The events
/// made of them are read back from the journal's form and from gRPC's.
pub fn kernel_record(input: &[u8]) {
    let mut registry = nodewarden_observer::fuzzing::registry();
    let mut rest = input;
    let mut groups = 1;
    while let Some((length, after)) = rest.split_first_chunk() {
        let (bytes, after) = after.split_at(usize::from(u16::from_le_bytes(*length)).min(after.len()));
        rest = after;
        let Some(record) = Record::decode(bytes) else { continue };
        groups += 1;
        let monotonic_ns = record.header().time_ns >> 1;
        let wall = Timestamp::from_nanosecond(monotonic_ns.into()).unwrap_or_default();
        let time = Moment { wall, monotonic_ns };
        let Some(happened) = registry.apply(&record, time) else { continue };
        let json = serde_json::to_string(&happened.detail).expect("an event is written as JSON");
        assert_eq!(serde_json::from_str::<Detail>(&json).ok().as_ref(), Some(&happened.detail), "{json}");
        if let Some(body) = happened.detail.body() {
            let sent = body.to_proto();
            let read = Detail::from_body(happened.detail.event_type(), sent);
            assert_eq!(read.as_ref(), Some(&happened.detail));
            // Command names may hold control characters; the command line replaces them.
            let _ = body.line(&Place { cgroup: &happened.path, pod: None });
        }
    }
    registry.expire(u64::MAX);
    assert!(registry.groups().count() <= groups);
}
