//! All files of one cgroup, over all hierarchies, as one reading.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::activity::{Activity, Sums};
use super::files::{Alone, Budget, CachedFiles, Keep, Spec};
use super::group_path::join;
use super::{Hierarchy, Layout, Version, limit_changes, v1, v2};
use nodewarden_model::Usage;

/// Files that are not hot are read again after this time.
const SLOW: Duration = Duration::from_secs(15);

/// The same while nothing runs in the cgroup and no limit is known to have been changed: a program that the
/// kernel programs do not see may still write one.
const SLOW_QUIET: Duration = Duration::from_secs(60);

/// All files are read again after this time, whatever is known of the cgroup.
const ALL: Duration = Duration::from_secs(300);

/// A cgroup in which nothing has run for so long, and whose PSI shows nothing of the last five minutes, has
/// no stalled task: the kernel updates PSI every two seconds, and a task has to run before it can be stalled.
const UNSTALLED: Duration = Duration::from_secs(5);

/// The purpose of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A caller wants the present values.
    Now,
    /// It is stored in case the cgroup is removed before the next request. If the cgroup used no CPU since
    /// the last reading, that one stays valid, and one file is read instead of ten; changes that other
    /// processes cause meanwhile (reclaim) are missed.
    Later,
}

/// Reads one cgroup repeatedly. There are thousands of these values, so they are small: the caller has the
/// last reading, and a directory's path is built only when a file is opened.
#[derive(Debug)]
pub struct GroupReader {
    path: Arc<str>,
    all: ReaderFiles,
    /// By their place in `all`.
    files: CachedFiles,
    slow_read: Option<Instant>,
    /// When all files were last read.
    all_read: Option<Instant>,
    /// Whether something has run or changed since the files that are not hot were last read.
    changed: bool,
    /// [`limit_changes::count`] before the files that are not hot were last read.
    limit_changes: u64,
    /// When a task of the cgroup was last seen to have run.
    ran: Instant,
    /// Nothing was stalled at the last reading.
    unstalled: bool,
    /// Whether a file could not be read at the last reading.
    incomplete: bool,
    /// See [`GroupReader::sums`]. Boxed: most cgroups are not a pod's.
    sums: Option<Box<Sums>>,
}

/// Index into [`Layout::hierarchies`], of which there are a dozen at most.
type HierarchyIndex = u8;

/// Which files of a cgroup are read, in this order, and how many of all cgroups may be open. Cloning shares
/// both.
#[derive(Debug, Clone)]
pub struct ReaderFiles(Arc<All>);

#[derive(Debug)]
struct All {
    specs: Box<[(&'static Spec, HierarchyIndex)]>,
    budget: Budget,
}

impl ReaderFiles {
    /// The files of a cgroup in the hierarchies of `layout`.
    pub fn new(layout: &Layout, budget: &Budget) -> Self {
        let mut specs = Vec::new();
        let mut add = |spec: &'static Spec, hierarchy: &Hierarchy| {
            let at = layout.hierarchies().iter().position(|h| h.id == hierarchy.id);
            if let Some(at) = at.and_then(|at| HierarchyIndex::try_from(at).ok()) {
                specs.push((spec, at));
            }
        };
        for (specs, version) in [(v1::FILES, Version::V1), (v2::FILES, Version::V2)] {
            for spec in specs {
                let hierarchy = spec.controller.and_then(|c| layout.hierarchy(c));
                if let Some(h) = hierarchy.filter(|h| h.version == version) {
                    add(spec, h);
                }
            }
        }
        if let Some(unified) = layout.unified() {
            for spec in v2::PRESSURES {
                add(spec, unified);
            }
        }
        debug_assert!(specs.len() <= CachedFiles::MOST);
        Self(Arc::new(All { specs: specs.into(), budget: budget.clone() }))
    }
}

impl GroupReader {
    /// Prepares to read cgroup `path` where it exists. Opens nothing yet.
    pub fn new(all: &ReaderFiles, path: Arc<str>) -> Self {
        Self {
            path,
            all: all.clone(),
            files: CachedFiles::default(),
            slow_read: None,
            all_read: None,
            changed: false,
            limit_changes: 0,
            ran: Instant::now(),
            unstalled: false,
            incomplete: false,
            sums: None,
        }
    }

    /// Of a pod's own cgroup: the sums of a reading that a client asked for, and whether they are the same as
    /// at the one before it. Everything below has to be read after it and before the next one, or to be left
    /// out by [`Activity::NoneInPod`].
    pub fn sums(&mut self, usage: &Usage) -> Option<(Sums, bool)> {
        let sums = Sums::of(usage).filter(|_| !self.incomplete);
        let are_same = self.sums.as_deref() == sums.as_ref();
        if !are_same {
            self.sums = sums.map(Box::new);
        }
        sums.map(|sums| (sums, are_same))
    }

