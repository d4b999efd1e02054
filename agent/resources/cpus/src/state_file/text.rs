//! The text that the checksum covers: the Go value as `dump.ForHash` prints it, with sorted keys.

use std::collections::BTreeMap;
use std::fmt::Write;

use nodewarden_machine::cpu_set::CpuSet;

use super::StateFile;

/// The text of the second format, or with `pod_level` of the third.
pub(super) fn of(state: &StateFile, pod_level: bool) -> String {
    let pod = |(uid, containers): (&String, &BTreeMap<String, CpuSet>)| {
        format!("{uid}:{}", map(containers.iter().map(|(name, cpus)| format!("{name}:{cpus}"))))
    };
    let entries = map(state.assignments.containers.iter().map(pod));
    let mut text = begin(state, "map[string]map[string]string", &entries);
    if pod_level {
        let elements = |cpus: &CpuSet| map(cpus.iter().map(|cpu| format!("{cpu}:{{}}")));
        let entry = |(uid, cpus): (&String, &CpuSet)| {
            format!("{uid}:{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){}}}}}", elements(cpus))
        };
        let pods = map(state.assignments.pods.iter().map(entry));
        let _ = write!(text, " PodEntries:(state.PodCPUAssignments){pods}");
    }
    text + " Checksum:(checksum.Checksum)0}"
}

/// The text of the first format, whose entries are by container id.
pub(super) fn first(state: &StateFile, entries: &BTreeMap<String, String>) -> String {
    let entries = map(entries.iter().map(|(id, cpus)| format!("{id}:{cpus}")));
    begin(state, "map[string]string", &entries) + " Checksum:(checksum.Checksum)0}"
}

fn begin(state: &StateFile, kind: &str, entries: &str) -> String {
    format!(
        "(*state.CPUManagerCheckpoint){{PolicyName:(string){} DefaultCPUSet:(string){} Entries:({kind}){entries}",
        state.policy, state.shared
    )
}

fn map(entries: impl Iterator<Item = String>) -> String {
    format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
}
