//! A fake runtime whose images share layers, with a file system of its own, and a collector for it.

pub mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_config::Endpoint;
use nodewarden_cri::{About, ListedContainer, ListedSandbox, Listing, RuntimeError, SharedList};
use nodewarden_model::{FsUse, GcSettings, ImageSeen};
use nodewarden_pods::spec::Ownership;
use nodewarden_pods::status::{DesiredPods, PodStatusCache};
use nodewarden_proto::runtime::v1 as cri;
use nodewarden_storage::journal::{Journal, Limits};
use parking_lot::{Mutex, MutexGuard};

use crate::{Collector, Deps, Disk, DiskUsage, FsError, Holds, ImageFsInfo, Runtime};

/// A megabyte, the unit of sizes here.
pub const MB: u64 = 1 << 20;
/// Capacity of the file system in bytes.
pub const CAPACITY: u64 = 1000 * MB;

/// Called before an image is removed.
pub type Hook = Box<dyn FnMut(&mut State, &str) + Send>;

/// What the runtime has.
#[derive(Default)]
pub struct State {
    /// Layers by image.
    pub images: BTreeMap<String, Vec<u32>>,
    /// Bytes by layer.
    pub layers: BTreeMap<u32, u64>,
    /// Bytes used by other data.
    pub other: u64,
    pub listing: Listing,
    pub pinned: BTreeSet<String>,
    /// Images whose removal fails.
    pub fails: BTreeSet<String>,
    /// Images whose removal takes longer than the call may, and `ImageFsInfo` if that is never answered.
    pub hangs: BTreeSet<String>,
    /// The runtime does not answer.
    pub unavailable: bool,
    pub removed: Vec<String>,
    pub asked: Vec<String>,
    /// Number of removals in progress.
    pub removing: usize,
    pub before: Option<Hook>,
}

impl State {
    /// Adds an image of these layers, each with its size in megabytes.
    pub fn image(&mut self, id: &str, layers: &[(u32, u64)]) {
        self.images.insert(id.into(), layers.iter().map(|(layer, _)| *layer).collect());
        self.layers.extend(layers.iter().map(|(layer, size)| (*layer, size * MB)));
    }

    pub fn used(&self) -> u64 {
        let there: BTreeSet<&u32> = self.images.values().flatten().collect();
        self.other + there.into_iter().map(|layer| self.layers[layer]).sum::<u64>()
    }

    /// Adds a running container of this image.
    pub fn run(&mut self, id: &str, image: &str) {
        let container = ListedContainer {
            id: id.into(),
            image_ref: image.into(),
            state: cri::ContainerState::ContainerRunning.into(),
            ..Default::default()
        };
        self.listing.containers.push(container);
    }

    pub fn uses(&self, image: &str) -> bool {
        self.listing.containers.iter().any(|container| container.image_ref == image)
    }
}

/// The fake runtime. Clones share one state.
#[derive(Clone, Default)]
pub struct FakeRuntime(Arc<Mutex<State>>);

impl FakeRuntime {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    pub fn before_removal(&self, hook: impl FnMut(&mut State, &str) + Send + 'static) {
        self.state().before = Some(Box::new(hook));
    }

    fn answers(&self, call: &'static str) -> Result<(), RuntimeError> {
        if self.state().unavailable { Err(timed_out(call)) } else { Ok(()) }
    }
}

fn timed_out(call: &'static str) -> RuntimeError {
    RuntimeError::TimedOut {
        call,
        endpoint: Endpoint::parse("/run/test.sock").unwrap(),
        about: About::default(),
        limit: Duration::from_secs(5),
    }
}

#[async_trait::async_trait]
impl Runtime for FakeRuntime {
    async fn images(&self) -> Result<Vec<ImageSeen>, RuntimeError> {
        self.answers("ListImages")?;
        let state = self.state();
        let seen = |(id, layers): (&String, &Vec<u32>)| ImageSeen {
            id: id.clone(),
            names: vec![format!("docker.io/library/{id}:1")],
            size: layers.iter().map(|layer| state.layers[layer]).sum(),
            pinned: state.pinned.contains(id),
        };
        Ok(state.images.iter().map(seen).collect())
    }

    async fn image_id(&self, reference: &str) -> Result<Option<String>, RuntimeError> {
        self.state().asked.push(reference.into());
        Ok(None)
    }

