//! Files of cgroup v1 (Documentation/admin-guide/cgroup-v1/).

use super::Controller;
use super::activity::Known;
use super::files::Spec;
use super::parse::{device, lines, number, pairs};
use super::v2::{cpu, memory, on_memory, pids_current, pids_max};
use nodewarden_model::{IoUsage, Usage};

/// Limits of at least this value mean no limit: PAGE_COUNTER_MAX in bytes, whatever the page size.
const NO_LIMIT: u64 = 0x7fff_ffff_fff0_0000;

/// The files in the order in which they are read: usage before the values that are computed from it.
pub const FILES: &[Spec] = &[
    Spec::hot(Controller::CpuAcct, "cpuacct.usage", |t, u| {
        if let Some(ns) = number(t) {
            cpu(u).usage_ns = ns;
        }
    })
    .with_cpu_time(),
    // The kernel's tick samples, as the kubelet reads them too; usage_user and usage_sys are no better.
    Spec::hot(Controller::CpuAcct, "cpuacct.stat", cpuacct_stat),
    Spec::limit(Controller::Cpu, "cpu.shares", |t, u| on_cpu(u, |c| c.shares = number(t))),
    // −1 for no limit, which is not parsed as a number.
    Spec::limit(Controller::Cpu, "cpu.cfs_quota_us", |t, u| on_cpu(u, |c| c.quota_us = number(t))),
    Spec::limit(Controller::Cpu, "cpu.cfs_period_us", |t, u| on_cpu(u, |c| c.period_us = number(t))),
    Spec::hot(Controller::Cpu, "cpu.stat", cpu_stat)
        .hot_when(|u| u.cpu.as_ref().is_some_and(|c| c.quota_us.is_some())),
    Spec::hot(Controller::Memory, "memory.usage_in_bytes", |t, u| {
        if let Some(bytes) = number(t) {
            memory(u).usage_bytes = bytes;
        }
    })
    .alone()
    .known(Known::Memory),
    Spec::hot(Controller::Memory, "memory.stat", memory_stat),
    // The eBPF programs report it at once.
    Spec::slow(Controller::Memory, "memory.oom_control", oom_control),
    Spec::limit(Controller::Memory, "memory.limit_in_bytes", |t, u| {
        on_memory(u, |m| m.limit_bytes = limit(t));
    }),
    // Without a limit it cannot be hit.
    Spec::hot(Controller::Memory, "memory.failcnt", |t, u| on_memory(u, |m| m.failcnt = number(t)))
        .hot_when(|u| u.memory.as_ref().is_some_and(|m| m.limit_bytes.is_some())),
    Spec::slow(Controller::Memory, "memory.max_usage_in_bytes", |t, u| {
        on_memory(u, |m| m.max_usage_bytes = number(t));
    }),
    Spec::slow(Controller::Memory, "memory.kmem.usage_in_bytes", |t, u| {
        on_memory(u, |m| m.kernel_bytes = number(t));
    }),
    Spec::limit(Controller::Memory, "memory.memsw.limit_in_bytes", |t, u| {
        on_memory(u, |m| m.swap_limit_bytes = limit(t));
    }),
    Spec::limit(Controller::Memory, "memory.soft_limit_in_bytes", |t, u| {
        on_memory(u, |m| m.reservation_bytes = limit(t));
    }),
    Spec::hot(Controller::Pids, "pids.current", pids_current).alone().known(Known::Threads),
    Spec::limit(Controller::Pids, "pids.max", pids_max),
    // Since Linux 6.10 only where a throttling rule was set; without one the file is empty.
    Spec::hot(Controller::Io, "blkio.throttle.io_service_bytes_recursive", |t, u| {
        u.io.clear();
        blkio(t, u, |io, read, n| *(if read { &mut io.read_bytes } else { &mut io.write_bytes }) = n);
    })
    .hot_when(|u| !u.io.is_empty())
    .alone(),
    Spec::hot(Controller::Io, "blkio.throttle.io_serviced_recursive", |t, u| {
        blkio(t, u, |io, read, n| *(if read { &mut io.reads } else { &mut io.writes }) = n);
    })
    .hot_when(|u| !u.io.is_empty())
    .alone(),
];

fn on_cpu(usage: &mut Usage, change: impl FnOnce(&mut nodewarden_model::CpuUsage)) {
    if let Some(cpu) = &mut usage.cpu {
        change(cpu);
    }
}

/// `user N` and `system N` in USER_HZ, which is 100 on every supported architecture.
fn cpuacct_stat(text: &[u8], usage: &mut Usage) {
    const TICK_NS: u64 = 10_000_000;
    on_cpu(usage, |cpu| {
        for (key, ticks) in pairs(text) {
            match key {
                b"user" => cpu.user_ns = Some(ticks.saturating_mul(TICK_NS)),
                b"system" => cpu.system_ns = Some(ticks.saturating_mul(TICK_NS)),
                _ => {}
            }
        }
    });
}

