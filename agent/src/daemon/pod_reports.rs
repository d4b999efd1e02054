//! What the API server gets to know of the node's pods: their statuses, mirror pods for manifests, and
//! events.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tracing::warn;

use super::context::Context;
use nodewarden_config::ApiRate;
use nodewarden_kube::events::{self, EventSender, Sent};
use nodewarden_kube::mirror::MirrorPods;
use nodewarden_kube::pod_object::NodeFacts;
use nodewarden_kube::status::{self, NodeFactsSource, StatusWriter, Written};
use nodewarden_machine::node::addresses::node_addresses;
use nodewarden_tasks::parts;

/// How long one poll of a task may take: none of them blocks.
const LIMIT: Duration = Duration::from_secs(60);

/// How long the node's addresses are taken for what they were.
const ADDRESSES_KEPT: Duration = Duration::from_secs(10);

/// The tasks; ended when this is dropped.
pub struct PodReports {
    written: Written,
    _tasks: JoinSet<()>,
}

impl PodReports {
    /// Starts the tasks; `None` without an API server. What has happened since `begun`, the start of this
    /// agent, becomes events too, and what an earlier agent could not send.
    pub fn start(context: Context<'_>, begun: Timestamp) -> Option<Self> {
        let connection = context.kubernetes?;
        let (pods, known) = (context.pods, context.known_pods);
        let facts = || facts(context, connection.node());
        let rates = &context.config.kubernetes.rates;
        let per_second = |rate: &ApiRate| f64::from(rate.per_second.unwrap_or(0));
        let writer = StatusWriter::new(
            connection.clone(),
            pods.clone(),
            known.clone(),
            facts(),
            status::Settings {
                per_second: per_second(&rates.requests),
                burst: rates.requests.burst,
                ..status::Settings::default()
            },
        );
        let mirrors = MirrorPods::new(connection.clone(), pods.clone(), known.clone(), facts());
        let (sent, problem) = Sent::open(&context.config.state_dir, begun);
        if let Some(problem) = problem {
            warn!("{problem}: what happened before the agent's start is not sent to the API server");
        }
        let journal = context.journal.subscribe(Some(sent.beginning().since(Timestamp::now())));
        let settings = events::Settings { per_second: per_second(&rates.events), burst: rates.events.burst };
        let (connection, events) = (connection.clone(), context.events.clone());
        let sender = EventSender::new(connection, events, (journal, sent), pods.clone(), settings);
        let written = writer.written();
        let mut tasks = JoinSet::new();
        tasks.spawn_on(parts::register("pod statuses", LIMIT).task(writer.run()), context.runtime);
        tasks.spawn_on(parts::register("mirror pods", LIMIT).task(mirrors.run()), context.runtime);
        tasks.spawn_on(parts::register("API events", LIMIT).task(sender.run()), context.runtime);
        Some(Self { written, _tasks: tasks })
    }

    /// To wait until the API server has every status.
    pub fn written(&self) -> Written {
        self.written.clone()
    }
}

/// What pods' objects say about the node: `--node-ip`, or its addresses as they are now.
fn facts(context: Context<'_>, node: &str) -> NodeFactsSource {
    let (observer, name) = (context.observer.clone(), node.to_owned());
    let given: Vec<IpAddr> = context.config.kubernetes.node_ips.clone();
    let given = Some(given).filter(|ips| !ips.is_empty() && ips.iter().all(|ip| !ip.is_unspecified()));
    let read: Mutex<Option<(Instant, Vec<IpAddr>)>> = Mutex::new(None);
    Box::new(move || NodeFacts {
        name: name.clone(),
        ips: given.clone().unwrap_or_else(|| {
            let mut read = read.lock();
            match &*read {
                Some((at, ips)) if at.elapsed() < ADDRESSES_KEPT => ips.clone(),
                _ => read.insert((Instant::now(), node_addresses())).1.clone(),
            }
        }),
        runtime: observer.names.runtime_name(),
    })
}
