//! A runtime with images of shared layers on a file system of its own.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;

use crate::{Collector, Disk, FsError, Holds, Needs, Place, Places, Runtime};
use nodewarden_config::Endpoint;
use nodewarden_cri::{About, Listing, RuntimeError};
use nodewarden_model::GcSettings;
use nodewarden_model::{FsUse, ImageSeen};
use nodewarden_pods::status::{Board, Wanted};
use nodewarden_storage::journal::{Journal, Limits};

/// A megabyte, the unit of sizes here.
pub const MB: u64 = 1 << 20;
/// Of the file system.
pub const CAPACITY: u64 = 1000 * MB;

/// What happens as something is removed.
pub type Hook = Box<dyn FnMut(&mut State, &str) + Send>;

#[derive(Default)]
pub struct State {
    /// Layers by image.
    pub images: BTreeMap<String, Vec<u32>>,
    /// Bytes by layer.
    pub layers: BTreeMap<u32, u64>,
    /// Bytes that something else takes.
    pub other: u64,
    pub listing: Listing,
    pub pinned: BTreeSet<String>,
    /// Images whose removal fails.
    pub fails: BTreeSet<String>,
    /// Images whose removal takes longer than the call may.
    pub hangs: BTreeSet<String>,
    /// The runtime answers nothing.
    pub away: bool,
    pub removed: Vec<String>,
    pub asked: Vec<String>,
    /// How many removals are under way.
    pub removing: usize,
    pub before: Option<Hook>,
}

impl State {
    /// An image of these layers, each of so many megabytes.
    pub fn image(&mut self, id: &str, layers: &[(u32, u64)]) {
        self.images.insert(id.into(), layers.iter().map(|(layer, _)| *layer).collect());
        self.layers.extend(layers.iter().map(|(layer, size)| (*layer, size * MB)));
    }

    pub fn used(&self) -> u64 {
        let there: BTreeSet<&u32> = self.images.values().flatten().collect();
        self.other + there.into_iter().map(|layer| self.layers[layer]).sum::<u64>()
    }

    /// A container of this image, running.
    pub fn run(&mut self, id: &str, image: &str) {
        let container = cri::Container {
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

/// See the module.
#[derive(Clone, Default)]
pub struct World(Arc<Mutex<State>>);

impl World {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    pub fn before_removal(&self, hook: impl FnMut(&mut State, &str) + Send + 'static) {
        self.state().before = Some(Box::new(hook));
    }

    fn answers(&self, call: &'static str) -> Result<(), RuntimeError> {
        if self.state().away { Err(silent(call)) } else { Ok(()) }
    }
}

fn silent(call: &'static str) -> RuntimeError {
    RuntimeError::TimedOut {
        call,
        endpoint: Endpoint::parse("/run/world.sock").unwrap(),
        about: About::default(),
        limit: Duration::from_secs(5),
    }
}

#[async_trait::async_trait]
impl Runtime for World {
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

    async fn sandbox_image(&self, _: &[cri::PodSandbox]) -> Result<Option<String>, RuntimeError> {
        Ok(Some("pause:1".into()))
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        {
            let state = &mut *self.state();
            assert_eq!(state.removing, 0, "two at once");
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
            return Err(silent("RemoveImage"));
        }
        state.images.remove(id);
        state.removed.push(id.into());
        Ok(())
    }

    async fn places(&self) -> Result<Places, RuntimeError> {
        self.answers("ImageFsInfo")?;
        let place = Place { path: "/images".into(), used: None, inodes_used: None };
        Ok(Places { images: vec![place], containers: Vec::new() })
    }

    async fn list(&self) -> Result<Listing, RuntimeError> {
        self.answers("ListContainers")?;
        Ok(self.state().listing.clone())
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let mut state = self.state();
        if state.fails.contains(id) {
            return Err(silent("RemoveContainer"));
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

impl Disk for World {
    fn read(&self, path: &Path) -> Result<FsUse, FsError> {
        let used = self.state().used();
        Ok(FsUse {
            path: path.to_owned(),
            device: 1,
            capacity: CAPACITY,
            available: CAPACITY.saturating_sub(used),
            inodes: 100,
            inodes_free: 50,
            used: None,
            inodes_used: None,
        })
    }
}

/// A world and its collector.
pub struct Node {
    pub dir: tempfile::TempDir,
    pub world: World,
    pub board: Board,
    pub holds: Holds,
    pub journal: Journal,
    pub collector: Collector,
}

impl Node {
    /// Whose pods are known: none.
    pub fn new(world: State, settings: &GcSettings) -> Self {
        let this = Self::starting(world, settings);
        this.board.want(Wanted { whole: true, ..Wanted::default() });
        this
    }

    /// Whose pods are not known yet.
    pub fn starting(world: State, settings: &GcSettings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = World(Arc::new(Mutex::new(world)));
        let (board, holds) = (Board::default(), Holds::default());
        let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
        let needs = Needs {
            runtime: Arc::new(world.clone()),
            disk: Arc::new(world.clone()),
            state_dir: dir.path().to_owned(),
            logs_dir: dir.path().join("logs"),
            journal: journal.clone(),
            board: board.clone(),
            owner: "me".into(),
            holds: holds.clone(),
            acts: true,
        };
        let collector = Collector::new(settings, needs);
        Self { dir, world, board, holds, journal, collector }
    }

    pub fn percent(&self) -> f64 {
        self.world.state().used() as f64 * 100.0 / CAPACITY as f64
    }
}

/// As the kubelet's, but an image may go as soon as it is there.
pub fn settings() -> GcSettings {
    GcSettings { min_age: Duration::ZERO, ..GcSettings::default() }
}
