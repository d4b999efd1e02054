//! Removing images: one at a time, each looked at anew before and the file system after it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::GcError;
use super::collector::Inner;
use super::plan::{self, Aim, ImageFacts, ImagePlan, Users};
use super::run::Run;
use super::runtime::Place;
use super::told::{self, Reason};
use super::users::{self, Named, Names};
use nodewarden_model::{FsUse, ImageSeen};

/// Between two readings of a file system that is settling.
const GLANCE: Duration = Duration::from_millis(20);
/// It has settled when it had no more to give for so long; XFS gives back what an unlink freed a moment later.
const QUIET: Duration = Duration::from_millis(150);
/// However much still comes.
const LONGEST: Duration = Duration::from_secs(2);

/// What does not change during a run and is asked once.
#[derive(Debug, Default)]
pub struct Asked {
    /// None before it was asked.
    sandbox: Option<Option<String>>,
    /// References that no image's name matches, with the id that the runtime found by them.
    told: BTreeMap<String, Option<String>>,
}

/// Images and their users at one moment.
#[derive(Debug)]
pub struct Look {
    pub images: Vec<ImageSeen>,
    pub users: Users,
}

impl Inner {
    /// Asks what is there and who uses it.
    pub async fn look(&self, asked: &mut Asked) -> Result<Look, GcError> {
        let listing = self.runtime.list().await?;
        let images = self.runtime.images().await?;
        if asked.sandbox.is_none() {
            asked.sandbox = Some(self.runtime.sandbox_image(&listing.sandboxes).await?);
        }
        let named = self.named();
        for Named { reference, .. } in &named {
            let unknown = Names::new(&images, &asked.told).id(reference).is_none();
            if unknown && !asked.told.contains_key(reference) {
                let id = match self.runtime.image_id(reference).await {
                    Err(error) if error.is_unavailable() || error.is_timed_out() => return Err(error.into()),
                    // Not a name of an image at all.
                    Err(_) => None,
                    Ok(id) => id,
                };
                asked.told.insert(reference.clone(), id);
            }
        }
        let names = Names::new(&images, &asked.told);
        let sandbox = asked.sandbox.as_ref().and_then(Option::as_deref);
        let users = users::users(&images, &names, &listing.containers, sandbox, &named);
        Ok(Look { images, users })
    }

    /// What manifests name: those that are wanted, and those whose pods are still there.
    fn named(&self) -> Vec<Named> {
        let wanted = self.board.wanted().unwrap_or_default();
        let mut named: Vec<Named> = wanted
            .pods
            .iter()
            .flat_map(|sourced| users::named(&sourced.pod, &sourced.origin).collect::<Vec<_>>())
            .collect();
        for view in self.board.pods() {
            named.extend(
                users::named(&view.pod, &view.origin)
                    .filter(|named| !contains(&wanted, &view.pod.uid, named)),
            );
        }
        named
    }

    /// Looks, and notes what was seen and used.
    pub async fn detect(&self, asked: &mut Asked) -> Result<Look, GcError> {
        let look = self.look(asked).await?;
        if self.uses().detect(&look.images, &look.users, Timestamp::now()) {
            self.save().await;
        }
        Ok(look)
    }

    /// What is due by age and by the thresholds (kubelet `realImageGCManager.GarbageCollect`).
    pub async fn collect_images(&self, run: &mut Run) -> Result<(), GcError> {
        let mut asked = Asked::default();
        if self.settings.max_age.is_some() {
            self.remove_planned(run, Aim::TooOld, &mut asked).await?;
        }
        if self.settings.high_percent >= 100 {
            return Ok(());
        }
        let place = self.place().await?;
        let wanted = plan::wanted(&self.read(&place).await?, &self.settings)
            .inspect_err(|fault| self.teller.event("InvalidDiskCapacity", fault.to_string()))?;
        run.outcome.wanted = wanted;
        if wanted == 0 {
            return Ok(());
        }
        let before = run.outcome.freed;
        run.outcome.reached = false;
        let done = self.remove_planned(run, Aim::Threshold { wanted }, &mut asked).await;
        if run.dry {
            return done;
        }
        let freed = run.outcome.freed.saturating_sub(before);
        told::space(wanted, freed);
        done?;
        // Whoever writes meanwhile may have taken some of it again.
        run.outcome.reached |= freed >= wanted || plan::reached(&self.read(&place).await?, &self.settings);
        let images = run.count("image");
        if run.outcome.reached {
            let message =
                format!("{images} images were removed: wanted to free {wanted} bytes, freed {freed}");
            self.teller.event("FreedDiskSpace", message);
        } else {
            told::failed("space");
            // In the kubelet's words.
            let message = format!(
                "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only \
                 found {freed} bytes eligible to free."
            );
            self.teller.event("FreeDiskSpaceFailed", message);
        }
        Ok(())
    }

