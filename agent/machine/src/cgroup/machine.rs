//! The machine as a whole: its identity is read once, its figures with every reading.

use std::fs;
use std::time::{Duration, SystemTime};

use nix::sys::statvfs::statvfs;
use procfs::{Current, CurrentSI};

use super::{Activity, Asked, GroupReader, KnownUsage, Layout, ReaderFiles, workloads};
use crate::os_release::pretty_name;
use nodewarden_model::{FsUsage, Interface, Machine, MemoryUsage, Pressure, PressureLine, Usage};

/// Reads the machine.
#[derive(Debug)]
pub struct MachineReader {
    layout: Layout,
    root: GroupReader,
    /// The last reading of `root`.
    usage: Usage,
    fixed: Machine,
}

impl MachineReader {
    /// Reads the facts that do not change. `node_name` overrides the host name.
    pub fn new(layout: &Layout, node_name: Option<String>, files: &ReaderFiles) -> Self {
        let text = |path: &str| fs::read_to_string(path).map(|t| t.trim().to_owned()).unwrap_or_default();
        let host =
            || nix::unistd::gethostname().map(|h| h.to_string_lossy().to_lowercase()).unwrap_or_default();
        let fixed = Machine {
            node_name: node_name.unwrap_or_else(host),
            boot_time: procfs::KernelStats::current()
                .ok()
                .map(|s| SystemTime::UNIX_EPOCH + Duration::from_secs(s.btime)),
            kernel_version: text("/proc/sys/kernel/osrelease"),
            os_version: pretty_name(&text("/etc/os-release")).unwrap_or_default().to_owned(),
            machine_id: text("/etc/machine-id"),
            boot_id: text("/proc/sys/kernel/random/boot_id"),
            system_uuid: text("/sys/class/dmi/id/product_uuid"),
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            ..Machine::default()
        };
        Self {
            layout: layout.clone(),
            root: GroupReader::new(files, "/".into()),
            usage: Usage::default(),
            fixed,
        }
    }

    /// Reads the figures that change. `root`: a reading of the root cgroup, if there is one; else its files
    /// are read.
    pub fn read(&mut self, root: Option<&Usage>) -> Machine {
        let usage = root.unwrap_or_else(|| self.read_root()).clone();
        let mut machine = Machine { usage, ..self.fixed.clone() };
        if let Ok(memory) = procfs::Meminfo::current() {
            machine.memory_bytes = memory.mem_total;
            machine.swap_bytes = memory.swap_total;
            fill_memory(&mut machine.usage, &memory);
        }
        let pressures = &mut machine.usage.pressures;
        for (to, path) in [
            (&mut pressures.cpu, "/proc/pressure/cpu"),
            (&mut pressures.memory, "/proc/pressure/memory"),
            (&mut pressures.io, "/proc/pressure/io"),
        ] {
            // The v2 root has the same figures (kernel: `cgroup_psi`).
            if to.is_none() {
                *to = fs::read_to_string(path).ok().and_then(|text| pressure(&text));
            }
        }
        // As in the kubelet: the capacity minus the memory that cannot be reclaimed without swapping.
        machine.memory_available_bytes =
            machine.usage.memory.as_ref().map(|m| machine.memory_bytes.saturating_sub(m.working_set_bytes));
        machine.max_pids =
            fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|t| t.trim().parse().ok());
        machine.processes = loadavg_threads();
        machine.fs = statvfs("/").ok().map(|s| {
            let block = s.fragment_size();
            FsUsage {
                capacity_bytes: s.blocks() * block,
                available_bytes: s.blocks_available() * block,
                used_bytes: (s.blocks() - s.blocks_free()) * block,
                inodes: s.files(),
                inodes_free: s.files_free(),
            }
        });
        machine.interfaces = interfaces();
        machine
    }

    fn read_root(&mut self) -> &Usage {
        let (asked, activity, known) = (Asked::Now, Activity::Ran, KnownUsage::default());
        self.root.read(&self.layout, asked, activity, known, &mut self.usage, &mut Vec::new());
        &self.usage
    }
}

/// A file in /proc/pressure (Documentation/accounting/psi.rst). Line by line, because procfs's types for
/// whole files demand a `full` line, which the CPU's file has only since Linux 5.13.
fn pressure(text: &str) -> Option<Pressure> {
    let line = |kind: &str| {
        let record = procfs::parse_pressure_record(text.lines().find(|line| line.starts_with(kind))?).ok()?;
        // The kernel writes two decimals, and procfs keeps an f32.
        let percent = |n: f32| (f64::from(n) * 100.0).round() / 100.0;
        let [avg10, avg60, avg300] = [record.avg10, record.avg60, record.avg300].map(percent);
        Some(PressureLine { avg10, avg60, avg300, total_us: record.total })
    };
    Some(Pressure { some: line("some ")?, full: line("full ") })
}

/// The v2 root has no memory.current: then everything that is not free counts as used, as in runc and
/// cAdvisor.
fn fill_memory(usage: &mut Usage, memory: &procfs::Meminfo) {
    if usage.memory.is_some() {
        return;
    }
    let used = memory.mem_total.saturating_sub(memory.mem_free);
    usage.memory = Some(MemoryUsage {
        usage_bytes: used,
        working_set_bytes: used.saturating_sub(memory.inactive_file.unwrap_or(0)),
        rss_bytes: memory.anon_pages,
        cache_bytes: Some(memory.cached),
        inactive_file_bytes: memory.inactive_file,
        active_file_bytes: memory.active_file,
        swap_bytes: Some(memory.swap_total.saturating_sub(memory.swap_free)),
        ..MemoryUsage::default()
    });
}

/// Threads of the machine, as the kubelet's rlimit stats count them: the fourth field of /proc/loadavg.
fn loadavg_threads() -> Option<u64> {
    procfs::LoadAverage::current().ok().map(|l| l.max.into())
}

fn interfaces() -> Vec<Interface> {
    procfs::net::dev_status().map(|all| workloads::interfaces(all.into_values())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::Budget;
    use super::*;

    #[test]
    fn pressure_is_read_with_two_decimals_and_with_or_without_full() {
        let text = "some avg10=12.34 avg60=0.20 avg300=99.99 total=77\nfull avg10=0.07 avg60=0.00 avg300=0.00 total=3\n";
        let read = pressure(text).unwrap();
        assert_eq!((read.some.avg10, read.some.avg60, read.some.avg300), (12.34, 0.2, 99.99));
        assert_eq!((read.some.total_us, read.full.map(|line| line.avg10)), (77, Some(0.07)));
        for hundredths in 0..=10_000 {
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            let line = format!("some avg10={text} avg60=0.00 avg300=0.00 total=1\n");
            let read = pressure(&line).unwrap();
            assert_eq!((read.some.avg10, read.full), (text.parse().unwrap(), None));
        }
        assert_eq!(pressure("some\n"), None);
        assert_eq!(pressure(""), None);
    }

    #[test]
    fn this_machine_adds_up() {
        let Ok(layout) = Layout::detect() else {
            nodewarden_testing::skip("no cgroups here");
            return;
        };
        let files = ReaderFiles::new(&layout, &Budget::new(64));
        let machine = MachineReader::new(&layout, Some("n".into()), &files).read(None);
        let memory = machine.usage.memory.unwrap();
        assert!(memory.working_set_bytes <= memory.usage_bytes && memory.usage_bytes <= machine.memory_bytes);
        assert!(machine.cpus > 0 && machine.boot_time.is_some() && machine.fs.unwrap().capacity_bytes > 0);
    }
}
