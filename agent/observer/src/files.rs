//! Reads the files of all cgroups.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::num::NonZeroU64;

use super::packed::KeptUsage;
use super::registry::Group;
use super::usages::{ReadUsages, Usages};
use nodewarden_machine::cgroup::{
    Activity, Asked, Budget, GroupReader, KnownUsage, Layout, MachineReader, ReaderFiles, Sums,
};
use nodewarden_model::{Identity, Usage};

/// Descriptors reserved for everything that is not a cgroup's file.
const RESERVED: u64 = 512;
/// Maximum number of open descriptors: enough for 1,400 cgroups, with 70 MB of kernel memory.
const MOST: u64 = 16_384;

/// Reads the files of every cgroup and of the machine.
pub struct Files {
    pub(crate) groups: GroupFiles,
    pub(crate) machine: MachineReader,
    /// Reads some figures of all cgroups at once, where the kernel can do that.
    pub(crate) usages: Option<Usages>,
}

/// Reads the files of cgroups.
pub(crate) struct GroupFiles {
    layout: Layout,
    all: ReaderFiles,
    devices: Devices,
}

impl Files {
    /// Raises the process's limit of open files to the hard limit.
    pub fn new(layout: Layout, node_name: Option<String>, usages: Option<Usages>) -> Self {
        let budget = Budget::new(descriptors().saturating_sub(RESERVED).min(MOST) as usize);
        let all = ReaderFiles::new(&layout, &budget);
        let machine = MachineReader::new(&layout, node_name, &all);
        Self { groups: GroupFiles { layout, all, devices: Devices::default() }, machine, usages }
    }
}

impl GroupFiles {
    /// Reads the files of each group, and replaces the last reading that is passed with it; what cannot be
    /// read keeps its value. What is below a pod has to follow it. `usages`: what the kernel programs read of
    /// all groups.
    pub(crate) fn read<'w>(
        &self,
        work: impl Iterator<Item = Work<'w>>,
        asked: Asked,
        usages: Option<&ReadUsages>,
    ) {
        let mut buffer = Vec::with_capacity(8192);
        let mut pod = None;
        for Work { group, idle, usage: kept, reader, pids_cgroup, shown } in work {
            let mut usage = kept.get();
            let activity = activity(group, idle, &usage, pod.as_ref());
            let reader = reader_of(&self.all, group, reader);
            let known = usages.filter(|_| idle).map(|usages| usages.of(group, pids_cgroup));
            let known = known.unwrap_or_default();
            let has_changed = reader.read(&self.layout, asked, activity, known, &mut usage, &mut buffer);
            if asked == Asked::Now && matches!(*group.identity, Identity::Pod { .. }) {
                let sums = reader.sums(&usage).filter(|_| idle);
                pod = sums.map(|(sums, same)| IdlePod { path: &group.path, sums, same });
            }
            if has_changed {
                self.devices.name(&mut usage);
                kept.set(&mut usage);
            } else {
                kept.set_time(usage.time);
            }
            if let Some(shown) = shown {
                *shown = usage;
            }
        }
    }

    /// As [`GroupFiles::read`], for one group that no client waits for.
    pub(crate) fn read_one(&self, work: Work<'_>, buffer: &mut Vec<u8>) {
        let Work { group, reader, usage: kept, .. } = work;
        let mut usage = kept.get();
        let reader = reader_of(&self.all, group, reader);
        let (asked, known) = (Asked::Later, KnownUsage::default());
        if reader.read(&self.layout, asked, Activity::Ran, known, &mut usage, buffer) {
            self.devices.name(&mut usage);
            kept.set(&mut usage);
        }
    }
}

/// One cgroup to be read.
pub(crate) struct Work<'a> {
    pub group: &'a Group,
    /// Whether nothing has run in it or below it since the last reading.
    pub idle: bool,
    /// Its last reading, and then the new one.
    pub usage: &'a mut KeptUsage,
    /// The reader of its files, kept from one reading to the next; made by the first one.
    pub reader: &'a mut Option<Box<GroupReader>>,
    /// Its id in the pids controller's own hierarchy, see [`ReadUsages::of`].
    pub pids_cgroup: &'a mut Option<NonZeroU64>,
    /// Where a client wants to have the reading.
    pub shown: Option<&'a mut Usage>,
}