fn limit(text: &[u8]) -> Option<u64> {
    number(text).filter(|bytes| *bytes < NO_LIMIT)
}

fn cpu_stat(text: &[u8], usage: &mut Usage) {
    on_cpu(usage, |cpu| {
        for (key, n) in pairs(text) {
            match key {
                b"nr_periods" => cpu.periods = Some(n),
                b"nr_throttled" => cpu.throttled_periods = Some(n),
                b"throttled_time" => cpu.throttled_ns = Some(n),
                _ => {}
            }
        }
    });
}

/// The `total_` values count the children too, as cAdvisor and v2 do.
fn memory_stat(text: &[u8], usage: &mut Usage) {
    on_memory(usage, |memory| {
        for (key, n) in pairs(text) {
            match key {
                b"total_rss" => memory.rss_bytes = Some(n),
                b"total_cache" => memory.cache_bytes = Some(n),
                b"total_swap" => memory.swap_bytes = Some(n),
                b"total_mapped_file" => memory.mapped_file_bytes = Some(n),
                b"total_active_file" => memory.active_file_bytes = Some(n),
                b"total_inactive_file" => memory.inactive_file_bytes = Some(n),
                b"total_pgfault" => memory.page_faults = Some(n),
                b"total_pgmajfault" => memory.major_page_faults = Some(n),
                b"pgfault" => memory.own_page_faults = Some(n),
                b"pgmajfault" => memory.own_major_page_faults = Some(n),
                _ => {}
            }
        }
        let inactive = memory.inactive_file_bytes.unwrap_or(0);
        memory.working_set_bytes = memory.usage_bytes.saturating_sub(inactive);
    });
}

fn oom_control(text: &[u8], usage: &mut Usage) {
    let kills = pairs(text).find(|(key, _)| *key == b"oom_kill").map(|(_, n)| n);
    on_memory(usage, |memory| memory.events.oom_kill = kills);
}

/// `MAJ:MIN Read|Write|… N` lines; the `Total` at the end has no device.
fn blkio(text: &[u8], usage: &mut Usage, set: impl Fn(&mut IoUsage, bool, u64)) {
    for line in lines(text) {
        let mut words = line.split(|b| *b == b' ');
        let Some((major, minor)) = words.next().and_then(device) else { continue };
        let read = match words.next() {
            Some(b"Read") => true,
            Some(b"Write") => false,
            _ => continue,
        };
        let Some(n) = words.next().and_then(number) else { continue };
        let at = usage.io.iter().position(|io| (io.major, io.minor) == (major, minor)).unwrap_or_else(|| {
            usage.io.push(IoUsage { major, minor, ..IoUsage::default() });
            usage.io.len() - 1
        });
        set(&mut usage.io[at], read, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_model::MemoryUsage;

    #[test]
    fn no_limit_whatever_the_page_size() {
        assert_eq!(limit(b"9223372036854771712\n"), None);
        assert_eq!(limit(b"9223372036854710272\n"), None, "64 KiB pages");
        assert_eq!(limit(b"20971520\n"), Some(20_971_520));
    }

    #[test]
    fn memory_counts_the_children() {
        let mut u = Usage {
            memory: Some(MemoryUsage { usage_bytes: 100, ..Default::default() }),
            ..Default::default()
        };
        let text = b"rss 1\npgfault 4\ntotal_rss 60\ntotal_inactive_file 30\ntotal_pgfault 9\n";
        memory_stat(text, &mut u);
        oom_control(b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", &mut u);
        let m = u.memory.unwrap();
        assert_eq!((m.rss_bytes, m.working_set_bytes), (Some(60), 70));
        assert_eq!((m.page_faults, m.own_page_faults, m.events.oom_kill), (Some(9), Some(4), Some(3)));
    }

    #[test]
    fn a_time_beyond_64_bits_of_nanoseconds_is_the_largest() {
        let mut u = Usage { cpu: Some(Default::default()), ..Default::default() };
        cpuacct_stat(b"user 18446744073709551615\nsystem 3\n", &mut u);
        let cpu = u.cpu.unwrap();
        assert_eq!((cpu.user_ns, cpu.system_ns), (Some(u64::MAX), Some(30_000_000)));
    }

    #[test]
    fn block_io_of_two_files_joins_by_device() {
        let mut u = Usage::default();
        let set = FILES.iter().filter(|s| s.name.starts_with("blkio"));
        for (spec, text) in set.zip([
            &b"254:0 Read 4096\n254:0 Write 8192\n254:0 Sync 1\n254:0 Total 12288\nTotal 12288\n"[..],
            b"254:0 Read 1\n254:0 Write 2\nTotal 3\n",
        ]) {
            (spec.parse)(text, &mut u);
        }
        assert_eq!(u.io.len(), 1);
        assert_eq!(
            (u.io[0].read_bytes, u.io[0].write_bytes, u.io[0].reads, u.io[0].writes),
            (4096, 8192, 1, 2)
        );
    }
}
