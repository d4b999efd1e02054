//! What the parts of a run share: the runtime, the times of images, and how full file systems are.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use nodewarden_cri::SharedList;
use nodewarden_model::{FsUse, GcSettings};
use nodewarden_pods::spec::Ownership;
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::blocking::{self, Places};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use super::fs::{self, Disk};
use super::image_fs::ImageFs;
use super::metrics::Part;
use super::reporter::Reporter;
use super::runtime::{DiskUsage, Runtime};
use super::uses::{Uses, UsesFile};
use super::{GcError, Holds};

/// How long a file system of the runtime may take to report how full it is.
const STATFS_LIMIT: Duration = Duration::from_secs(5);

/// What the collector depends on.
pub struct Deps {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Lists of the runtime that other parts read too: periodic runs begin with them. `None`: they begin by
    /// time, and each asks by itself.
    pub list: Option<SharedList>,
    /// Reads how full file systems are.
    pub disk: Arc<dyn Disk>,
    /// Directory of `images.json`, on the node's file system.
    pub state_dir: PathBuf,
    /// Directory of the pods' volumes, whose file system is the node's.
    pub root_dir: PathBuf,
    /// Directory of the pods' logs.
    pub logs_dir: PathBuf,
    /// Receives the events.
    pub journal: Journal,
    /// The pods of the node.
    pub board: PodStatusCache,
    /// Which containers and sandboxes are this agent's.
    pub ownership: Ownership,
    /// Shared with the tasks that create containers.
    pub holds: Holds,
    /// False in mode observe: nothing is removed.
    pub acts: bool,
}

/// A run that had nothing to do.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// What the runtime had and which pods there were, as [`quiet`](super::quiet) marks it.
    pub mark: u64,
    /// How many pods had been removed from the node before it.
    pub removed_pods: u64,
}

/// What every part of a run works with.
pub struct Shared {
    pub settings: GcSettings,
    pub runtime: Arc<dyn Runtime>,
    pub list: Option<SharedList>,
    pub image_fs: ImageFs,
    /// Why the images' file system is not known for certain, as last reported.
    pub image_fs_problem: Mutex<Option<String>>,
    pub disk: Arc<dyn Disk>,
    /// File systems of the runtime: one that never answers occupies one thread.
    places: Places,
    pub root_dir: PathBuf,
    pub logs_dir: PathBuf,
    pub board: PodStatusCache,
    pub ownership: Ownership,
    pub holds: Holds,
    pub reporter: Reporter,
    pub acts: bool,
    uses: Mutex<Uses>,
    file: Arc<UsesFile>,
    /// Locked during a run, so that runs do not overlap.
    pub run_lock: tokio::sync::Mutex<()>,
    pub pressure: Notify,
    /// The last whole periodic run, if it had nothing to do.
    pub idle: Mutex<Option<Idle>>,
    /// When the last periodic run began that looked at the logs of all pods.
    pub all_logs: Mutex<Option<Instant>>,
    /// How often something was removed.
    pub removals: Arc<AtomicU64>,
}

impl Shared {
    /// Opens the record of the images' times; a damaged one is reported.
    pub fn new(settings: &GcSettings, deps: Deps) -> Self {
        let (file, uses, problem) = UsesFile::open(&deps.state_dir);
        let reporter = Reporter::new(deps.journal);
        if let Some(problem) = problem {
            warn!("{problem}");
            reporter.event("RecordDamaged", problem.to_string());
        }
        Self {
            settings: settings.clone(),
            image_fs: ImageFs::new(deps.runtime.clone()),
            image_fs_problem: Mutex::default(),
            runtime: deps.runtime,
            list: deps.list,
            disk: deps.disk,
            places: Places::new(&blocking::FILE_SYSTEMS, 1),
            root_dir: deps.root_dir,
            logs_dir: deps.logs_dir,
            board: deps.board,
            ownership: deps.ownership,
            holds: deps.holds,
            reporter,
            acts: deps.acts,
            uses: Mutex::new(uses),
            file: Arc::new(file),
            run_lock: tokio::sync::Mutex::new(()),
            pressure: Notify::new(),
            idle: Mutex::default(),
            all_logs: Mutex::default(),
            removals: Arc::default(),
        }
    }

    /// Notes that a run begins which is not a periodic one: the next of those looks at everything, and
    /// reports what is left of failures.
    pub fn changes_something(&self) {
        *self.idle.lock() = None;
    }

    pub fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock()
    }

    /// Writes the times of images to disk.
    pub async fn save(&self) {
        let (file, uses) = (self.file.clone(), self.uses().clone());
        let saved = blocking::STATE_FILES.run(move || file.save(&uses).map(drop)).await;
        let problem = match saved {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(GcError::Panicked.to_string()),
        };
        self.reporter.report(Part::ImageRecord, problem);
    }

    /// Reads how full the file system of a directory is.
    pub async fn read(&self, directory: &DiskUsage) -> Result<FsUse, GcError> {
        let (disk, directory) = (self.disk.clone(), directory.clone());
        let place = BTreeSet::from([directory.path.display().to_string()]);
        let read = self.places.run(place, STATFS_LIMIT, move || fs::usage(&*disk, &directory)).await;
        Ok(read?.ok_or(GcError::Panicked)??)
    }
}