    /// Removes what the plan lets go, in its order, until the aim is reached.
    pub async fn remove_planned(&self, run: &mut Run, aim: Aim, asked: &mut Asked) -> Result<(), GcError> {
        let look = self.detect(asked).await?;
        let plan = self.plan(&look, run.began, aim);
        let images: BTreeMap<&str, &ImageSeen> = look.images.iter().map(|i| (&*i.id, i)).collect();
        let going: Vec<&ImageSeen> = plan.go.iter().filter_map(|id| images.get(&**id).copied()).collect();
        if run.dry {
            for image in at_least(&going, aim) {
                run.planned("image", &image.id, image.names.join(", "));
            }
            return Ok(());
        }
        let place = match aim {
            Aim::Threshold { .. } => Some(self.place().await?),
            // What comes of it is only told.
            Aim::TooOld | Aim::All => self.place().await.ok(),
        };
        for image in going {
            if self.is_enough(run, aim, place.as_ref()).await? {
                break;
            }
            self.remove_image(run, image, aim, place.as_ref(), asked).await?;
        }
        self.is_enough(run, aim, place.as_ref()).await?;
        self.save().await;
        Ok(())
    }

    /// Whether the file system is at its target, which is noted.
    async fn is_enough(&self, run: &mut Run, aim: Aim, place: Option<&Place>) -> Result<bool, GcError> {
        let (Aim::Threshold { .. }, Some(place)) = (aim, place) else { return Ok(false) };
        let reached = plan::reached(&self.read(place).await?, &self.settings);
        run.outcome.reached |= reached;
        Ok(reached)
    }

    pub fn plan(&self, look: &Look, run_began: Timestamp, aim: Aim) -> ImagePlan {
        let facts = ImageFacts {
            images: &look.images,
            uses: &self.uses(),
            users: &look.users,
            now: Timestamp::now(),
            run_began,
            settings: &self.settings,
        };
        plan::images(&facts, aim)
    }

    /// Removes one image, unless somebody uses it by now.
    ///
    /// # Errors
    /// The runtime cannot be asked who uses it, or the file system not how full it is. A removal that fails is told and
    /// no error.
    async fn remove_image(
        &self,
        run: &mut Run,
        image: &ImageSeen,
        aim: Aim,
        place: Option<&Place>,
        asked: &mut Asked,
    ) -> Result<(), GcError> {
        // Before the look: whoever is about to use it is found either here or there.
        let Some(_claim) = self.holds.claim(image) else { return Ok(()) };
        let now = self.look(asked).await?;
        self.uses().detect(&now.images, &now.users, Timestamp::now());
        if !self.plan(&now, run.began, aim).go.contains(&image.id) {
            return Ok(());
        }
        // It may have got a name since, which somebody holds.
        let Some(image) = now.images.into_iter().find(|own| own.id == image.id) else { return Ok(()) };
        if self.holds.is_held(&image) {
            return Ok(());
        }
        let before = match place {
            Some(place) => Some(self.read(place).await?),
            None => None,
        };
        let names = image.names.join(", ");
        if let Err(error) = self.runtime.remove_image(&image.id).await {
            run.failed("image", &image.id, names, error.to_string());
            return Ok(());
        }
        self.uses().forget(&image.id);
        told::image_removed(if aim == Aim::TooOld { Reason::Age } else { Reason::Space });
        let freed = match (place, before) {
            (Some(place), Some(before)) => Some(self.settle(place, &before, aim).await?),
            _ => None,
        };
        run.removed("image", &image.id, names, freed);
        Ok(())
    }

    /// Waits until the file system has given back what a removal freed, and no longer than the target needs; how much
    /// that is, in bytes.
    async fn settle(&self, place: &Place, before: &FsUse, aim: Aim) -> Result<u64, GcError> {
        let begun = Instant::now();
        let (mut most, mut news) = (before.available, begun);
        loop {
            let now = self.read(place).await?;
            if now.available > most {
                (most, news) = (now.available, Instant::now());
            }
            let reached = matches!(aim, Aim::Threshold { .. }) && plan::reached(&now, &self.settings);
            if reached || news.elapsed() >= QUIET || begun.elapsed() >= LONGEST {
                return Ok(most - before.available);
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Where images are, by the runtime's word.
    pub async fn place(&self) -> Result<Place, GcError> {
        self.runtime.places().await?.images.into_iter().next().ok_or(GcError::NoImageFs)
    }
}

/// Whether a wanted pod of this uid names the same.
fn contains(wanted: &nodewarden_pods::status::Wanted, uid: &str, named: &Named) -> bool {
    let mut same = wanted.pods.iter().filter(|sourced| sourced.pod.uid == uid);
    same.any(|sourced| users::named(&sourced.pod, &sourced.origin).any(|own| own == *named))
}

/// Those that go at least: by their sizes, which count shared layers with each, so much comes free at most.
pub fn at_least<'a>(going: &[&'a ImageSeen], aim: Aim) -> Vec<&'a ImageSeen> {
    let mut left = match aim {
        Aim::Threshold { wanted } => wanted,
        Aim::TooOld | Aim::All => return going.to_vec(),
    };
    let enough = |image: &&&ImageSeen| {
        let more = left > 0;
        left = left.saturating_sub(image.size);
        more
    };
    going.iter().take_while(enough).copied().collect()
}
