//! The collector: starts runs, and answers the API and eviction.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_model::{
    FsUse, GcOutcome, GcSettings, GcStep, ImageGc, ImageSeen, ImageView, ImagesView, Keep,
};
use nodewarden_tasks::blocking;
use nodewarden_tasks::parts;
use tokio::sync::mpsc;
use tracing::info;

use super::GcError;
use super::containers;
use super::first_runs::FirstRuns;
use super::fs::FileSystems;
use super::image_fs::Known;
use super::images::{RunCache, at_least};
use super::metrics::{self, Part};
use super::plan::{self, Goal};
use super::run::Run;
use super::runtime::DiskUsage;
use super::shared::{Deps, Shared};
use super::sweep::When;

/// How long a run may take, with the wait for another one; each removal may take minutes.
const RUN_LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Collects garbage. Clones share one state.
#[derive(Clone)]
pub struct Collector(pub(crate) Arc<Shared>);

impl Collector {
    /// Starts periodic collection once the node's pods are known. Must be called inside a tokio runtime.
    pub fn start(settings: &GcSettings, deps: Deps) -> Self {
        let this = Self::new(settings, deps);
        let periodic = this.clone();
        let part = parts::register("garbage collection", RUN_LIMIT);
        tokio::spawn(part.task_with(|pulse| async move { periodic.run_periodically(&pulse).await }));
        this
    }

    /// Creates a collector that runs only on request.
    pub fn new(settings: &GcSettings, deps: Deps) -> Self {
        Self(Arc::new(Shared::new(settings, deps)))
    }

    /// Collects what is due now, containers first; waits for a run in progress. Each step is sent when it is
    /// done. `dry`: only plans.
    ///
    /// # Errors
    /// A part of the run ended early; the other parts are done.
    pub async fn collect(
        &self,
        dry: bool,
        steps: mpsc::UnboundedSender<GcStep>,
    ) -> Result<GcOutcome, GcError> {
        let inner = &self.0;
        inner.may_act()?;
        let _running = inner.run_lock.lock().await;
        if !dry {
            inner.changes_something();
        }
        let mut run = Run::new(dry, Some(steps), &inner.removals);
        let contents = inner.contents(When::Now, !dry, FirstRuns::default()).await;
        let containers = inner.collect_containers(&mut run, contents, false).await;
        let images = inner.collect_images(&mut run).await;
        if !dry {
            inner.report(&run, &containers, &images);
        }
        containers.and(images).map(|()| run.outcome)
    }

    /// Removes every unused image older than the minimum age (kubelet `DeleteUnusedImages`), even if periodic
    /// collection for space is off. Returns the freed bytes.
    ///
    /// # Errors
    /// The run ended early.
    pub async fn delete_unused_images(&self) -> Result<u64, GcError> {
        let inner = &self.0;
        inner.may_act()?;
        let _running = inner.run_lock.lock().await;
        let mut run = Run::new(false, None, &inner.removals);
        let done = inner.remove_planned(&mut run, Goal::All, &mut RunCache::default()).await;
        inner
            .reporter
            .report(Part::Image, inner.count_early_end(Part::Image, &done).or(run.failure(Part::Image)));
        done.map(|()| run.outcome.freed)
    }

    /// Removes dead containers as in a periodic run, and everything of pods that have ended (kubelet
    /// `DeleteAllUnusedContainers`).
    ///
    /// # Errors
    /// The run ended early.
    pub async fn delete_all_unused_containers(&self) -> Result<(), GcError> {
        let inner = &self.0;
        inner.may_act()?;
        let _running = inner.run_lock.lock().await;
        inner.changes_something();
        let mut run = Run::new(false, None, &inner.removals);
        let contents = inner.contents(When::Now, true, FirstRuns::default()).await;
        let done = inner.collect_containers(&mut run, contents, true).await;
        inner.reporter.report(
            Part::Container,
            inner.count_early_end(Part::Container, &done).or(run.failure(Part::Container)),
        );
        done
    }

