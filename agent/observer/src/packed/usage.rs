//! The last reading of a cgroup's files.

use std::time::SystemTime;

use nodewarden_model::{
    CpuUsage, IoUsage, MemoryEvents, MemoryUsage, Pressure, PressureLine, Pressures, ProcessUsage, Usage,
};

use super::{Figures, Packed};

/// A [`Usage`] in little memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptUsage {
    /// As it is, because nothing else is new where nothing has run.
    time: Option<SystemTime>,
    figures: Packed,
}

impl KeptUsage {
    /// What was kept.
    pub fn get(&self) -> Usage {
        let mut usage = Usage { time: self.time, ..Usage::default() };
        each(&mut self.figures.reader(), &mut usage);
        usage
    }

    /// Keeps the time of a reading at which nothing else is new.
    pub fn set_time(&mut self, time: Option<SystemTime>) {
        self.time = time;
    }

    /// Keeps this one instead.
    pub fn set(&mut self, usage: &mut Usage) {
        self.time = usage.time;
        self.figures.set(|figures| each(figures, usage));
    }
}

/// Every figure of a reading but its time.
fn each(f: &mut impl Figures, usage: &mut Usage) {
    let Usage { time: _, cpu: of_cpu, memory: of_memory, processes: of_processes, io: of_io, pressures } =
        usage;
    f.part(of_cpu, cpu);
    f.part(of_memory, memory);
    f.part(of_processes, processes);
    f.list(of_io, io);
    let Pressures { cpu, memory, io } = pressures;
    for pressures in [cpu, memory, io] {
        f.part(pressures, pressure);
    }
}

fn cpu(f: &mut impl Figures, cpu: &mut CpuUsage) {
    let CpuUsage {
        usage_ns,
        user_ns,
        system_ns,
        periods,
        throttled_periods,
        throttled_ns,
        shares,
        weight,
        quota_us,
        period_us,
    } = cpu;
    f.number(usage_ns);
    let times = [user_ns, system_ns, periods, throttled_periods, throttled_ns];
    for figure in times {
        f.optional(figure);
    }
    for figure in [shares, weight, quota_us, period_us] {
        f.optional(figure);
    }
}

fn memory(f: &mut impl Figures, memory: &mut MemoryUsage) {
    let MemoryUsage {
        usage_bytes,
        working_set_bytes,
        rss_bytes,
        cache_bytes,
        swap_bytes,
        mapped_file_bytes,
        kernel_bytes,
        active_file_bytes,
        inactive_file_bytes,
        max_usage_bytes,
        failcnt,
        page_faults,
        major_page_faults,
        own_page_faults,
        own_major_page_faults,
        limit_bytes,
        swap_limit_bytes,
        reservation_bytes,
        high_bytes,
        events: MemoryEvents { low, high, max, oom, oom_kill },
    } = memory;
    f.number(usage_bytes);
    f.number(working_set_bytes);
    let all = [
        rss_bytes,
        cache_bytes,
        swap_bytes,
        mapped_file_bytes,
        kernel_bytes,
        active_file_bytes,
        inactive_file_bytes,
        max_usage_bytes,
        failcnt,
        page_faults,
        major_page_faults,
        own_page_faults,
        own_major_page_faults,
        limit_bytes,
        swap_limit_bytes,
        reservation_bytes,
        high_bytes,
    ];
    for figure in all {
        f.optional(figure);
    }
    for figure in [low, high, max, oom, oom_kill] {
        f.optional(figure);
    }
}

fn processes(f: &mut impl Figures, processes: &mut ProcessUsage) {
    let ProcessUsage { threads, max } = processes;
    f.number(threads);
    f.optional(max);
}

fn io(f: &mut impl Figures, io: &mut IoUsage) {
    let IoUsage { major, minor, device, read_bytes, write_bytes, reads, writes } = io;
    f.short(major);
    f.short(minor);
    f.text(device);
    for figure in [read_bytes, write_bytes, reads, writes] {
        f.number(figure);
    }
}

