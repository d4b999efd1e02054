//! Each minute, every two seconds while something is in doubt, and every five if the runtime has no events:
//! lists what the runtime has of this agent, finds what changed, and removes what no pod owns (kubelet:
//! HandlePodCleanups). The list of a minute is one that other parts read too. While pods change their
//! directories are searched every two seconds, and the runtime reports what begins there. Only sandboxes with
//! this agent's label and directories below its own are ever touched.

mod found;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use jiff::Timestamp;
use nodewarden_proto::runtime::v1 as cri;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::devices;
use crate::decide::relist::{self, Doubts, EventStream};
use crate::environment::Environment;
use nodewarden_cri::{ListedContainer, Listing, RuntimeError};
use nodewarden_hierarchy::HierarchyHandle;
use nodewarden_model::Detail;
use nodewarden_pods::spec::labels::{OWNER, TERMINATION_GRACE_PERIOD};
use nodewarden_pods::volume;
use nodewarden_tasks::blocking;

use found::Found;

/// Grace of a container without an annotation that says it.
const GRACE: Duration = Duration::from_secs(30);

/// What a look found.
#[derive(Debug, Default)]
pub struct LookResult {
    /// Pods of which the runtime has something else than at the last look.
    pub changed: Vec<String>,
    pub present: Present,
    /// No look: what was left of a pod has been removed, as far as it could be.
    pub tidied: bool,
    /// Set once, when the runtime becomes unavailable.
    pub problem: Option<String>,
}

/// The pods of which the runtime has something with this agent's label, by uid; empty when the runtime could
/// not be asked.
#[derive(Debug, Default)]
pub struct Present {
    pub asked: bool,
    pub pods: Found,
    /// Pods that have a directory.
    pub directories: BTreeSet<String>,
}

/// What the last look at the runtime found, to see what has changed since.
#[derive(Debug)]
pub struct Housekeeping {
    /// Of what each pod had at the last look.
    last: BTreeMap<String, u64>,
    /// Whether the runtime answered last time; none before the first answer.
    answered: Option<bool>,
    looking: bool,
    /// When the last look began.
    began: Option<Instant>,
    /// Whether the runtime reports what happens.
    events: EventStream,
    /// Something was lost, or may be left of a pod: the next look is due.
    doubted: bool,
    /// Pods of which the kernel and the runtime say different things, and until when that counts.
    contradicted: BTreeMap<String, Contradiction>,
    /// Pods that began since the last look did, and those that had before while it is under way: what it
    /// finds of them is old.
    begun: BTreeSet<String>,
    begun_before: BTreeSet<String>,
    /// `None` after a fault of the agent.
    looks: mpsc::UnboundedSender<Option<Look>>,
    looked: mpsc::UnboundedReceiver<Option<Look>>,
    /// Pods without a worker that are being removed.
    tidying: BTreeSet<String>,
    tidied: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
    /// Pods without a worker in the last list; those that have none in the next one either are removed.
    suspects: BTreeSet<String>,
}

#[derive(Debug)]
struct Look {
    /// `None` if only directories were searched.
    found: Option<Result<Found, RuntimeError>>,
    directories: BTreeSet<String>,
}

/// Which list of the runtime is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// One that is asked for at once, of this agent's pods alone.
    Own,
    /// One of everything that the runtime has, which other parts read too.
    Shared,
}

/// The kernel and the runtime say different things of a pod.
#[derive(Debug, Clone, Copy)]
struct Contradiction {
    /// When it no longer counts.
    until: Instant,
    /// The runtime was listed since.
    listed: bool,
}

impl Default for Housekeeping {
    fn default() -> Self {
        let (looks, looked) = mpsc::unbounded_channel();
        Self {
            last: BTreeMap::new(),
            answered: None,
            looking: false,
            began: None,
            events: EventStream::Closed,
            doubted: false,
            contradicted: BTreeMap::new(),
            begun: BTreeSet::new(),
            begun_before: BTreeSet::new(),
            looks,
            looked,
            tidying: BTreeSet::new(),
            tidied: mpsc::unbounded_channel(),
            suspects: BTreeSet::new(),
        }
    }
}

impl Housekeeping {
    /// Whether the runtime reports what happens from now on.
    pub fn set_events(&mut self, events: EventStream) {
        self.events = events;
    }

    /// Something may be other than it is known: the next look is due.
    pub fn doubt(&mut self) {
        self.doubted = true;
    }

    /// The kernel saw a process end and the runtime says that the container of this pod runs: looks are due
    /// for a time, or until the runtime says something else.
    pub fn contradicted(&mut self, uid: String, sure: bool) {
        let until = Instant::now() + if sure { relist::REGULAR } else { relist::PERHAPS };
        let until = until.max(self.contradicted.get(&uid).map_or(until, |known| known.until));
        self.contradicted.insert(uid, Contradiction { until, listed: false });
    }

    /// A pod begins: the last look says nothing of it.
    pub fn begins(&mut self, uid: &str) {
        self.begun.insert(uid.to_owned());
    }

