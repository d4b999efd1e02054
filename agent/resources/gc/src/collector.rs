//! The collector: when there is a run, and what others ask of it.

use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, mpsc};
use tracing::warn;

use super::fs::{self, Disk, FileSystems};
use super::images::{Asked, at_least};
use super::plan::{self, Aim};
use super::run::Run;
use super::runtime::{Place, Runtime};
use super::told::{self, Teller};
use super::{GcError, Holds, Uses, UsesFile};
use nodewarden_model::GcSettings;
use nodewarden_model::{FsUse, ImageSeen, Keep};
use nodewarden_model::{ImageGc, GcOutcome, GcStep, ImageView, ImagesView};
use nodewarden_pods::status::Board;
use nodewarden_storage::journal::Journal;

/// Between two looks whether the node's pods are known.
const START: Duration = Duration::from_millis(200);

/// What the collector needs of others.
pub struct Needs {
    pub runtime: Arc<dyn Runtime>,
    pub disk: Arc<dyn Disk>,
    /// Has `images.json`, and is on the node's file system.
    pub state_dir: PathBuf,
    pub logs_dir: PathBuf,
    pub journal: Journal,
    pub board: Board,
    /// Value of the label of what is this agent's at the runtime.
    pub owner: String,
    /// Shared with whoever makes containers.
    pub holds: Holds,
    /// False in mode observe: nothing is removed.
    pub acts: bool,
}

/// Cloning shares it.
#[derive(Clone)]
pub struct Collector(Arc<Inner>);

/// What every part of a run works with.
pub(super) struct Inner {
    pub settings: GcSettings,
    pub runtime: Arc<dyn Runtime>,
    disk: Arc<dyn Disk>,
    state_dir: PathBuf,
    pub logs_dir: PathBuf,
    pub board: Board,
    pub owner: String,
    pub holds: Holds,
    pub teller: Teller,
    acts: bool,
    uses: Mutex<Uses>,
    file: Arc<UsesFile>,
    /// Held by the run under way: never two at once.
    turn: tokio::sync::Mutex<()>,
    pressure: Notify,
}

impl Collector {
    /// Begins to collect periodically, as soon as the node's pods are known. Must be called inside a tokio runtime.
    pub fn start(settings: &GcSettings, needs: Needs) -> Self {
        let this = Self::new(settings, needs);
        let keeper = this.clone();
        tokio::spawn(async move { keeper.keep().await });
        this
    }

    /// One that only does what it is asked for.
    pub fn new(settings: &GcSettings, needs: Needs) -> Self {
        let (file, uses, problem) = UsesFile::open(&needs.state_dir);
        let teller = Teller::new(needs.journal);
        if let Some(problem) = problem {
            warn!("{problem}");
            teller.event("RecordDamaged", problem.to_string());
        }
        Self(Arc::new(Inner {
            settings: settings.clone(),
            runtime: needs.runtime,
            disk: needs.disk,
            state_dir: needs.state_dir,
            logs_dir: needs.logs_dir,
            board: needs.board,
            owner: needs.owner,
            holds: needs.holds,
            teller,
            acts: needs.acts,
            uses: Mutex::new(uses),
            file: Arc::new(file),
            turn: tokio::sync::Mutex::new(()),
            pressure: Notify::new(),
        }))
    }

    async fn keep(self) {
        let inner = &self.0;
        while inner.acts && inner.board.wanted().is_none() {
            tokio::time::sleep(START).await;
        }
        let mut tick = tokio::time::interval(inner.settings.period);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = inner.pressure.notified() => {}
            }
            self.periodic().await;
        }
    }

    /// What is done every period.
    async fn periodic(&self) {
        let inner = &self.0;
        let _turn = inner.turn.lock().await;
        let detected = inner.detect(&mut Asked::default()).await.map(drop);
        if !inner.acts {
            return inner.teller.went("image", inner.ended("image", &detected));
        }
        let mut run = Run::new(false, None);
        let containers = inner.collect_containers(&mut run, false).await;
        let images = match detected {
            Ok(()) => inner.collect_images(&mut run).await,
            failed => failed,
        };
        inner.tell(&run, &containers, &images);
    }

    /// What is due now, containers first; waits for the end of a run under way. Each step is sent when it is done.
    ///
    /// # Errors
    /// A part of it ended early; what could be done is done.
    pub async fn collect(
        &self,
        dry: bool,
        steps: mpsc::UnboundedSender<GcStep>,
    ) -> Result<GcOutcome, GcError> {
        let inner = &self.0;
        inner.may_act()?;
        let _turn = inner.turn.lock().await;
        let mut run = Run::new(dry, Some(steps));
        let containers = inner.collect_containers(&mut run, false).await;
        let images = inner.collect_images(&mut run).await;
        if !dry {
            inner.tell(&run, &containers, &images);
        }
        containers.and(images).map(|()| run.outcome)
    }

    /// Removes every image that nobody uses, of any age (kubelet `DeleteUnusedImages`), also where nothing is collected
    /// periodically; gives the bytes that came free.
    ///
    /// # Errors
    /// The run ended early.
    pub async fn delete_unused_images(&self) -> Result<u64, GcError> {
        let inner = &self.0;
        inner.may_act()?;
        let _turn = inner.turn.lock().await;
        let mut run = Run::new(false, None);
        let done = inner.remove_planned(&mut run, Aim::All, &mut Asked::default()).await;
        inner.teller.went("image", inner.ended("image", &done).or(run.failure("image")));
        done.map(|()| run.outcome.freed)
    }

    /// Removes dead containers as always, and everything of pods that have ended (kubelet `DeleteAllUnusedContainers`).
    ///
    /// # Errors
    /// The run ended early.
    pub async fn delete_all_unused_containers(&self) -> Result<(), GcError> {
        let inner = &self.0;
        inner.may_act()?;
        let _turn = inner.turn.lock().await;
        let mut run = Run::new(false, None);
        let done = inner.collect_containers(&mut run, true).await;
        inner.teller.went("container", inner.ended("container", &done).or(run.failure("container")));
        done
    }

    /// The disk is short: there is a run at once, or after the one under way.
    pub fn pressure(&self) {
        self.0.pressure.notify_one();
    }

    /// How full the node's file systems are.
    ///
    /// # Errors
    /// The runtime or a file system cannot be asked.
    pub async fn file_systems(&self) -> Result<FileSystems, GcError> {
        let (inner, places) = (self.0.clone(), self.0.runtime.places().await?);
        let read =
            tokio::task::spawn_blocking(move || fs::read(&*inner.disk, &inner.state_dir, &places)).await;
        read.map_err(|_| GcError::Died)??.ok_or(GcError::NoImageFs)
    }

    /// The images as they stand.
    pub async fn view(&self) -> ImagesView {
        let mut view = ImagesView::default();
        if let Err(error) = self.0.show(&mut view).await {
            view.problem = error.to_string();
        }
        view
    }
}

