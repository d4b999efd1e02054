//! Files of cgroup v2 (Documentation/admin-guide/cgroup-v2.rst).

use super::Controller;
use super::activity::Known;
use super::files::Spec;
use super::parse::{device, fields, lines, number, pairs, pressure};
use nodewarden_model::{CpuUsage, IoUsage, MemoryUsage, ProcessUsage, Usage};

/// PSI: on hybrid too, from the unified tree.
pub const PRESSURES: &[Spec] = &[
    Spec::pressure("cpu.pressure", |t, u| u.pressures.cpu = pressure(t)),
    Spec::pressure("memory.pressure", |t, u| u.pressures.memory = pressure(t)),
    Spec::pressure("io.pressure", |t, u| u.pressures.io = pressure(t)),
];

/// The files in the order in which they are read: `memory.current` before the values that are computed from
/// it.
pub const FILES: &[Spec] = &[
    Spec::hot(Controller::Cpu, "cpu.stat", cpu_stat).with_cpu_time(),
    Spec::limit(Controller::Cpu, "cpu.weight", |t, u| cpu(u).weight = number(t)),
    Spec::limit(Controller::Cpu, "cpu.max", cpu_max),
    Spec::hot(Controller::Memory, "memory.current", |t, u| {
        if let Some(bytes) = number(t) {
            memory(u).usage_bytes = bytes;
        }
    })
    .alone()
    .known(Known::Memory),
    Spec::hot(Controller::Memory, "memory.stat", memory_stat),
    Spec::hot(Controller::Memory, "memory.events", memory_events),
    Spec::hot(Controller::Memory, "memory.swap.current", |t, u| on_memory(u, |m| m.swap_bytes = number(t))),
    Spec::hot(Controller::Memory, "memory.peak", |t, u| on_memory(u, |m| m.max_usage_bytes = number(t))),
    Spec::limit(Controller::Memory, "memory.max", |t, u| on_memory(u, |m| m.limit_bytes = number(t))),
    Spec::limit(Controller::Memory, "memory.high", |t, u| on_memory(u, |m| m.high_bytes = number(t))),
    Spec::limit(Controller::Memory, "memory.min", |t, u| {
        on_memory(u, |m| m.reservation_bytes = number(t).filter(|n| *n > 0));
    }),
    Spec::limit(Controller::Memory, "memory.swap.max", |t, u| {
        on_memory(u, |m| m.swap_limit_bytes = number(t));
    }),
    Spec::hot(Controller::Pids, "pids.current", pids_current).alone().known(Known::Threads),
    Spec::limit(Controller::Pids, "pids.max", pids_max),
    Spec::hot(Controller::Io, "io.stat", io_stat).alone(),
];

/// The CPU part, created when one of its files exists.
pub fn cpu(usage: &mut Usage) -> &mut CpuUsage {
    usage.cpu.get_or_insert_with(CpuUsage::default)
}

/// The memory part, created when the usage is known.
pub fn memory(usage: &mut Usage) -> &mut MemoryUsage {
    usage.memory.get_or_insert_with(MemoryUsage::default)
}

/// Changes the memory part if there is one.
pub fn on_memory(usage: &mut Usage, change: impl FnOnce(&mut MemoryUsage)) {
    if let Some(memory) = &mut usage.memory {
        change(memory);
    }
}

/// Threads now; the same file on v1.
pub fn pids_current(text: &[u8], usage: &mut Usage) {
    if let Some(threads) = number(text) {
        usage.processes.get_or_insert(ProcessUsage::default()).threads = threads;
    }
}

/// `max` for no limit; the same file on v1.
pub fn pids_max(text: &[u8], usage: &mut Usage) {
    if let Some(processes) = &mut usage.processes {
        processes.max = number(text);
    }
}

fn cpu_stat(text: &[u8], usage: &mut Usage) {
    let cpu = cpu(usage);
    for (key, n) in pairs(text) {
        match key {
            b"usage_usec" => cpu.usage_ns = n.saturating_mul(1000),
            b"user_usec" => cpu.user_ns = Some(n.saturating_mul(1000)),
            b"system_usec" => cpu.system_ns = Some(n.saturating_mul(1000)),
            b"nr_periods" => cpu.periods = Some(n),
            b"nr_throttled" => cpu.throttled_periods = Some(n),
            b"throttled_usec" => cpu.throttled_ns = Some(n.saturating_mul(1000)),
            _ => {}
        }
    }
}

/// `$QUOTA $PERIOD`, the quota `max` for none.
fn cpu_max(text: &[u8], usage: &mut Usage) {
    let mut words = text.trim_ascii().split(|b| *b == b' ');
    let cpu = cpu(usage);
    cpu.quota_us = words.next().and_then(number);
    cpu.period_us = words.next().and_then(number);
}

