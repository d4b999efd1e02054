//! What is reported of thresholds that are met.

use std::collections::BTreeMap;

use nodewarden_config::{EvictionTexts, parse_thresholds};
use nodewarden_storage::journal::{Journal, Limits};
use tokio::sync::watch;

use super::*;
use crate::engine::fixture::v2_layout;
use crate::engine::{Evict, KubeletPods, Subjects};
use crate::gather::Subject;
use crate::history::History;
use crate::{Observed, Pressure};

struct NoPods;

impl Subjects for NoPods {
    fn pods(&self) -> Vec<Subject> {
        Vec::new()
    }

    fn leaving(&self) -> Vec<String> {
        Vec::new()
    }
}

struct AKubelet;

impl KubeletPods for AKubelet {
    fn spares(&self, _uid: &str, _hard: bool) -> Option<&'static str> {
        None
    }

    fn was_refused(&self, _uid: &str) -> bool {
        false
    }
}

/// What is in the journal after these readings of what is due.
async fn events(acts: bool, beside: Option<Box<dyn KubeletPods>>, readings: &[&[&str]]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), Limits::default()).unwrap();
    let deps = Deps {
        settings: EvictionSettings::default(),
        layout: v2_layout(),
        kubepods: "/kubepods".to_owned(),
        subjects: Box::new(NoPods),
        collector: None,
        runtime: None,
        evict: acts.then(|| -> Evict { Box::new(|_, _| {}) }),
        beside,
        history: History::open(dir.path()).0,
        journal: journal.clone(),
        pressure: watch::channel(Pressure::default()).0,
    };
    let shared = Shared::new(deps, RestoredState::open(dir.path()));
    for signals in readings {
        let due: Vec<Due> = signals.iter().map(|signal| due(signal)).collect();
        shared.report_crossings(&due);
    }
    let mut written = journal.subscribe(Some(Timestamp::UNIX_EPOCH)).backlog_only();
    let mut found = Vec::new();
    while let Some(event) = written.next().await {
        if let Detail::Agent { reason, message } = &event.detail {
            found.push(format!("{reason}: {message}"));
        }
    }
    found
}

fn due(signal: &str) -> Due {
    let hard = BTreeMap::from([(signal.to_owned(), "10%".to_owned())]);
    let texts = EvictionTexts { hard, ..EvictionTexts::default() };
    let threshold = parse_thresholds(&texts, false).unwrap().remove(0);
    let observed = Observed { available: 1, capacity: 100 };
    Due { threshold, observed, limit: 10, reclaim: 0, passed_since: Timestamp::UNIX_EPOCH }
}

#[tokio::test]
async fn a_threshold_of_memory_or_pids_is_reported_once_in_a_kubelets_words() {
    let readings: [&[&str]; 5] = [
        &[],
        &["memory.available"],
        &["memory.available"],
        &["memory.available", "pid.available"],
        &["pid.available"],
    ];
    let expected = [
        "EvictionThresholdMet: Attempting to reclaim memory",
        "EvictionThresholdMet: Attempting to reclaim pids",
    ];
    assert_eq!(events(true, None, &readings).await, expected);
    let nothing: [&str; 0] = [];
    assert_eq!(events(false, None, &readings).await, nothing, "in mode observe");
    assert_eq!(events(true, Some(Box::new(AKubelet)), &readings).await, nothing, "beside a kubelet");
}