fn pressure<F: Figures>(f: &mut F, pressure: &mut Pressure) {
    let Pressure { some, full } = pressure;
    let line = |f: &mut F, line: &mut PressureLine| {
        let PressureLine { avg10, avg60, avg300, total_us } = line;
        for average in [avg10, avg60, avg300] {
            f.fraction(average);
        }
        f.number(total_us);
    };
    line(f, some);
    f.part(full, line);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Every figure from the next number of `numbers`, which may be missing.
    struct Drawn<I>(I);

    impl<I: Iterator<Item = Option<u64>>> Figures for Drawn<I> {
        fn number(&mut self, figure: &mut u64) {
            *figure = self.0.next().flatten().unwrap_or(0);
        }

        fn optional(&mut self, figure: &mut Option<u64>) {
            *figure = self.0.next().flatten();
        }

        fn fraction(&mut self, figure: &mut f64) {
            *figure = self.0.next().flatten().unwrap_or(0) as f64 / 100.0;
        }

        fn list<T: Default>(&mut self, list: &mut Vec<T>, each: impl Fn(&mut Self, &mut T)) {
            let length = self.0.next().flatten().unwrap_or(0) % 4;
            list.resize_with(length as usize, T::default);
            for part in list {
                each(self, part);
            }
        }

        fn text(&mut self, text: &mut Option<String>) {
            *text = self.0.next().flatten().map(|number| format!("/dev/{number}"));
        }
    }

    fn usage() -> impl Strategy<Value = Usage> {
        let number = prop_oneof![Just(0), 0..200_u64, any::<u64>(), Just(u64::MAX)];
        let numbers = prop::collection::vec(prop::option::weighted(0.8, number), 0..120);
        (prop::option::of(any::<Duration>()), numbers).prop_map(|(since, numbers)| {
            let time = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since / 2));
            let mut usage = Usage { time, ..Usage::default() };
            each(&mut Drawn(numbers.into_iter()), &mut usage);
            usage
        })
    }

    proptest! {
        #[test]
        fn a_reading_is_kept_as_it_is(first in usage(), second in usage()) {
            let mut kept = KeptUsage::default();
            for mut usage in [first, second] {
                let written = usage.clone();
                kept.set(&mut usage);
                prop_assert_eq!(&usage, &written, "writing changes nothing");
                prop_assert_eq!(kept.get(), usage);
            }
        }
    }

    #[test]
    fn a_new_one_is_the_default() {
        assert_eq!(KeptUsage::default().get(), Usage::default());
    }

    /// A paused container on cgroup v1, as a machine with 1,000 pods has thousands of them.
    #[test]
    fn an_idle_cgroup_takes_little_memory() {
        let line = PressureLine { total_us: 1_234, ..PressureLine::default() };
        let pressure = Some(Pressure { some: line, full: Some(line) });
        let mut usage = Usage {
            time: Some(SystemTime::UNIX_EPOCH),
            cpu: Some(CpuUsage {
                usage_ns: 31_415_926,
                user_ns: Some(10_000_000),
                system_ns: Some(20_000_000),
                shares: Some(1024),
                period_us: Some(100_000),
                ..CpuUsage::default()
            }),
            memory: Some(MemoryUsage {
                usage_bytes: 811_008,
                working_set_bytes: 811_008,
                rss_bytes: Some(49_152),
                cache_bytes: Some(0),
                swap_bytes: Some(0),
                mapped_file_bytes: Some(0),
                kernel_bytes: Some(500_000),
                active_file_bytes: Some(0),
                inactive_file_bytes: Some(0),
                max_usage_bytes: Some(5_000_000),
                failcnt: Some(0),
                page_faults: Some(1_500),
                major_page_faults: Some(0),
                own_page_faults: Some(1_500),
                own_major_page_faults: Some(0),
                limit_bytes: Some(64 << 20),
                events: MemoryEvents { oom_kill: Some(0), ..MemoryEvents::default() },
                ..MemoryUsage::default()
            }),
            processes: Some(ProcessUsage { threads: 1, max: Some(4096) }),
            io: Vec::new(),
            pressures: Pressures { cpu: pressure, memory: pressure, io: pressure },
        };
        let mut kept = KeptUsage::default();
        kept.set(&mut usage);
        assert!(size_of::<KeptUsage>() <= 32, "{}", size_of::<KeptUsage>());
        assert!(kept.figures.len() <= 110, "{}", kept.figures.len());
    }
}