fn memory_stat(text: &[u8], usage: &mut Usage) {
    let Some(memory) = &mut usage.memory else { return };
    for (key, n) in pairs(text) {
        match key {
            b"anon" => memory.rss_bytes = Some(n),
            b"file" => memory.cache_bytes = Some(n),
            b"kernel" => memory.kernel_bytes = Some(n),
            b"file_mapped" => memory.mapped_file_bytes = Some(n),
            b"active_file" => memory.active_file_bytes = Some(n),
            b"inactive_file" => memory.inactive_file_bytes = Some(n),
            b"pgfault" => memory.page_faults = Some(n),
            b"pgmajfault" => memory.major_page_faults = Some(n),
            _ => {}
        }
    }
    memory.working_set_bytes = memory.usage_bytes.saturating_sub(memory.inactive_file_bytes.unwrap_or(0));
}

fn memory_events(text: &[u8], usage: &mut Usage) {
    let Some(memory) = &mut usage.memory else { return };
    let events = &mut memory.events;
    for (key, n) in pairs(text) {
        match key {
            b"low" => events.low = Some(n),
            b"high" => events.high = Some(n),
            b"max" => events.max = Some(n),
            b"oom" => events.oom = Some(n),
            b"oom_kill" => events.oom_kill = Some(n),
            _ => {}
        }
    }
}

/// `MAJ:MIN rbytes=… wbytes=… rios=… wios=… …`
fn io_stat(text: &[u8], usage: &mut Usage) {
    usage.io.clear();
    for line in lines(text) {
        let Some((major, minor)) = line.split(|b| *b == b' ').next().and_then(device) else { continue };
        let mut io = IoUsage { major, minor, ..IoUsage::default() };
        let mut any = false;
        for (key, value) in fields(line) {
            let Some(n) = number(value) else { continue };
            any = true;
            match key {
                b"rbytes" => io.read_bytes = n,
                b"wbytes" => io.write_bytes = n,
                b"rios" => io.reads = n,
                b"wios" => io.writes = n,
                _ => {}
            }
        }
        // A device that was removed is listed without values.
        if any {
            usage.io.push(io);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_v2_cgroup_are_read() {
        let mut u = Usage::default();
        cpu_stat(
            b"usage_usec 12\nuser_usec 5\nsystem_usec 7\nnr_periods 3\nnr_throttled 1\nthrottled_usec 9\n",
            &mut u,
        );
        cpu_max(b"78000 100000\n", &mut u);
        let cpu = u.cpu.clone().unwrap();
        assert_eq!((cpu.usage_ns, cpu.user_ns, cpu.throttled_ns), (12_000, Some(5000), Some(9000)));
        assert_eq!((cpu.quota_us, cpu.period_us), (Some(78_000), Some(100_000)));
        cpu_max(b"max 100000\n", &mut u);
        assert_eq!(u.cpu.unwrap().quota_us, None);
    }

    #[test]
    fn working_set_is_usage_without_inactive_file_and_never_negative() {
        let mut u = Usage {
            memory: Some(MemoryUsage { usage_bytes: 100, ..Default::default() }),
            ..Default::default()
        };
        memory_stat(b"anon 60\nfile 40\ninactive_file 30\n", &mut u);
        assert_eq!(u.memory.as_ref().unwrap().working_set_bytes, 70);
        memory_stat(b"inactive_file 130\n", &mut u);
        assert_eq!(u.memory.unwrap().working_set_bytes, 0);
    }

    #[test]
    fn the_stat_of_a_missing_controller_is_ignored() {
        let mut u = Usage::default();
        memory_stat(b"anon 60\n", &mut u);
        memory_events(b"oom 1\n", &mut u);
        assert_eq!(u, Usage::default());
    }

    #[test]
    fn a_time_beyond_64_bits_of_nanoseconds_is_the_largest() {
        let mut u = Usage::default();
        cpu_stat(b"usage_usec 18446744073709551615\nuser_usec 18446744073709552\n", &mut u);
        let cpu = u.cpu.unwrap();
        assert_eq!((cpu.usage_ns, cpu.user_ns), (u64::MAX, Some(u64::MAX)));
    }

    #[test]
    fn io_of_each_device() {
        let mut u = Usage::default();
        io_stat(b"8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n7:0 \n", &mut u);
        assert_eq!(u.io.len(), 1);
        assert_eq!((u.io[0].read_bytes, u.io[0].writes), (1, 4));
    }
}