    async fn sandbox_image(&self, _: &[ListedSandbox]) -> Result<Option<String>, RuntimeError> {
        Ok(Some("pause:1".into()))
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        {
            let state = &mut *self.state();
            assert_eq!(state.removing, 0, "two removals at once");
            assert!(!state.uses(id), "{id} is in use");
            if let Some(mut hook) = state.before.take() {
                hook(state, id);
                state.before = Some(hook);
            }
            state.removing = 1;
        }
        let hangs = self.state().hangs.contains(id);
        let time = if hangs { Duration::from_secs(120) } else { Duration::from_millis(10) };
        tokio::time::sleep(time).await;
        let mut state = self.state();
        state.removing = 0;
        if hangs || state.fails.contains(id) {
            return Err(timed_out("RemoveImage"));
        }
        state.images.remove(id);
        state.removed.push(id.into());
        Ok(())
    }

    async fn image_fs_info(&self) -> Result<ImageFsInfo, RuntimeError> {
        self.answers("ImageFsInfo")?;
        if self.state().hangs.contains("ImageFsInfo") {
            std::future::pending::<()>().await;
        }
        let place = DiskUsage { path: "/images".into(), used: Some(7), inodes_used: None };
        Ok(ImageFsInfo { images: vec![place], containers: Vec::new() })
    }

    async fn list(&self) -> Result<Listing, RuntimeError> {
        self.answers("ListContainers")?;
        Ok(self.state().listing.clone())
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let mut state = self.state();
        if state.fails.contains(id) {
            return Err(timed_out("RemoveContainer"));
        }
        state.listing.containers.retain(|container| container.id != id);
        state.removed.push(id.into());
        Ok(())
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let mut state = self.state();
        state.listing.sandboxes.retain(|sandbox| sandbox.id != id);
        state.removed.push(id.into());
        Ok(())
    }
}

impl Disk for FakeRuntime {
    fn read(&self, path: &Path) -> Result<FsUse, FsError> {
        let used = self.state().used();
        Ok(FsUse {
            path: path.to_owned(),
            device: if path == Path::new("/images") { 2 } else { 1 },
            capacity: CAPACITY,
            available: CAPACITY.saturating_sub(used),
            inodes: 100,
            inodes_free: 50,
            used: None,
            inodes_used: None,
        })
    }
}

/// A collector with its fake runtime.
pub struct Fixture {
    pub dir: tempfile::TempDir,
    pub runtime: FakeRuntime,
    pub board: PodStatusCache,
    pub holds: Holds,
    pub journal: Journal,
    pub collector: Collector,
}

impl Fixture {
    /// The pods are known: there are none.
    pub fn new(runtime: State, settings: &GcSettings) -> Self {
        let this = Self::starting(runtime, settings);
        this.board.set_desired(DesiredPods { complete: true, ..DesiredPods::default() });
        this
    }

    /// The pods are not known yet.
    pub fn starting(runtime: State, settings: &GcSettings) -> Self {
        Self::with(runtime, settings, None)
    }

    /// The pods are not known yet; periodic runs read `list`.
    pub fn with(runtime: State, settings: &GcSettings, list: Option<SharedList>) -> Self {
        Self::in_mode(true, runtime, settings, list)
    }

    /// As [`Self::with`]; `acts`: not in mode observe.
    pub fn in_mode(acts: bool, runtime: State, settings: &GcSettings, list: Option<SharedList>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runtime = FakeRuntime(Arc::new(Mutex::new(runtime)));
        let (board, holds) = (PodStatusCache::default(), Holds::default());
        let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
        let needs = Deps {
            runtime: Arc::new(runtime.clone()),
            list,
            disk: Arc::new(runtime.clone()),
            state_dir: dir.path().to_owned(),
            root_dir: dir.path().to_owned(),
            logs_dir: dir.path().join("logs"),
            journal: journal.clone(),
            board: board.clone(),
            ownership: Ownership::new("me".into(), false),
            holds: holds.clone(),
            acts,
        };
        let collector = Collector::new(settings, needs);
        Self { dir, runtime, board, holds, journal, collector }
    }

    pub fn percent(&self) -> f64 {
        self.runtime.state().used() as f64 * 100.0 / CAPACITY as f64
    }
}

/// The kubelet's settings, without a minimum age of images.
pub fn settings() -> GcSettings {
    GcSettings { min_age: Duration::ZERO, ..GcSettings::default() }
}
