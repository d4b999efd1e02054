//! Removes images one at a time: users are read again before each removal, and the file system after it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_cri::Listing;
use nodewarden_model::{FsUse, ImageSeen};
use tokio::time::Instant;

use super::GcError;
use super::metrics::{self, Part, RemovalReason};
use super::plan::{self, Goal, ImageFacts, ImagePlan};
use super::run::Run;
use super::runtime::DiskUsage;
use super::shared::Shared;
use super::users::{self, ImageIndex, ManifestImage, Users};

/// Wait between two readings while the file system settles.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The file system has settled when its free space did not grow for this long; XFS frees the space of an
/// unlink a moment later.
const SETTLED_AFTER: Duration = Duration::from_millis(150);
/// Longest wait, even if the free space still grows.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);

/// Answers of the runtime that do not change during a run.
#[derive(Debug, Default)]
pub struct RunCache {
    /// Outer `None` before the runtime was asked.
    sandbox_image: Option<Option<String>>,
    /// References that match no image's name, with the id that the runtime found for them.
    references: BTreeMap<String, Option<String>>,
}

/// The images and their users at one moment.
#[derive(Debug)]
pub struct ImageSnapshot {
    pub images: Vec<ImageSeen>,
    pub users: Users,
}

impl Shared {
    /// Reads the images, and their users in `listing` and in manifests.
    pub async fn snapshot(&self, listing: &Listing, cache: &mut RunCache) -> Result<ImageSnapshot, GcError> {
        // Asked at the same time, so that both answers are read at once.
        let sandbox_image = async {
            match cache.sandbox_image.take() {
                Some(known) => Ok(known),
                None => self.runtime.sandbox_image(&listing.sandboxes).await,
            }
        };
        let (images, sandbox_image) = tokio::try_join!(self.runtime.images(), sandbox_image)?;
        cache.sandbox_image = Some(sandbox_image);
        let manifest_images = self.manifest_images();
        for ManifestImage { reference, .. } in &manifest_images {
            let unknown = ImageIndex::new(&images, &cache.references).id(reference).is_none();
            if unknown && !cache.references.contains_key(reference) {
                let id = match self.runtime.image_id(reference).await {
                    Err(error) if error.is_unavailable() || error.is_timed_out() => return Err(error.into()),
                    // The reference is not a valid image name.
                    Err(_) => None,
                    Ok(id) => id,
                };
                cache.references.insert(reference.clone(), id);
            }
        }
        let names = ImageIndex::new(&images, &cache.references);
        let sandbox = cache.sandbox_image.as_ref().and_then(Option::as_deref);
        let users = users::users(&images, &names, &listing.containers, sandbox, &manifest_images);
        Ok(ImageSnapshot { images, users })
    }

    /// As [`Self::snapshot`], with a list of this moment.
    pub async fn snapshot_now(&self, cache: &mut RunCache) -> Result<ImageSnapshot, GcError> {
        self.snapshot(&self.runtime.list().await?, cache).await
    }

    /// The images that manifests name: manifests of desired pods, and of pods that still exist.
    fn manifest_images(&self) -> Vec<ManifestImage> {
        let wanted = self.board.desired().unwrap_or_default();
        let mut manifest_images: Vec<ManifestImage> = wanted
            .pods
            .iter()
            .flat_map(|sourced| users::manifest_images(&sourced.pod, &sourced.origin).collect::<Vec<_>>())
            .collect();
        for view in self.board.pods() {
            manifest_images.extend(
                users::manifest_images(&view.pod, &view.origin)
                    .filter(|image| !contains(&wanted, &view.pod.uid, image)),
            );
        }
        manifest_images
    }

    /// Reads the images and records which were seen and used; `listing` is what the runtime has.
    pub async fn detect(&self, listing: &Listing, cache: &mut RunCache) -> Result<ImageSnapshot, GcError> {
        let snapshot = self.snapshot(listing, cache).await?;
        if self.uses().detect(&snapshot.images, &snapshot.users, Timestamp::now()) {
            self.save().await;
        }
        Ok(snapshot)
    }

