//! Graceful node shutdown: pods end in the order of their priority before the machine does
//! (pkg/kubelet/nodeshutdown).
//!
//! logind announces a shutdown and waits for everyone who holds an inhibitor, for `InhibitDelayMaxSec` at
//! most, which is raised where it is too short. Meanwhile the node is NotReady, and each group of pods ends
//! with its time.

mod plan;

use std::time::Duration;

use jiff::Timestamp;
use nodewarden_config::ShutdownSettings;
use nodewarden_eviction::{Eviction, EvictionReason};
use nodewarden_kube::status::Written;
use nodewarden_lifecycle::Lifecycle;
use nodewarden_machine::node::logind::{Logind, LogindError};
use nodewarden_model::{Detail, PodPhase, PodView};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::context::Context;
use plan::{Group, groups};

/// The kubelet's reason and message of pods that end with the machine.
const REASON: &str = "Terminated";
const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
/// The wait after logind could not be reached.
const AGAIN: Duration = Duration::from_secs(30);
/// How often it is looked whether the pods of a group have ended.
const LOOK: Duration = Duration::from_millis(100);
/// How long the API server may take to know how the pods ended.
const REPORT: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(120);

/// Delays shutdowns; ends when this is dropped.
pub struct Shutdown(JoinHandle<()>);

impl Drop for Shutdown {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shutdown {
    /// Starts to delay shutdowns; `None` if the configuration does not ask for it. `written`: with a cluster,
    /// to wait for the statuses of pods that have ended. `to` is true while a shutdown is under way. Must be
    /// called inside a tokio runtime.
    pub fn start(
        context: Context<'_>,
        lifecycle: Lifecycle,
        written: Option<Written>,
        to: watch::Sender<bool>,
    ) -> Option<Self> {
        let settings = context.config.kubernetes.shutdown.clone();
        if settings.longest().is_zero() {
            return None;
        }
        let (pods, journal) = (context.pods.clone(), context.journal.clone());
        let work = Work { settings, lifecycle, written, pods, journal, to };
        Some(Self(tokio::spawn(parts::register("node shutdown", LIMIT).task(work.run()))))
    }
}

struct Work {
    settings: ShutdownSettings,
    lifecycle: Lifecycle,
    written: Option<Written>,
    pods: PodStatusCache,
    journal: Journal,
    to: watch::Sender<bool>,
}

impl Work {
    async fn run(self) {
        let mut known: Option<String> = None;
        loop {
            if let Err(error) = self.follow().await {
                let text = error.to_string();
                if known.as_ref() != Some(&text) {
                    warn!("shutdowns of the machine are not delayed: {text}");
                    self.record("FeatureOff", format!("graceful node shutdown is off: {text}"));
                    known = Some(text);
                }
            }
            sleep(AGAIN).await;
        }
    }

    /// Holds an inhibitor and waits for announcements, until the connection ends.
    async fn follow(&self) -> Result<(), LogindError> {
        let logind = Logind::connect().await?;
        let longest = self.settings.longest();
        logind.allow_delay(longest).await?;
        let mut announcements = logind.announcements().await?;
        let inhibit = || logind.inhibit("nodewarden", "pods have to end before the machine");
        let mut inhibitor = Some(inhibit().await?);
        info!("a shutdown of the machine is delayed by up to {} s for pods", longest.as_secs());
        loop {
            if announcements.next().await? {
                self.record("NodeShutdown", "Shutdown manager detected shutdown event".to_owned());
                self.to.send_replace(true);
                self.lifecycle.admission().set_shutting_down(true);
                // A cancelled shutdown is heard only afterwards: pods that have ended are over in any case.
                self.end_pods().await;
                self.report_pods().await;
                inhibitor = None;
            } else {
                self.record("NodeShutdown", "Shutdown manager detected shutdown cancellation".to_owned());
                self.to.send_replace(false);
                self.lifecycle.admission().set_shutting_down(false);
                if inhibitor.is_none() {
                    inhibitor = Some(inhibit().await?);
                }
            }
        }
    }

    /// Ends the groups one after the other, each within its time.
    async fn end_pods(&self) {
        let pods = self.pods.pods();
        let running = pods.iter().filter(|view| !is_over(view));
        let priorities: Vec<(String, i32)> =
            running.map(|view| (view.pod.uid.clone(), view.pod.priority)).collect();
        for Group { grace, pods } in groups(&self.settings.groups(), priorities) {
            let until = Instant::now() + grace;
            for uid in &pods {
                let eviction = Eviction {
                    reason: EvictionReason::Other(REASON.to_owned()),
                    message: MESSAGE.to_owned(),
                    grace: Some(grace),
                    killed: false,
                    condition: None,
                };
                self.lifecycle.evict(uid, eviction);
            }
            while Instant::now() < until && !self.have_ended(&pods) {
                sleep(LOOK).await;
            }
        }
    }

    /// Lets the API server know how they ended, as long as the agent and the network are there.
    async fn report_pods(&self) {
        if let Some(written) = &self.written
            && !written.wait(REPORT).await
        {
            warn!("the API server does not know yet how all pods ended before the machine");
        }
    }

    fn have_ended(&self, uids: &[String]) -> bool {
        let pods = self.pods.pods();
        let ended =
            |uid: &String| pods.iter().find(|view| view.pod.uid == *uid).is_none_or(|view| is_over(view));
        uids.iter().all(ended)
    }

    fn record(&self, reason: &str, message: String) {
        let detail = Detail::Agent { reason: reason.into(), message };
        self.journal.append(Timestamp::now(), "", None, detail);
    }
}

/// Nothing of it runs.
fn is_over(view: &PodView) -> bool {
    matches!(view.phase, PodPhase::Succeeded | PodPhase::Failed) && view.terminating.is_none()
}
