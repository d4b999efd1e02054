//! All files of one cgroup, over all hierarchies, as one reading.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::activity::{Activity, KnownUsage, Sums};
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
    /// read or a limit was changed ([`limit_changes`]); all files every five minutes. Where no task has run,
    /// the figures in `known` are taken from there, except every five minutes. Then only those that are read
    /// every time are kept open, below a pod in which nothing has run none. Returns whether more than the
    /// time of `last` was changed.
    pub fn read(
        &mut self,
        layout: &Layout,
        asked: Asked,
        activity: Activity,
        known: KnownUsage,
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
        let known = if idle { known } else { KnownUsage::default() };
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
            let is_known = spec.known.is_some_and(|figure| known.put(figure, &mut usage));
            if is_known {
                idle &= memory(last) == memory(&usage);
            }
            if !is_wanted || is_known || gone & (1 << *at) != 0 {
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
        last.time = Some(SystemTime::now());
        usage.time = last.time;
        let is_changed = usage != *last;
        *last = usage;
        is_changed
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
mod tests;
