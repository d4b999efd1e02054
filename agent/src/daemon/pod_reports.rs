//! What the API server gets to know of the node's pods: their statuses, mirror pods for manifests, and events.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::context::Context;
use nodewarden_kube::events::{self, EventSender, Events};
use nodewarden_kube::mirror::MirrorKeeper;
use nodewarden_kube::pod_object::NodeFacts;
use nodewarden_kube::status::{self, NodeFactsSource, StatusWriter};
use nodewarden_tasks::parts;

/// How long one poll of a task may take: none of them blocks.
const LIMIT: Duration = Duration::from_secs(60);

/// The tasks; ended when this is dropped.
pub struct PodReports {
    _tasks: JoinSet<()>,
    events: Events,
}

impl PodReports {
    /// Starts the tasks; `None` without an API server. What has happened to pods since `begun` becomes events too.
    pub fn start(
        context: Context<'_>,
        addresses: &watch::Receiver<Vec<IpAddr>>,
        begun: Timestamp,
    ) -> Option<Self> {
        let connection = context.kubernetes?;
        let (pods, known) = (context.pods, context.known_pods);
        let facts = || facts(context, connection.node(), addresses.clone());
        let writer = StatusWriter::new(
            connection.clone(),
            pods.clone(),
            known.clone(),
            facts(),
            status::Settings::default(),
        );
        let mirrors = MirrorKeeper::new(connection.clone(), pods.clone(), known.clone(), facts());
        let events = Events::default();
        let journal = context.journal.subscribe(Some(begun));
        let settings = events::Settings::default();
        let sender = EventSender::new(connection.clone(), events.clone(), journal, pods.clone(), settings);
        let mut tasks = JoinSet::new();
        tasks.spawn_on(parts::register("pod statuses", LIMIT).task(writer.run()), context.runtime);
        tasks.spawn_on(parts::register("mirror pods", LIMIT).task(mirrors.run()), context.runtime);
        tasks.spawn_on(parts::register("API events", LIMIT).task(sender.run()), context.runtime);
        Some(Self { _tasks: tasks, events })
    }

    /// Where what happens to the node is reported.
    pub fn events(&self) -> &Events {
        &self.events
    }
}

fn facts(context: Context<'_>, node: &str, addresses: watch::Receiver<Vec<IpAddr>>) -> NodeFactsSource {
    let (observer, name) = (context.observer.clone(), node.to_owned());
    Box::new(move || NodeFacts {
        name: name.clone(),
        ips: addresses.borrow().clone(),
        runtime: observer.names.runtime_name(),
    })
}