    /// Nothing is left of a pod, as far as its worker knows.
    pub fn gone(&mut self, uid: &str) {
        self.last.remove(uid);
        self.contradicted.remove(uid);
        self.doubted = true;
    }

    /// The longest time until the next look if nothing happens.
    pub fn quiet(&self) -> Duration {
        relist::quiet(self.events)
    }

    /// Whether a look is due at once.
    pub fn is_in_doubt(&self, env: &Environment) -> bool {
        self.doubts(env).any()
    }

    fn doubts(&self, env: &Environment) -> Doubts {
        Doubts {
            ends_unreported: !env.ends_reported,
            events: self.events,
            not_answered: self.answered != Some(true),
            lost: self.doubted,
            contradicted: !self.contradicted.is_empty(),
            unowned: !self.suspects.is_empty(),
            recovering: env.devices.is_recovering()
                || !env.devices.stale().is_empty()
                || env.managers.has_stale(),
        }
    }

    /// Starts a look if one is due, else searches the pods' directories.
    pub fn look_if_due(&mut self, env: &Arc<Environment>) {
        let now = Instant::now();
        self.contradicted.retain(|_, contradiction| now < contradiction.until);
        let doubts = self.doubts(env);
        let since = self.began.map(|began| now.duration_since(began));
        if let Some(reason) = relist::reason(doubts, since, self.last.len()) {
            debug!("listing the runtime: {reason}");
            self.look(env, if reason == relist::OLD { Whose::Shared } else { Whose::Own });
        } else {
            self.search(env);
        }
    }

    /// Starts to search the pods' directories, unless a look is under way.
    fn search(&mut self, env: &Arc<Environment>) {
        if std::mem::replace(&mut self.looking, true) {
            return;
        }
        let (env, looks) = (env.clone(), self.looks.clone());
        tokio::spawn(async move {
            let _ = looks.send(Some(Look { found: None, directories: directories(&env).await }));
        });
    }

    /// A search is over. The runtime is listed before anything is removed that no pod owns.
    pub fn searched(&mut self, env: &Environment, known: &BTreeSet<&str>, present: &Present) {
        self.doubted |= !self.unowned(env, known, present).is_empty();
    }

    /// Pods of which something is there, and which have no worker.
    fn unowned(&self, env: &Environment, known: &BTreeSet<&str>, present: &Present) -> BTreeSet<String> {
        let has_none = |uid: &&String| {
            !known.contains(uid.as_str()) && !self.tidying.contains(*uid) && !env.set_aside.holds(uid)
        };
        present.pods.uids().chain(&present.directories).filter(has_none).cloned().collect()
    }

    /// Starts a look, unless one is under way.
    fn look(&mut self, env: &Arc<Environment>, whose: Whose) {
        if std::mem::replace(&mut self.looking, true) {
            return;
        }
        self.began = Some(Instant::now());
        self.doubted = false;
        self.begun_before.append(&mut self.begun);
        let (env, looks, news) = (env.clone(), self.looks.clone(), self.answered != Some(true));
        tokio::spawn(async move {
            // After a panic, which the log has, the next look is another try.
            let look = AssertUnwindSafe(look(&env, whose, news)).catch_unwind().await.ok();
            let _ = looks.send(look);
        });
    }

    /// Looks once, for the start.
    pub async fn first(&mut self, env: &Arc<Environment>) {
        let look = look(env, Whose::Own, true).await;
        drop(self.take(Some(look)));
    }

    /// The next look's result.
    pub async fn found(&mut self) -> LookResult {
        tokio::select! {
            Some(uid) = self.tidied.1.recv() => {
                self.tidying.remove(&uid);
                LookResult { tidied: true, ..LookResult::default() }
            }
            Some(look) = self.looked.recv() => self.take(look),
            // Both senders are here as well: their channels are never closed.
            else => std::future::pending().await,
        }
    }

    fn take(&mut self, look: Option<Look>) -> LookResult {
        self.looking = false;
        let Some(look) = look else {
            self.doubted = true;
            return LookResult::default();
        };
        let Some(found) = look.found else {
            let present = Present { directories: look.directories, ..Present::default() };
            return LookResult { present, ..LookResult::default() };
        };
        let pods = match found {
            Ok(found) => found,
            Err(error) => {
                let news = self.answered != Some(false);
                self.answered = Some(false);
                return LookResult { problem: news.then(|| error.to_string()), ..LookResult::default() };
            }
        };
        let back = self.answered == Some(false);
        self.answered = Some(true);
        self.begun_before.clear();
        if back {
            info!("the runtime answers again");
        }
        let now: BTreeMap<String, u64> =
            pods.uids().map(|uid| (uid.clone(), pods.fingerprint(uid))).collect();
        let uids: BTreeSet<&String> = self.last.keys().chain(now.keys()).collect();
        let changed: Vec<String> =
            uids.into_iter().filter(|uid| back || self.last.get(*uid) != now.get(*uid)).cloned().collect();
        // The first list after it is compared with one from long before.
        self.contradicted.retain(|uid, contradiction| {
            !(std::mem::replace(&mut contradiction.listed, true) && changed.contains(uid))
        });
        self.last = now;
        LookResult {
            changed,
            present: Present { asked: true, pods, directories: look.directories },
            ..LookResult::default()
        }
    }