impl Inner {
    pub fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock()
    }

    /// Has on disk what was seen and used.
    pub async fn save(&self) {
        let (file, uses) = (self.file.clone(), self.uses().clone());
        let saved = tokio::task::spawn_blocking(move || file.save(&uses).map(drop)).await;
        let problem = match saved {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(GcError::Died.to_string()),
        };
        self.teller.went("image record", problem);
    }

    /// How full the file system of a place is now.
    pub async fn read(&self, place: &Place) -> Result<FsUse, GcError> {
        let (disk, place) = (self.disk.clone(), place.clone());
        let read = tokio::task::spawn_blocking(move || fs::of(&*disk, &place)).await;
        Ok(read.map_err(|_| GcError::Died)??)
    }

    fn may_act(&self) -> Result<(), GcError> {
        match self.board.wanted() {
            _ if !self.acts => Err(GcError::Observing),
            // Their images and containers would look like nobody's.
            None => Err(GcError::NotReady),
            Some(_) => Ok(()),
        }
    }

    /// Why a part ended early, which is counted.
    fn ended(&self, what: &'static str, done: &Result<(), GcError>) -> Option<String> {
        let error = done.as_ref().err()?;
        told::failed(what);
        Some(error.to_string())
    }

    fn tell(&self, run: &Run, containers: &Result<(), GcError>, images: &Result<(), GcError>) {
        self.teller.went("image", self.ended("image", images).or_else(|| run.failure("image")));
        self.teller
            .went("container", self.ended("container", containers).or_else(|| run.failure("container")));
        self.teller.went("sandbox", run.failure("sandbox"));
        self.teller.went("logs", run.failure("logs"));
    }

    async fn show(&self, view: &mut ImagesView) -> Result<(), GcError> {
        let look = self.look(&mut Asked::default()).await?;
        let now = Timestamp::now();
        let mut uses = self.uses().clone();
        uses.detect(&look.images, &look.users, now);
        let found = match self.place().await {
            Ok(place) => self.read(&place).await,
            Err(error) => Err(error),
        };
        let wanted = found.and_then(|fs| {
            let wanted = plan::wanted(&fs, &self.settings);
            view.fs = Some(fs);
            Ok(wanted?)
        });
        view.wanted = *wanted.as_ref().unwrap_or(&0);
        let planned = |aim| {
            let facts = plan::ImageFacts {
                images: &look.images,
                uses: &uses,
                users: &look.users,
                now,
                run_began: now,
                settings: &self.settings,
            };
            plan::images(&facts, aim)
        };
        let image = |id: &str| look.images.iter().find(|image| image.id == *id);
        let mut going: Vec<&ImageSeen> = planned(Aim::TooOld).go.iter().filter_map(|id| image(id)).collect();
        let aim = Aim::Threshold { wanted: view.wanted };
        let space = planned(aim);
        let candidates: Vec<&ImageSeen> = space.go.iter().filter_map(|id| image(id)).collect();
        let enough = at_least(&candidates, aim);
        going.extend(
            enough.into_iter().filter(|i| !going.iter().any(|own| own.id == i.id)).collect::<Vec<_>>(),
        );
        let spared = candidates.iter().map(|i| (i.id.clone(), Keep::NotNeeded));
        let stay: Vec<(String, Keep)> = spared.chain(space.stay.iter().cloned()).collect();
        let shown = |image: &ImageSeen, keep| ImageView {
            known: uses.get(&image.id).copied(),
            keep,
            users: look.users.0.get(&image.id).map(|(_, who)| who.clone()).unwrap_or_default(),
            image: image.clone(),
        };
        view.images = going.iter().map(|image| shown(image, None)).collect();
        for (id, keep) in stay {
            if let Some(image) = image(&id).filter(|image| !going.iter().any(|own| own.id == image.id)) {
                view.images.push(shown(image, Some(keep)));
            }
        }
        wanted.map(drop)
    }
}

#[async_trait::async_trait]
impl ImageGc for Collector {
    fn settings(&self) -> GcSettings {
        self.0.settings.clone()
    }

    async fn view(&self) -> ImagesView {
        Self::view(self).await
    }

    async fn collect(&self, dry: bool, steps: mpsc::UnboundedSender<GcStep>) -> Result<GcOutcome, String> {
        Self::collect(self, dry, steps).await.map_err(|error| error.to_string())
    }
}