    /// Reads now and updates the last reading in `last`: values of directories that were removed since and of
    /// files that are read only from time to time are not changed. `layout` is that of [`ReaderFiles::new`].
    /// Where no task has run the files are read that may differ all the same, none if the pod's sums show
    /// that they don't; limits and memory every minute, or every 15 s if something has run since they were
    /// read or a limit was changed ([`limit_changes`]); all files every five minutes. Then only those that
    /// are read every time are kept open, below a pod in which nothing has run none. Returns whether more
    /// than the time of `last` may have been changed.
    pub fn read(
        &mut self,
        layout: &Layout,
        asked: Asked,
        activity: Activity,
        last: &mut Usage,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let (now, idle) = (Instant::now(), activity.is_none());
        let limit_changes = limit_changes::count();
        if asked == Asked::Now && !idle {
            self.ran = now;
        }
        let all_due = self.all_read.is_none_or(|at| now.duration_since(at) >= ALL);
        let slow_due = all_due
            || self.slow_read.is_none_or(|at| {
                let is_quiet = idle && self.ran < at && self.limit_changes == limit_changes;
                now.duration_since(at) >= if is_quiet { SLOW_QUIET } else { SLOW }
            });
        let unstalled = idle && self.unstalled && !all_due;
        if unstalled && !slow_due && matches!(activity, Activity::NoneInPod { same_sums: true }) {
            self.close_all();
            last.time = Some(SystemTime::now());
            return false;
        }
        let asleep = idle;
        let mut idle = idle && !all_due;
        let mut usage = last.clone();
        if !unstalled {
            usage.pressures = Default::default();
        }
        let mut gone = 0u64;
        self.incomplete = false;
        let (path, all) = (&*self.path, &*self.all.0);
        for (file, (spec, at)) in (0..).zip(&all.specs) {
            let hot = (spec.hot)(&usage);
            let is_wanted = match spec.alone {
                // The kernel may have found other pages inactive although as much is in use.
                Alone::WithMemory if hot => !idle || slow_due,
                Alone::WithMemory => slow_due && (!idle || self.changed),
                Alone::Always => hot || slow_due,
                Alone::Stalled => !unstalled,
                Alone::Written => slow_due,
            };
            let dir = || {
                layout.hierarchies().get(usize::from(*at)).map_or_else(PathBuf::new, |h| join(&h.mount, path))
            };
            // Of a cgroup in which nothing runs only what is read every time stays open, while few files are.
            let keep = match (asked, spec.alone) {
                (Asked::Later, _) if spec.has_cpu_time && !self.files.is_open(file) => Keep::No,
                _ if !hot || matches!(activity, Activity::NoneInPod { .. }) => Keep::No,
                (Asked::Later, _) => Keep::IfFew,
                (Asked::Now, _) if !asleep => Keep::IfRoom,
                (Asked::Now, Alone::WithMemory | Alone::Written) => Keep::No,
                (Asked::Now, Alone::Stalled) if self.unstalled => Keep::No,
                (Asked::Now, Alone::Stalled | Alone::Always) => Keep::IfFew,
            };
            if !is_wanted || gone & (1 << *at) != 0 {
                if slow_due && keep == Keep::No {
                    self.files.close(file, &all.budget);
                }
                continue;
            }
            match self.files.read(&all.budget, file, dir, spec.name, keep, buffer) {
                Ok(Some(text)) => (spec.parse)(text, &mut usage),
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                    gone |= 1 << *at;
                    self.incomplete = true;
                }
                Err(error) => {
                    self.incomplete = true;
                    tracing::debug!(file = spec.name, cgroup = path, %error, "cannot read");
                }
            }
            idle &= memory(last) == memory(&usage);
            if asked == Asked::Later && spec.has_cpu_time {
                if self.slow_read.is_some() && ran(last) == ran(&usage) {
                    self.close_all();
                    return false;
                }
                self.ran = now;
            }
        }
        self.changed |= !idle;
        if slow_due {
            (self.slow_read, self.changed) = (Some(now), false);
            self.limit_changes = limit_changes;
        }
        if all_due {
            self.all_read = Some(now);
        }
        self.unstalled = now.duration_since(self.ran) >= UNSTALLED && usage.pressures.are_none();
        usage.time = Some(SystemTime::now());
        *last = usage;
        true
    }

    fn close_all(&mut self) {
        self.files.close_all(&self.all.0.budget);
    }
}

impl Drop for GroupReader {
    fn drop(&mut self) {
        self.close_all();
    }
}

/// Memory in use.
fn memory(usage: &Usage) -> Option<u64> {
    usage.memory.as_ref().map(|memory| memory.usage_bytes)
}