    /// Pods without a worker whose containers, sandboxes and volumes are being removed: none of them may
    /// start before that is over.
    pub fn tidying(&self) -> &BTreeSet<String> {
        &self.tidying
    }

    /// Whether the runtime had something of this pod when it was asked last.
    pub fn has(&self, uid: &str) -> bool {
        self.last.contains_key(uid)
    }

    /// Whether the runtime was asked and had nothing of this pod.
    pub fn never_had(&self, uid: &str) -> bool {
        let unknown = |of: &BTreeSet<String>| !of.contains(uid);
        self.answered == Some(true)
            && !self.last.contains_key(uid)
            && [&self.tidying, &self.begun, &self.begun_before].into_iter().all(unknown)
    }

    /// Removes what is there and has no worker, if it had none at the last look either: sandboxes first, then
    /// volumes.
    pub fn tidy(
        &mut self,
        env: &Arc<Environment>,
        sink: &HierarchyHandle,
        known: &BTreeSet<&str>,
        present: &Present,
    ) {
        let unowned = self.unowned(env, known, present);
        for uid in unowned.intersection(&self.suspects) {
            let left = present.pods.of(uid);
            info!(
                uid,
                "removing what no pod owns: {} sandboxes, {} containers",
                left.sandboxes.len(),
                left.containers.len()
            );
            self.tidying.insert(uid.clone());
            let (env, sink, uid) = (env.clone(), sink.clone(), uid.clone());
            let over = Tidied { uid: uid.clone(), done: self.tidied.0.clone() };
            tokio::spawn(async move {
                let _over = over;
                if let Err(error) = remove(&env, &uid, left).await {
                    warn!(uid, "{error}; tried again");
                }
                sink.volumes_changed();
            });
        }
        self.suspects = unowned;
    }
}

/// Reports the end of a removal, also after a panic.
struct Tidied {
    uid: String,
    done: mpsc::UnboundedSender<String>,
}

impl Drop for Tidied {
    fn drop(&mut self) {
        // The receiver is gone when the agent ends.
        let _ = self.done.send(std::mem::take(&mut self.uid));
    }
}

async fn look(env: &Arc<Environment>, whose: Whose, news: bool) -> Look {
    // It may be another runtime after it was unavailable.
    if news && let Ok(can) = env.client.recursive_read_only().await {
        env.recursive_read_only.store(can, Ordering::Relaxed);
    }
    let ownership = &env.ownership;
    let listing = match whose {
        Whose::Shared => env.list.list().await,
        Whose::Own if ownership.includes_kubelets() => env.client.list().await.map(Arc::new),
        Whose::Own => env.client.list_owned(OWNER, ownership.owner()).await.map(Arc::new),
    };
    if let Ok(listing) = &listing {
        devices::reconcile(env, listing).await;
    }
    let found = listing.map(|listing| Found::new(listing, |labels| ownership.has(labels)));
    Look { found: Some(found), directories: directories(env).await }
}

/// The uids of the pods that have a directory.
async fn directories(env: &Environment) -> BTreeSet<String> {
    let directories = env.pods_dir.clone();
    let directories = blocking::TIDYING.run(move || volume::present(&directories)).await;
    directories.ok().and_then(Result::ok).unwrap_or_default().into_iter().collect()
}

async fn remove(env: &Environment, uid: &str, left: Listing) -> Result<(), RuntimeError> {
    let running = left.containers.iter().filter(|c| c.state == cri::ContainerState::ContainerRunning as i32);
    let stops = running.map(|container| env.client.stop_container(&container.id, grace(container)));
    for stopped in futures_util::future::join_all(stops).await {
        stopped?;
    }
    for sandbox in &left.sandboxes {
        env.client.stop_sandbox(&sandbox.id).await?;
        env.client.remove_sandbox(&sandbox.id).await?;
    }
    // As at the end of a pod: a pod of this uid may start, and the next look finds nothing to remove.
    if let Err((place, problem)) = env.set_aside.clean_or_put(uid).await {
        let message = format!("the volumes are set aside at {} and tried again: {problem}", place.display());
        warn!(uid, "{message}");
        let detail = Detail::Agent { reason: "VolumesSetAside".into(), message };
        env.journal.append(Timestamp::now(), "", None, detail);
    }
    Ok(())
}

fn grace(container: &ListedContainer) -> Duration {
    let seconds = container.annotations.get(TERMINATION_GRACE_PERIOD).and_then(|text| text.parse().ok());
    seconds.map_or(GRACE, Duration::from_secs)
}

#[cfg(test)]
mod tests;
