//! Tests of what `deploy/monitoring` has: dashboards for Grafana, rules for Prometheus. Every name in their
//! queries is one that the agent exports, and every query leads to values in a real Prometheus.

mod queries;
mod server;
mod words;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use nodewarden_model::Topic;

use crate::exposition::to_vec;
use crate::family::{Desc, Kind};
use crate::promtool::promtool;
use crate::{Cadvisor, Own, Resource, cadvisor, fixture, recorder, resource};
use queries::Query;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/monitoring"))
}

/// Every family that the agent exports.
fn families() -> Vec<&'static Desc> {
    let topics = Topic::ALL.into_iter().flat_map(|topic| topic.spec().families);
    let own = Own::ALL.iter().map(|family| family.desc()).chain(topics.map(|family| &family.desc));
    let others = Cadvisor::ALL.iter().map(|family| family.desc());
    own.chain(others).chain(Resource::ALL.iter().map(|family| family.desc())).collect()
}

/// The names of series, and the label keys that each can have.
fn series() -> Vec<(String, BTreeSet<&'static str>)> {
    let mut all = Vec::new();
    for desc in families() {
        let mut keys: BTreeSet<_> = desc.labels.iter().copied().collect();
        match desc.kind {
            Kind::Histogram => {
                for end in ["_sum", "_count"] {
                    all.push((format!("{}{end}", desc.name), keys.clone()));
                }
                keys.insert("le");
                all.push((format!("{}_bucket", desc.name), keys));
            }
            Kind::Counter | Kind::Gauge => all.push((desc.name.to_owned(), keys)),
        }
    }
    all.push(("up".to_owned(), BTreeSet::new()));
    all
}

#[test]
fn queries_name_only_what_the_agent_exports() {
    let series = series();
    let queries = queries::all(&folder());
    assert!(queries.len() > 100, "{} queries", queries.len());
    let problems: Vec<_> = queries
        .iter()
        .flat_map(|query| {
            let found = words::problems(&query.text, &series).into_iter();
            found.map(|problem| format!("{}: {problem}\n    {}", query.place, query.text))
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let alerts = queries::alerts(&folder());
    let document = std::fs::read_to_string(folder().join("../../docs/RUNBOOKS.md")).unwrap();
    let sections: Vec<_> = document.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let names: Vec<_> = alerts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(sections, names);
    for (name, link) in &alerts {
        assert!(link.ends_with(&format!("RUNBOOKS.md#{}", name.to_lowercase())), "{link}");
    }
}

#[test]
fn promtool_accepts_the_rules_and_each_alert_fires_only_when_it_should() {
    let Some(tool) = promtool() else { return };
    let rules = folder().join("rules");
    for arguments in
        [&["check", "rules", "alerts.yaml", "recording.yaml"][..], &["test", "rules", "alerts.test.yaml"]]
    {
        let output = Command::new(&tool).args(arguments).current_dir(&rules).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "promtool {arguments:?}:\n{text}");
    }
    let tested = std::fs::read_to_string(rules.join("alerts.test.yaml")).unwrap();
    for (name, _) in queries::alerts(&folder()) {
        let count = tested.matches(&format!("alertname=\"{name}\"")).count();
        assert!(count >= 2, "{name} is tested for firing and for staying silent ({count})");
    }
}

/// A value for a label of a family that is counted through the facade: one that queries ask for.
fn value_of(label: &str) -> &'static [&'static str] {
    match label {
        "result" => &["written", "refused", "away"],
        "eviction_signal" => &["memory.available"],
        "resource" => &["cpu", "memory"],
        "level" => &["besteffort"],
        "namespace" => &["default"],
        _ => &["x"],
    }
}

/// Counts something in every family of the facade.
fn count_everything() {
    recorder::handle();
    for desc in Own::FACADE.iter().map(|family| family.desc()) {
        let choices = desc.labels.iter().map(|label| value_of(label).len()).max().unwrap_or(1);
        for choice in 0..choices {
            let labels: Vec<_> = desc
                .labels
                .iter()
                .map(|label| (*label, value_of(label)[choice % value_of(label).len()]))
                .collect();
            match desc.kind {
                Kind::Counter => ::metrics::counter!(desc.name, &labels).increment(1),
                Kind::Gauge => ::metrics::gauge!(desc.name, &labels).set(1.0),
                Kind::Histogram => ::metrics::histogram!(desc.name, &labels).record(0.01),
            }
        }
    }
}

/// The three documents as a scrape reads them, each line once, as one agent has them.
fn scrape() -> String {
    count_everything();
    let text = to_vec(|e| {
        fixture::write_own(e, 3);
        e.raw(&recorder::render());
        cadvisor::write(e, &fixture::snapshot(3));
        resource::write(e, &fixture::snapshot(3));
    });
    String::from_utf8(text).unwrap()
}

/// What keeps a query from having a value in this scrape, although all that it names is there.
fn is_empty_here(query: &Query) -> bool {
    // An alert compares with what should not be.
    query.is_alert
}

#[test]
fn every_query_has_values_in_a_real_prometheus() {
    let Some(tool) = promtool() else { return };
    let counters: BTreeSet<String> = families()
        .iter()
        .filter(|desc| desc.kind == Kind::Counter)
        .map(|desc| desc.name.to_owned())
        .collect();
    let server = server::Server::start(&tool, &scrape(), &counters);
    let mut problems = Vec::new();
    for query in queries::all(&folder()) {
        match server.count(&query.runnable()) {
            Err(error) => problems.push(format!("{}: {error}\n    {}", query.place, query.text)),
            Ok(0) if !is_empty_here(&query) => {
                problems.push(format!("{}: no value\n    {}", query.place, query.text));
            }
            Ok(_) => {}
        }
        for selector in words::selectors(&query.runnable()) {
            if server.count(&selector) == Ok(0) {
                problems.push(format!("{}: no series for {selector}", query.place));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