fn reader_of<'r>(
    all: &ReaderFiles,
    group: &Group,
    reader: &'r mut Option<Box<GroupReader>>,
) -> &'r mut GroupReader {
    reader.get_or_insert_with(|| Box::new(GroupReader::new(all, group.path.clone())))
}

/// A pod in which nothing has run, while what is below it is read.
struct IdlePod<'a> {
    path: &'a str,
    sums: Sums,
    /// Whether they are the same as at the last reading.
    same: bool,
}

/// What is known of a cgroup before it is read. `usage` is its last reading, `pod` the last idle pod before
/// it.
fn activity(group: &Group, idle: bool, usage: &Usage, pod: Option<&IdlePod<'_>>) -> Activity {
    if !idle {
        return Activity::Ran;
    }
    let below = |pod: &&IdlePod<'_>| {
        group.path.strip_prefix(pod.path).is_some_and(|rest| rest.starts_with('/'))
            && pod.sums.can_contain(usage)
    };
    pod.filter(below).map_or(Activity::None, |pod| Activity::NoneInPod { same_sums: pod.same })
}

/// Raises the soft limit of open files to the hard one and returns it.
fn descriptors() -> u64 {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

/// The names of the block devices that were asked for so far.
#[derive(Default)]
struct Devices(Mutex<HashMap<(u32, u32), Option<String>>>);

impl Devices {
    /// Adds the names of the devices, of those that have one.
    fn name(&self, usage: &mut Usage) {
        for io in usage.io.iter_mut().filter(|io| io.device.is_none()) {
            let mut known = self.0.lock();
            let device = known.entry((io.major, io.minor));
            io.device.clone_from(device.or_insert_with(|| device_path(io.major, io.minor)));
        }
    }
}

/// `/dev/NAME` of a block device, from sysfs.
fn device_path(major: u32, minor: u32) -> Option<String> {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(format!("/dev/{}", link.file_name()?.to_string_lossy().replace('!', "/")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use nodewarden_machine::cgroup::identify;
    use nodewarden_model::{MemoryUsage, ProcessUsage};

    use super::*;

    fn group(path: &str) -> Group {
        Group {
            path: path.into(),
            identity: Arc::new(identify(path)),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            removed: None,
            places: Default::default(),
        }
    }

    fn usage(memory: u64) -> Usage {
        Usage {
            memory: Some(MemoryUsage { usage_bytes: memory, ..MemoryUsage::default() }),
            processes: Some(ProcessUsage { threads: 1, max: None }),
            ..Usage::default()
        }
    }

    const POD: &str = "/kubepods/pod9b2b2c1c-6b0c-4f55-8a0e-3f6f0d6f0001";

    #[test]
    fn what_is_below_an_idle_pod_depends_on_its_sums() {
        let sums = Sums::of(&usage(9)).unwrap();
        let of = |path: &str, idle, memory, pod: Option<&IdlePod<'_>>| {
            activity(&group(path), idle, &usage(memory), pod)
        };
        for same in [true, false] {
            let pod = Some(IdlePod { path: POD, sums, same });
            let pod = pod.as_ref();
            let below = format!("{POD}/c/nested");
            assert_eq!(of(&below, true, 9, pod), Activity::NoneInPod { same_sums: same });
            assert_eq!(of(&below, false, 9, pod), Activity::Ran);
            assert_eq!(of(&below, true, 10, pod), Activity::None, "more than the pod has");
            assert_eq!(of(&below, true, 9, None), Activity::None, "something ran in the pod");
            for other in ["/kubepods/c", POD, &format!("{POD}1/c")] {
                assert_eq!(of(other, true, 9, pod), Activity::None, "{other}");
            }
        }
    }
}
