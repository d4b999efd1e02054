//! The CPU time of the programs and the memory of the maps, as the kernel accounts them.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use aya::programs::Program;
use nodewarden_ebpf_abi::{CACHE_ENTRIES, CELL_ARRAYS, CpuState, GroupUsage, Index};

use super::programs::Attached;
use nodewarden_model::ProgramCost;

/// Run count and run time of a loaded program.
pub fn of(program: &Program, attached: &Attached) -> Option<ProgramCost> {
    let info = program.info().ok()?;
    Some(ProgramCost {
        name: attached.program.name.to_owned(),
        topic: attached.topic,
        hook: attached.program.hook.to_string(),
        run_count: info.run_count(),
        run_time_ns: info.run_time().as_nanos() as u64,
        memory_bytes: info.memory_locked().map_or(0, u64::from),
        recursion_misses: recursion_misses(program),
    })
}

/// How often the kernel skipped the program because it was already running on that CPU: its task was
/// preempted inside it, and another task came to the same hook (kernel: bpf_prog_inc_misses_counter). `None`
/// before Linux 5.12, which does not say.
fn recursion_misses(program: &Program) -> Option<u64> {
    let fd = program.fd().ok()?.as_fd().as_raw_fd();
    field(&fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?, "recursion_misses:")
}

/// The number after `key` in the text of an fdinfo file.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

/// Memory of all eBPF maps that this process has open, in bytes: the `memlock` line of each map's fdinfo.
pub fn map_bytes() -> u64 {
    let Ok(fds) = fs::read_dir("/proc/self/fd") else { return 0 };
    let is_map = |name: &std::ffi::OsStr| {
        fs::read_link(format!("/proc/self/fd/{}", name.to_string_lossy()))
            .is_ok_and(|target| target.as_os_str() == "anon_inode:bpf-map")
    };
    // Several descriptors may refer to the same map.
    let by_id: HashMap<u64, u64> = fds
        .flatten()
        .filter(|fd| is_map(&fd.file_name()))
        .filter_map(|fd| {
            let path = format!("/proc/self/fdinfo/{}", fd.file_name().to_string_lossy());
            let info = fs::read_to_string(path).ok()?;
            Some((field(&info, "map_id:")?, field(&info, "memlock:")?))
        })
        .collect();
    by_id.values().sum()
}

/// Memory the maps take, in bytes, as a formula of capacity (cgroups a hierarchy), CPUs, hierarchies and ring
/// size. Per-CPU cells dominate: 160 bytes a cgroup and CPU.
pub fn map_bytes_formula(cgroups: u64, cpus: u64, spaces: u64, ring: u64) -> u64 {
    let slots = cgroups + 1;
    let bytes = |index: Index| {
        CELL_ARRAYS.iter().filter(|array| array.index == index).map(|array| array.bytes as u64).sum::<u64>()
    };
    // A hash element with its bucket and an entry of the free queue, for each slot and hierarchy.
    let table = 64 + 16 + 4;
    slots * cpus * bytes(Index::CpuAndSlot)
        + slots * bytes(Index::Slot)
        + slots * spaces * table
        + slots * size_of::<GroupUsage>() as u64
        + cpus * size_of::<CpuState>() as u64
        + u64::from(CACHE_ENTRIES) * 8
        + ring
        + (2 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_does_not_count_skipped_runs_gives_none() {
        let text = "prog_type:\t26\nrun_cnt:\t12\nrecursion_misses:\t3\nverified_insns:\t900\n";
        assert_eq!(field(text, "recursion_misses:"), Some(3));
        assert_eq!(field("prog_type:\t26\nrun_cnt:\t12\n", "recursion_misses:"), None);
    }

    #[test]
    fn a_thousand_cgroups_on_128_cpus_stay_below_256_megabytes() {
        assert!(map_bytes_formula(1000, 128, 4, 4 << 20) < 256_000_000);
        // Even at the default capacity.
        assert!(map_bytes_formula(8192, 128, 4, 4 << 20) < 256_000_000);
    }
}