    /// Returns how many containers the runtime has of the pod, ended ones too.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn containers_of(&self, uid: &str) -> Result<usize, GcError> {
        let listing = self.0.runtime.list().await?;
        let of_pod = |container: &&_| containers::is_of(container, uid);
        Ok(listing.containers.iter().filter(of_pod).count())
    }

    /// How often something was removed since the start, which shows whether a run gets on.
    pub fn removals(&self) -> u64 {
        self.0.removals.load(Ordering::Relaxed)
    }

    /// Requests a run because the disk is short of space: at once, or after the run in progress.
    pub fn pressure(&self) {
        self.0.pressure.notify_one();
    }

    /// Reads how full the node's file systems are. If the runtime does not answer, those of images and of
    /// writable layers are read where they last were. While that is not known either, or a file system does
    /// not answer, its capacity is 0 and it counts as the node's; that is reported in the log and in the
    /// journal.
    ///
    /// # Errors
    /// The file system of the agent's state cannot be read.
    pub async fn file_systems(&self) -> Result<FileSystems, GcError> {
        let inner = &self.0;
        let (disk, root_dir) = (inner.disk.clone(), inner.root_dir.clone());
        let node = blocking::FILE_SYSTEMS.run(move || disk.read(&root_dir)).await;
        let node = node.map_err(|_| GcError::Panicked)??;
        let Known { info, mut problem } = inner.image_fs.known().await;
        let info = info.unwrap_or_default();
        let unknown = || FsUse { device: node.device, ..FsUse::default() };
        let read = async |place: &DiskUsage| inner.read(place).await.map_err(|error| error.to_string());
        let (image, container) = match (info.images.first(), info.containers.first()) {
            (None, _) => (Err(GcError::NoImageFs.to_string()), None),
            (Some(images), None) => (read(images).await, None),
            (Some(images), Some(containers)) => (read(images).await, Some(read(containers).await)),
        };
        for failed in [image.as_ref().err(), container.as_ref().and_then(|read| read.as_ref().err())] {
            problem = problem.or(failed.cloned());
        }
        inner.report_image_fs(problem);
        let image = image.unwrap_or_else(|_| unknown());
        let container = container.map_or_else(|| image.clone(), |read| read.unwrap_or_else(|_| unknown()));
        Ok(FileSystems { node, image, container })
    }

    /// The current images, for the API.
    pub async fn view(&self) -> ImagesView {
        let mut view = ImagesView::default();
        if let Err(error) = self.0.fill_view(&mut view).await {
            view.problem = error.to_string();
        }
        view
    }
}

impl Shared {
    /// Reports a problem when it begins or changes.
    fn report_image_fs(&self, problem: Option<String>) {
        let before = std::mem::replace(&mut *self.image_fs_problem.lock(), problem.clone());
        match problem {
            Some(problem) if before.as_ref() != Some(&problem) => self.reporter.event(
                "ImageFilesystemUnknown",
                format!("the file systems of images and writable layers are judged by what was last known: {problem}"),
            ),
            None if before.is_some() => info!("the file systems of images and writable layers are known again"),
            _ => {}
        }
    }

    fn may_act(&self) -> Result<(), GcError> {
        match self.board.desired() {
            _ if !self.acts => Err(GcError::Observing),
            // Without the pods, their images and containers would look unused.
            None => Err(GcError::NotReady),
            Some(_) => Ok(()),
        }
    }

    /// The reason if a part ended early, which is counted.
    pub(crate) fn count_early_end(&self, what: Part, done: &Result<(), GcError>) -> Option<String> {
        let error = done.as_ref().err()?;
        metrics::failed(what);
        Some(error.to_string())
    }

    pub(crate) fn report(&self, run: &Run, containers: &Result<(), GcError>, images: &Result<(), GcError>) {
        self.report_images(run, images);
        self.reporter.report(
            Part::Container,
            self.count_early_end(Part::Container, containers).or_else(|| run.failure(Part::Container)),
        );
        self.reporter.report(Part::Sandbox, run.failure(Part::Sandbox));
        self.reporter.report(Part::Logs, run.failure(Part::Logs));
    }

    pub(crate) fn report_images(&self, run: &Run, images: &Result<(), GcError>) {
        self.reporter.report(
            Part::Image,
            self.count_early_end(Part::Image, images).or_else(|| run.failure(Part::Image)),
        );
    }

    async fn fill_view(&self, view: &mut ImagesView) -> Result<(), GcError> {
        let snapshot = self.snapshot_now(&mut RunCache::default()).await?;
        let now = Timestamp::now();
        let mut uses = self.uses().clone();
        uses.detect(&snapshot.images, &snapshot.users, now);
        let found = match self.image_disk().await {
            Ok(place) => self.read(&place).await,
            Err(error) => Err(error),
        };
        let wanted = found.and_then(|fs| {
            let wanted = plan::wanted(&fs, &self.settings);
            view.fs = Some(fs);
            Ok(wanted?)
        });
        view.wanted = *wanted.as_ref().unwrap_or(&0);
        let planned = |goal| {
            let facts = plan::ImageFacts {
                images: &snapshot.images,
                uses: &uses,
                users: &snapshot.users,
                now,
                run_began: now,
                settings: &self.settings,
            };
            plan::images(&facts, goal)
        };
        let image = |id: &str| snapshot.images.iter().find(|image| image.id == *id);
        let mut going: Vec<&ImageSeen> =
            planned(Goal::TooOld).remove.iter().filter_map(|id| image(id)).collect();
        let goal = Goal::Threshold { wanted: view.wanted };
        let space = planned(goal);
        let candidates: Vec<&ImageSeen> = space.remove.iter().filter_map(|id| image(id)).collect();
        let enough = at_least(&candidates, goal);
        going.extend(
            enough.into_iter().filter(|i| !going.iter().any(|own| own.id == i.id)).collect::<Vec<_>>(),
        );
        let not_needed = candidates.iter().map(|i| (i.id.clone(), Keep::NotNeeded));
        let stay: Vec<(String, Keep)> = not_needed.chain(space.keep.iter().cloned()).collect();
        let shown = |image: &ImageSeen, keep| ImageView {
            known: uses.get(&image.id).copied(),
            keep,
            users: snapshot.users.0.get(&image.id).map(|(_, who)| who.clone()).unwrap_or_default(),
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
