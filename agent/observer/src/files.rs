//! The file readers of all cgroups, kept from one reading to the next.

use std::collections::HashMap;
use std::sync::Arc;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

use super::registry::Group;
use nodewarden_machine::cgroup::{Asked, Budget, GroupReader, Layout, MachineReader, ReaderFiles};
use nodewarden_model::{Machine, Usage};

/// Descriptors reserved for everything that is not a cgroup's file.
const RESERVED: u64 = 512;
/// Maximum number of open descriptors: enough for 1,400 cgroups, with 70 MB of kernel memory.
const MOST: u64 = 16_384;

/// Reads the files of every cgroup and of the machine.
pub struct Files {
    layout: Layout,
    all: ReaderFiles,
    /// By path, with the generation of the cgroup. Boxed: a map has room for more entries than it holds.
    readers: HashMap<Arc<str>, Box<(u64, GroupReader)>>,
    machine: MachineReader,
    devices: HashMap<(u32, u32), Option<String>>,
}

impl Files {
    /// Raises the process's limit of open files to the hard limit.
    pub fn new(layout: Layout, node_name: Option<String>) -> Self {
        let budget = Budget::new(descriptors().saturating_sub(RESERVED).min(MOST) as usize);
        let all = ReaderFiles::new(&layout, &budget);
        let machine = MachineReader::new(&layout, node_name, &all);
        Self { layout, all, readers: HashMap::new(), machine, devices: HashMap::new() }
    }

    /// Reads the machine's figures.
    pub(crate) fn machine(&mut self) -> Machine {
        self.machine.read(&mut Vec::new())
    }

    /// Reads the files of each group, and replaces the last reading that is passed with it; what cannot be
    /// read keeps its value. With each is passed whether nothing has run in it or below it since that
    /// reading. Readers of other cgroups are dropped.
    pub(crate) fn read(&mut self, groups: Vec<(&Group, bool, &mut Usage)>, asked: Asked) {
        let mut readers = HashMap::with_capacity(groups.len());
        let mut work: Vec<Work<'_>> = groups
            .into_iter()
            .map(|(group, idle, usage)| {
                let known = self.readers.remove(&group.path).filter(|reader| reader.0 == group.generation);
                let reader = known.unwrap_or_else(|| reader(&self.all, group));
                Work { group, idle, usage, reader }
            })
            .collect();
        read_all(&self.layout, &mut work, asked);
        for Work { group, usage, reader, .. } in work {
            self.name_devices(usage);
            readers.insert(group.path.clone(), reader);
        }
        self.readers = readers;
    }

    /// As [`Files::read`], for one group that no client waits for; the readers of others are kept.
    pub(crate) fn read_one(&mut self, group: &Group, usage: &mut Usage, buffer: &mut Vec<u8>) {
        let own = self.readers.entry(group.path.clone()).or_insert_with(|| reader(&self.all, group));
        if own.0 != group.generation {
            *own = reader(&self.all, group);
        }
        own.1.read(&self.layout, Asked::Later, false, usage, buffer);
        self.name_devices(usage);
    }

    fn name_devices(&mut self, usage: &mut Usage) {
        for io in &mut usage.io {
            let device = self.devices.entry((io.major, io.minor));
            io.device.clone_from(device.or_insert_with(|| device_path(io.major, io.minor)));
        }
    }
}

/// One cgroup to be read.
struct Work<'a> {
    group: &'a Group,
    idle: bool,
    /// Its last reading, and then the new one.
    usage: &'a mut Usage,
    reader: Box<(u64, GroupReader)>,
}

/// A reader of a cgroup, with its generation.
fn reader(all: &ReaderFiles, group: &Group) -> Box<(u64, GroupReader)> {
    Box::new((group.generation, GroupReader::new(all, group.path.clone())))
}

/// Number of cgroups from which on a second thread is started.
const SPLIT: usize = 100;

fn read_all(layout: &Layout, work: &mut [Work<'_>], asked: Asked) {
    let one = |work: &mut [Work<'_>]| {
        let mut buffer = Vec::with_capacity(8192);
        work.iter_mut().for_each(|one| one.reader.1.read(layout, asked, one.idle, one.usage, &mut buffer));
    };
    // No client waits, so no second CPU is woken for it.
    if work.len() < SPLIT || asked == Asked::Later {
        return one(work);
    }
    let (left, right) = work.split_at_mut(work.len() / 2);
    std::thread::scope(|scope| {
        let elsewhere = another_cpu();
        let other = scope.spawn(move || {
            if let Some(cpus) = elsewhere {
                // If this fails, the two threads may share a CPU.
                let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
            }
            one(right);
        });
        one(left);
        // Values that it could not read are not changed.
        let _ = other.join();
    });
}

/// The CPUs that this process may use, without the one this thread is on: some kernels pack threads that wake
/// each other on one CPU, and two readers there are no faster than one.
fn another_cpu() -> Option<CpuSet> {
    let mut cpus = sched_getaffinity(Pid::from_raw(0)).ok()?;
    cpus.unset(sched_getcpu().ok()?).ok()?;
    (0..CpuSet::count()).any(|cpu| cpus.is_set(cpu).unwrap_or(false)).then_some(cpus)
}

/// Raises the soft limit of open files to the hard one and returns it.
fn descriptors() -> u64 {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

/// `/dev/NAME` of a block device, from sysfs.
fn device_path(major: u32, minor: u32) -> Option<String> {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(format!("/dev/{}", link.file_name()?.to_string_lossy().replace('!', "/")))
}
