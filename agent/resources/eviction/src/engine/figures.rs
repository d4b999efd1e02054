//! Reads what pods use on disk, on threads for that: a slow file system delays nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use crate::gather::{self, Subject};
use crate::limits::Limits;
use crate::usage::{PodUse, Scope, Sources, with_disk, writable_layers};
use crate::{Candidate, RequiredStats};
use nodewarden_tasks::blocking;

/// Steps and outcomes of decisions name so many pods.
const NAMED: usize = 5;

/// The pods whose directories are counted; the others have what is known of them.
#[derive(Debug, Clone)]
pub enum Counted {
    All,
    /// By uid.
    Only(BTreeSet<String>),
    /// What the pods' own limits are compared with.
    Limits,
    /// By uid; of writable layers only what the runtime reports.
    AllButLayers(BTreeSet<String>),
}

impl Counted {
    fn scope(&self, subject: &Subject) -> Scope {
        match self {
            Self::All => Scope::Everything,
            Self::Only(uids) if uids.contains(&subject.pod.uid) => Scope::Everything,
            Self::AllButLayers(uids) if uids.contains(&subject.pod.uid) => Scope::AllButLayers,
            Self::Only(_) | Self::AllButLayers(_) => Scope::Nothing,
            Self::Limits => match Limits::of(&subject.pod) {
                None => Scope::Nothing,
                Some(limits) if limits.of_storage() => Scope::Everything,
                Some(_) => Scope::Volumes,
            },
        }
    }
}

/// Gives up walks that no part continues.
pub fn tidy(shared: &Shared) {
    let all = shared.deps.subjects.pods();
    shared.measurer.retain(&all.iter().map(|one| one.pod.uid.as_str()).collect());
}

/// The pods of the node with their disk use, as far as it is known after counting for `time`.
pub async fn candidates(shared: &Arc<Shared>, counted: Counted, time: Duration) -> Vec<Candidate> {
    let subjects = shared.deps.subjects.pods();
    let layout = shared.deps.layout.clone();
    let none = RequiredStats::default();
    let read = read(shared, subjects, counted, time).await;
    read.into_iter()
        .filter_map(|(subject, used)| {
            let candidate = gather::candidates(&layout, &[subject], none).pop()?;
            Some(with_disk(candidate, used))
        })
        .collect()
}

/// The disk use of these pods, as far as it is known after counting for `time`.
pub async fn read(
    shared: &Arc<Shared>,
    subjects: Vec<Subject>,
    counted: Counted,
    time: Duration,
) -> Vec<(Subject, PodUse)> {
    let needs_layers = matches!(counted, Counted::AllButLayers(_))
        || subjects.iter().any(|subject| counted.scope(subject) == Scope::Everything);
    let runtime = match &shared.deps.runtime {
        Some(runtime) if needs_layers => writable_layers(&shared.layers, runtime).await,
        _ => None,
    };
    let own = shared.clone();
    let found = blocking::DISK_USE.run(move || {
        tidy(&own);
        let sources = Sources { layout: &own.deps.layout, runtime: runtime.as_ref() };
        let used = own.measurer.pods(&sources, &subjects, |subject| counted.scope(subject), time);
        subjects.into_iter().zip(used).collect()
    });
    found.await.unwrap_or_default()
}

/// The first pods by name, and how many more there are.
pub fn names(pods: &[&Candidate]) -> String {
    let first = pods.iter().take(NAMED).map(|one| format!("{}/{}", one.pod.namespace, one.pod.name));
    let mut all: Vec<String> = first.collect();
    if pods.len() > NAMED {
        all.push(format!("{} more", pods.len() - NAMED));
    }
    all.join(", ")
}