    /// As [`Self::detect`], with a list of this moment.
    pub async fn detect_now(&self, cache: &mut RunCache) -> Result<ImageSnapshot, GcError> {
        self.detect(&self.runtime.list().await?, cache).await
    }

    /// Removes images that are too old, and images beyond the disk thresholds (kubelet
    /// `realImageGCManager.GarbageCollect`).
    pub async fn collect_images(&self, run: &mut Run) -> Result<(), GcError> {
        let mut cache = RunCache::default();
        if self.settings.max_age.is_some() {
            self.remove_planned(run, Goal::TooOld, &mut cache).await?;
        }
        if self.settings.high_percent >= 100 {
            return Ok(());
        }
        let disk = self.image_disk().await?;
        let wanted = plan::wanted(&self.read(&disk).await?, &self.settings)
            .inspect_err(|fault| self.reporter.event("InvalidDiskCapacity", fault.to_string()))?;
        run.outcome.wanted = wanted;
        if wanted == 0 {
            return Ok(());
        }
        let before = run.outcome.freed;
        run.outcome.reached = false;
        let done = self.remove_planned(run, Goal::Threshold { wanted }, &mut cache).await;
        if run.dry {
            return done;
        }
        let freed = run.outcome.freed.saturating_sub(before);
        metrics::space(wanted, freed);
        done?;
        // Other writers may have used some of the freed space again.
        run.outcome.reached |= freed >= wanted || plan::reached(&self.read(&disk).await?, &self.settings);
        let images = run.count(Part::Image);
        if run.outcome.reached {
            let message =
                format!("{images} images were removed: wanted to free {wanted} bytes, freed {freed}");
            self.reporter.event("FreedDiskSpace", message);
        } else {
            metrics::failed(Part::Space);
            // The kubelet's text.
            let message = format!(
                "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only \
                 found {freed} bytes eligible to free."
            );
            self.reporter.event("FreeDiskSpaceFailed", message);
        }
        Ok(())
    }

    /// Removes the planned images in order, until the goal is reached.
    pub async fn remove_planned(
        &self,
        run: &mut Run,
        goal: Goal,
        cache: &mut RunCache,
    ) -> Result<(), GcError> {
        let snapshot = self.detect_now(cache).await?;
        let plan = self.plan(&snapshot, run.began, goal);
        let images: BTreeMap<&str, &ImageSeen> = snapshot.images.iter().map(|i| (&*i.id, i)).collect();
        let going: Vec<&ImageSeen> = plan.remove.iter().filter_map(|id| images.get(&**id).copied()).collect();
        if run.dry {
            for image in at_least(&going, goal) {
                run.planned(Part::Image, &image.id, image.names.join(", "));
            }
            return Ok(());
        }
        let disk = match goal {
            Goal::Threshold { .. } => Some(self.image_disk().await?),
            // The freed bytes are only reported.
            Goal::TooOld | Goal::All => self.image_disk().await.ok(),
        };
        for image in going {
            if self.is_enough(run, goal, disk.as_ref()).await? {
                break;
            }
            self.remove_image(run, image, goal, disk.as_ref(), cache).await?;
        }
        self.is_enough(run, goal, disk.as_ref()).await?;
        self.save().await;
        Ok(())
    }

    /// Whether the file system is at its target, which is recorded in the run.
    async fn is_enough(&self, run: &mut Run, goal: Goal, disk: Option<&DiskUsage>) -> Result<bool, GcError> {
        let (Goal::Threshold { .. }, Some(disk)) = (goal, disk) else { return Ok(false) };
        let reached = plan::reached(&self.read(disk).await?, &self.settings);
        run.outcome.reached |= reached;
        Ok(reached)
    }