/// CPU time used so far.
fn ran(usage: &Usage) -> Option<u64> {
    usage.cpu.as_ref().map(|cpu| cpu.usage_ns)
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::super::Controller;
    use super::super::fixture::TestTree;
    use super::*;

    fn over(layout: &Layout, reader: &mut GroupReader, asked: Asked, last: &Usage) -> Usage {
        let mut usage = last.clone();
        reader.read(layout, asked, Activity::Ran, &mut usage, &mut Vec::new());
        usage
    }

    /// A reading of a cgroup of which the caller knows that nothing has run in it.
    fn while_idle(layout: &Layout, reader: &mut GroupReader, last: &Usage) -> Usage {
        let mut usage = last.clone();
        reader.read(layout, Asked::Now, Activity::None, &mut usage, &mut Vec::new());
        usage
    }

    fn limit_file(layout: &Layout) -> &'static str {
        match layout.hierarchy(Controller::Memory).map(|h| h.version) {
            Some(Version::V1) => "memory.limit_in_bytes",
            _ => "memory.max",
        }
    }

    #[test]
    fn a_reader_takes_little_memory() {
        assert!(size_of::<GroupReader>() <= 128, "{}", size_of::<GroupReader>());
    }

    #[test]
    fn the_machines_own_root_reads() {
        let Ok(layout) = Layout::detect() else {
            nodewarden_testing::skip("no cgroups here");
            return;
        };
        let mut reader = GroupReader::new(&ReaderFiles::new(&layout, &Budget::new(64)), "/".into());
        let first = over(&layout, &mut reader, Asked::Now, &Usage::default());
        let cpu = first.cpu.as_ref().expect("the root has CPU accounting").usage_ns;
        let second = over(&layout, &mut reader, Asked::Now, &first);
        assert!(second.cpu.unwrap().usage_ns >= cpu);
    }

    #[test]
    fn a_busy_cgroup_is_read_and_its_last_reading_stays_when_it_is_removed() {
        let Some(tree) = TestTree::make("reader") else { return };
        let path = tree.group("busy");
        tree.write(Controller::Memory, "busy", limit_file(&tree.layout), "67108864");
        let mut reader =
            GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
        let idle = over(&tree.layout, &mut reader, Asked::Now, &Usage::default());
        assert_eq!(idle.memory.as_ref().unwrap().limit_bytes, Some(67_108_864));
        let pid = tree.run("busy", "x=$(head -c 4000000 /dev/zero | tr '\\0' x); while :; do :; done");
        sleep(Duration::from_millis(800));
        let busy = over(&tree.layout, &mut reader, Asked::Now, &idle);
        assert!(busy.cpu.as_ref().unwrap().usage_ns > idle.cpu.unwrap().usage_ns + 50_000_000);
        assert_eq!(busy.processes.unwrap().threads, 1);
        let memory = busy.memory.as_ref().unwrap();
        assert!(memory.usage_bytes > 0 && memory.working_set_bytes <= memory.usage_bytes);
        assert_eq!(memory.limit_bytes, Some(67_108_864), "limits stay between their own readings");

        tree.stop(pid);
        tree.remove("busy");
        let gone = over(&tree.layout, &mut reader, Asked::Now, &busy);
        assert!(gone.cpu.unwrap().usage_ns >= busy.cpu.unwrap().usage_ns, "the last values stay");
        assert_eq!(gone.memory.unwrap().limit_bytes, Some(67_108_864));
    }

    #[test]
    fn a_sleeping_cgroup_is_not_read_again_without_a_request() {
        let Some(tree) = TestTree::make("asked") else { return };
        let path = tree.group("idle");
        let mut reader =
            GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
        let first = over(&tree.layout, &mut reader, Asked::Later, &Usage::default());
        assert_eq!(over(&tree.layout, &mut reader, Asked::Later, &first), first, "its time too");
        let asked = over(&tree.layout, &mut reader, Asked::Now, &first);
        assert!(asked.time > first.time);
        let pid = tree.run("idle", "while :; do :; done");
        sleep(Duration::from_millis(300));
        let ran = over(&tree.layout, &mut reader, Asked::Later, &asked);
        assert!(ran.time > asked.time && ran.cpu.unwrap().usage_ns > asked.cpu.unwrap().usage_ns);
        assert_eq!(ran.processes.unwrap().threads, 1);
        tree.stop(pid);
    }

    #[test]
    fn of_an_idle_cgroup_only_what_may_differ_is_read() {
        let Some(tree) = TestTree::make("idle") else { return };
        let path = tree.group("idle");
        let mut reader =
            GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
        let first = while_idle(&tree.layout, &mut reader, &Usage::default());
        assert!(first.cpu.is_some() && first.memory.is_some(), "the first reading reads everything");
        // The caller is wrong: what follows from that shows what was read.
        let pid = tree.run("idle", "while :; do :; done");
        sleep(Duration::from_millis(300));
        let second = while_idle(&tree.layout, &mut reader, &first);
        let ran = |usage: &Usage| usage.cpu.as_ref().unwrap().usage_ns;
        assert_eq!(ran(&second), ran(&first), "the CPU time is not read");
        assert_eq!(second.processes.unwrap().threads, 1, "processes may be reaped at any time");
        assert!(ran(&over(&tree.layout, &mut reader, Asked::Now, &second)) > ran(&first) + 50_000_000);
        tree.stop(pid);
    }

    #[test]
    fn below_an_idle_pod_nothing_is_read_while_its_sums_are_the_same() {
        let Some(tree) = TestTree::make("sums") else { return };
        let pod = tree.group("pod");
        let path = tree.group("pod/part");
        let all = ReaderFiles::new(&tree.layout, &Budget::new(64));
        let [mut of_pod, mut reader] = [pod, path].map(|path| GroupReader::new(&all, path.as_str().into()));
        let mut sums = || {
            let usage = over(&tree.layout, &mut of_pod, Asked::Now, &Usage::default());
            of_pod.sums(&usage).expect("memory and processes are counted")
        };
        let (_, same) = sums();
        assert!(!same, "there was none before");
        let mut last = over(&tree.layout, &mut reader, Asked::Now, &Usage::default());
        reader.unstalled = true;
        let mut read = |same_sums| {
            let (before, activity) = (last.time, Activity::NoneInPod { same_sums });
            let has_read = reader.read(&tree.layout, Asked::Now, activity, &mut last, &mut Vec::new());
            assert_eq!(has_read, !same_sums);
            assert!(last.time > before);
            last.processes.unwrap().threads
        };
        assert!(sums().1);
        // The caller is wrong the first time: that shows what was read.
        let pid = tree.run("pod/part", "while :; do :; done");
        assert_eq!((read(true), read(false)), (0, 1));
        assert!(!sums().1, "it is one more process");
        tree.stop(pid);
    }

    #[test]
    fn limits_of_an_idle_cgroup_are_read_after_a_minute_or_a_change() {
        let Some(tree) = TestTree::make("limits") else { return };
        let path = tree.group("idle");
        let mut reader =
            GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
        let mut last = while_idle(&tree.layout, &mut reader, &Usage::default());
        let write = |mib: u64| {
            let bytes = mib << 20;
            tree.write(Controller::Memory, "idle", limit_file(&tree.layout), &bytes.to_string());
            Some(bytes)
        };
        let mut read = |reader: &mut GroupReader, seconds: u64, idle: bool| {
            // As if the limits were read so long ago, and something had run before that.
            let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
            (reader.slow_read, reader.ran) = (Some(ago(seconds)), ago(seconds + 1));
            let activity = if idle { Activity::None } else { Activity::Ran };
            reader.read(&tree.layout, Asked::Now, activity, &mut last, &mut Vec::new());
            last.memory.as_ref().unwrap().limit_bytes
        };
        let first = write(64);
        assert_eq!(read(&mut reader, 61, true), first, "after a minute");
        // Other tests of this process change limits too.
        let (before, second) = (limit_changes::count(), write(65));
        let seen = read(&mut reader, 20, true);
        if limit_changes::count() == before && reader.limit_changes == before {
            assert_eq!(seen, first, "not after 20 s");
        }
        limit_changes::record();
        assert_eq!(read(&mut reader, 20, true), second, "after a change");
        let third = write(66);
        assert_eq!(read(&mut reader, 20, false), third, "something has run");
    }

    #[test]
    fn of_an_idle_cgroup_few_files_stay_open() {
        let Some(tree) = TestTree::make("open") else { return };
        let path = tree.group("idle");
        let mut reader =
            GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
        let open = |reader: &GroupReader| (0..64).filter(|file| reader.files.is_open(*file)).count();
        let first = over(&tree.layout, &mut reader, Asked::Now, &Usage::default());
        let (all, ago) = (open(&reader), Instant::now().checked_sub(Duration::from_secs(61)));
        (reader.slow_read, reader.ran, reader.unstalled) = (ago, ago.unwrap(), true);
        let second = while_idle(&tree.layout, &mut reader, &first);
        let few = open(&reader);
        assert!(few < all && few <= 4, "{few} of {all}");
        while_idle(&tree.layout, &mut reader, &second);
        assert_eq!(open(&reader), few);
        let third = over(&tree.layout, &mut reader, Asked::Now, &second);
        assert_eq!(open(&reader), all, "something runs again");
        over(&tree.layout, &mut reader, Asked::Later, &third);
        assert_eq!(open(&reader), 0, "no client asks, and nothing has run");
    }
}
