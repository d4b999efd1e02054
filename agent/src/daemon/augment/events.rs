//! Kubernetes Events of pods about what no component of Kubernetes reports.

use std::time::Duration;

use jiff::Timestamp;
use nodewarden_augment::incident::{count, incident, occurrence};
use nodewarden_config::{ApiRate, Enforcement};
use nodewarden_kube::events::{EventSender, Events, Settings};
use nodewarden_model::{Detail, Event};
use nodewarden_storage::journal::LOST_SUBSCRIBER;
use nodewarden_tasks::parts;
use tokio::task::JoinSet;

use super::pods::ApiPods;
use crate::daemon::context::Context;

/// How long one poll of a task may take: none of them blocks.
const LIMIT: Duration = Duration::from_secs(60);
/// Who reports them.
const COMPONENT: &str = "nodewarden";

/// The tasks; ended when this is dropped.
pub struct EventReports {
    _tasks: JoinSet<()>,
}

impl EventReports {
    /// Counts what happens to pods and, if the feature is enforced, reports it to the API server. `None` if
    /// it is off. Must be called inside a tokio runtime.
    pub fn start(context: Context<'_>, known: ApiPods) -> Option<Self> {
        let feature = context.config.augment.events;
        if feature == Enforcement::Off {
            return None;
        }
        let mut tasks = JoinSet::new();
        let connection = context.kubernetes.filter(|_| feature == Enforcement::Enforce);
        let to = connection.map(|_| context.events.clone());
        if let Some(connection) = connection {
            let ApiRate { per_second, burst } = context.config.kubernetes.rates.events;
            let settings = Settings { per_second: f64::from(per_second.unwrap_or(0)), burst };
            let events = context.events.clone();
            let sender = EventSender::of_reported(connection.clone(), COMPONENT, events, settings);
            tasks.spawn_on(parts::register("API events", LIMIT).task(sender.run()), context.runtime);
        }
        let mut journal = context.journal.subscribe(Some(Timestamp::now()));
        let read = async move {
            while let Some(event) = journal.next().await {
                read(&event, &known, to.as_ref());
            }
        };
        tasks.spawn_on(parts::register("incidents", LIMIT).task(read), context.runtime);
        Some(Self { _tasks: tasks })
    }
}

fn read(event: &Event, known: &ApiPods, to: Option<&Events>) {
    if let Detail::Lost { lost_type, count: lost } = &event.detail
        && lost_type == LOST_SUBSCRIBER
    {
        return count("lost", *lost);
    }
    // Of cgroups outside of pods there are none.
    let Some((reason, _)) = event.pod.as_ref().and_then(|_| incident(&event.detail, &event.cgroup)) else {
        return;
    };
    count(reason, 1);
    if let Some((to, occurrence)) = to.and_then(|to| Some((to, occurrence(event, |uid| known.get(uid))?))) {
        to.report(occurrence);
    }
}
