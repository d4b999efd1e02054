//! What would happen now with another threshold: everything is read, nothing is changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::decision_log::DecisionLog;
use super::figures::{self, Counted, names};
use super::shared::Shared;
use crate::assess::{ThresholdState, assess};
use crate::choose::{Choice, choose};
use crate::gather;
use crate::gather::Node;
use crate::rank;
use crate::rank::Reclaim;
use crate::{DiskLayout, NodeCondition, message};
use nodewarden_config::{EvictionSettings, EvictionTexts, EvictionThreshold, Signal, parse_thresholds};
use nodewarden_model::Decision;
use nodewarden_tasks::blocking;

/// Files are counted for at most this time. What is not finished then is shown as not complete; the next call
/// continues.
const TIME: Duration = Duration::from_secs(3);

/// Assesses and ranks with `threshold` as the hard threshold of `signal`, and returns the decision that would
/// follow.
///
/// # Errors
/// The signal or the threshold cannot be parsed, or the node cannot be read. Text for users.
pub async fn simulate(shared: &Arc<Shared>, signal: &str, threshold: &str) -> Result<Decision, String> {
    let threshold = parse(signal, threshold)?;
    let signal = threshold.signal;
    let woken = Instant::now();
    let mut log = DecisionLog::new("eviction", "simulate", woken, true);
    let on_disk = NodeCondition::of(signal) == NodeCondition::DiskPressure;
    let (observations, layout, systems) = if on_disk {
        let collector = shared.deps.collector.as_ref();
        let collector = collector.ok_or("nodewarden.runtimeEndpoint is not set: disks are not watched")?;
        let systems = collector.file_systems().await.map_err(|error| error.to_string())?;
        let (observations, layout) = gather::disks(&systems);
        (observations, layout, Some(systems))
    } else {
        let own = shared.clone();
        let read = blocking::FILE_SYSTEMS
            .run(move || Node::new(&own.deps.layout, &own.deps.kubepods).map(|mut node| node.read()));
        let read = read.await.map_err(|_| "a fault in the agent")?.map_err(|error| error.to_string())?;
        (read, DiskLayout::One, None)
    };
    log.record_step("node read", woken, "");
    if !observations.contains_key(&signal) {
        return Err(format!("{} cannot be read here", signal.name()));
    }
    // The other thresholds as configured, for comparison.
    let others = shared.deps.settings.thresholds.iter().filter(|other| other.signal != signal).cloned();
    let thresholds = std::iter::once(threshold).chain(others).collect();
    let settings = EvictionSettings { thresholds, ..shared.deps.settings.clone() };
    let assessment = assess(&settings, &observations, &ThresholdState::default(), Timestamp::now());
    log.record_signals(&assessment.seen);
    let Some(due) = assessment.due.iter().find(|due| due.threshold.signal == signal) else {
        return Ok(log.finish("nothing: there is more than the threshold"));
    };
    let began = Instant::now();
    let candidates = if on_disk {
        let mut candidates = figures::candidates(shared, Counted::All, TIME).await;
        if let Some(systems) = &systems {
            gather::leave_out_layers_elsewhere(&mut candidates, systems, signal);
        }
        candidates
    } else {
        let own = shared.clone();
        let read = blocking::CGROUPS.run(move || {
            let subjects = own.deps.subjects.pods();
            gather::candidates(&own.deps.layout, &subjects, rank::required_stats(signal))
        });
        read.await.map_err(|_| "a fault in the agent")?
    };
    log.record_step("pods read", began, format!("{} pods", candidates.len()));
    let ranking = rank::rank(signal, layout, &settings, &candidates);
    let used_of = systems.as_ref().and_then(|systems| gather::used_of(systems, signal));
    let choice = choose(signal, layout, &settings, &candidates, used_of);
    let chosen = if let Choice::Evict(at) = choice { Some(at) } else { None };
    log.record_candidates(rank::ranking_table(signal, layout, &ranking, &candidates, chosen));
    let first: Vec<&str> = rank::reclaims(signal, layout).iter().map(words).collect();
    let first =
        if first.is_empty() { String::new() } else { format!("{} first; then ", first.join(" and ")) };
    let outcome = match chosen.and_then(|at| candidates.get(at)) {
        Some(candidate) => format!(
            "{first}{}/{} would be evicted: {}",
            candidate.pod.namespace,
            candidate.pod.name,
            message::message(due, candidate)
        ),
        None if let Choice::Measure(open) = &choice => {
            let open: Vec<_> = open.iter().filter_map(|at| candidates.get(*at)).collect();
            format!("{first}it is not certain yet which pod: not counted completely: {}", names(&open))
        }
        None => format!("{first}no pod may be evicted"),
    };
    Ok(log.finish(outcome))
}

fn words(reclaim: &Reclaim) -> &'static str {
    match reclaim {
        Reclaim::DeadContainers => "dead containers would be removed",
        Reclaim::UnusedImages => "unused images would be removed",
    }
}

/// Parses a hard threshold as the configuration does.
fn parse(signal: &str, threshold: &str) -> Result<EvictionThreshold, String> {
    let mut texts = EvictionTexts::default();
    texts.hard.insert(signal.to_owned(), threshold.to_owned());
    let parsed = parse_thresholds(&texts, false);
    let parsed =
        parsed.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let found = parsed.into_iter().find(|one| Some(one.signal) == Signal::parse(signal));
    found
        .map(|one| EvictionThreshold { grace: Duration::ZERO, ..one })
        .ok_or_else(|| format!("{signal}={threshold} turns the threshold off"))
}