    /// Plans removals from a snapshot.
    pub fn plan(&self, snapshot: &ImageSnapshot, run_began: Timestamp, goal: Goal) -> ImagePlan {
        let facts = ImageFacts {
            images: &snapshot.images,
            uses: &self.uses(),
            users: &snapshot.users,
            now: Timestamp::now(),
            run_began,
            settings: &self.settings,
        };
        plan::images(&facts, goal)
    }

    /// Removes one image, unless it is in use by now.
    ///
    /// # Errors
    /// The runtime or the file system cannot be queried. A failed removal is recorded in the run and is not
    /// an error.
    async fn remove_image(
        &self,
        run: &mut Run,
        image: &ImageSeen,
        goal: Goal,
        disk: Option<&DiskUsage>,
        cache: &mut RunCache,
    ) -> Result<(), GcError> {
        // Claimed before the snapshot: a new user is found either here or in the snapshot.
        let Some(_claim) = self.holds.claim(image) else { return Ok(()) };
        let now = self.snapshot_now(cache).await?;
        self.uses().detect(&now.images, &now.users, Timestamp::now());
        if !self.plan(&now, run.began, goal).remove.contains(&image.id) {
            return Ok(());
        }
        // The image may have got a name since for which there is a hold.
        let Some(image) = now.images.into_iter().find(|own| own.id == image.id) else { return Ok(()) };
        if self.holds.is_held(&image) {
            return Ok(());
        }
        let before = match disk {
            Some(disk) => Some(self.read(disk).await?),
            None => None,
        };
        let names = image.names.join(", ");
        if let Err(error) = self.runtime.remove_image(&image.id).await {
            run.failed(Part::Image, &image.id, names, error.to_string());
            return Ok(());
        }
        self.uses().forget(&image.id);
        metrics::image_removed(if goal == Goal::TooOld { RemovalReason::Age } else { RemovalReason::Space });
        let freed = match (disk, before) {
            (Some(disk), Some(before)) => Some(self.settle(disk, &before, goal).await?),
            _ => None,
        };
        run.removed(Part::Image, &image.id, names, freed);
        Ok(())
    }

    /// Waits until the file system has freed what a removal released, but no longer than the target needs.
    /// Returns the freed bytes.
    async fn settle(&self, disk: &DiskUsage, before: &FsUse, goal: Goal) -> Result<u64, GcError> {
        let begun = Instant::now();
        let (mut most, mut news) = (before.available, begun);
        loop {
            let now = self.read(disk).await?;
            if now.available > most {
                (most, news) = (now.available, Instant::now());
            }
            let reached = matches!(goal, Goal::Threshold { .. }) && plan::reached(&now, &self.settings);
            if reached || news.elapsed() >= SETTLED_AFTER || begun.elapsed() >= SETTLE_LIMIT {
                return Ok(most - before.available);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The directory of images according to the runtime.
    pub async fn image_disk(&self) -> Result<DiskUsage, GcError> {
        self.runtime.image_fs_info().await?.images.into_iter().next().ok_or(GcError::NoImageFs)
    }
}

/// Whether the manifest of a desired pod with this uid names the same image.
fn contains(wanted: &nodewarden_pods::status::DesiredPods, uid: &str, image: &ManifestImage) -> bool {
    let mut same = wanted.pods.iter().filter(|sourced| sourced.pod.uid == uid);
    same.any(|sourced| users::manifest_images(&sourced.pod, &sourced.origin).any(|own| own == *image))
}

/// The first images that a dry run shows: as many as reach the goal if each freed its full size. Sizes count
/// shared layers in each image, so more may be needed.
pub fn at_least<'a>(going: &[&'a ImageSeen], goal: Goal) -> Vec<&'a ImageSeen> {
    let mut left = match goal {
        Goal::Threshold { wanted } => wanted,
        Goal::TooOld | Goal::All => return going.to_vec(),
    };
    let enough = |image: &&&ImageSeen| {
        let more = left > 0;
        left = left.saturating_sub(image.size);
        more
    };
    going.iter().take_while(enough).copied().collect()
}
