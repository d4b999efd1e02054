//! What would happen now with another threshold: everything is read anew, nothing is done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::shared::Shared;
use super::story::Story;
use crate::assess::{Standing, assess};
use crate::gather;
use crate::gather::Node;
use crate::rank;
use crate::rank::Reclaim;
use crate::{DiskLayout, NodeCondition, message};
use nodewarden_config::{EvictionSettings, EvictionTexts, EvictionThreshold, Signal, parse_thresholds};
use nodewarden_model::Decision;

/// See the module.
///
/// # Errors
/// The signal or the threshold is none, or the node cannot be read.
pub async fn simulate(shared: &Arc<Shared>, signal: &str, threshold: &str) -> Result<Decision, String> {
    let threshold = parse(signal, threshold)?;
    let signal = threshold.signal;
    let woken = Instant::now();
    let mut story = Story::new("eviction", "simulate", woken, true);
    let (observations, layout) = if NodeCondition::of(signal) == NodeCondition::DiskPressure {
        let collector = shared.needs.collector.as_ref();
        let collector = collector.ok_or("nodewarden.runtimeEndpoint is not set: disks are not watched")?;
        let systems = collector.file_systems().await.map_err(|error| error.to_string())?;
        gather::disks(&systems)
    } else {
        let own = shared.clone();
        let read = tokio::task::spawn_blocking(move || {
            Node::new(&own.needs.layout, &own.needs.kubepods).map(|mut node| node.read())
        });
        let read = read.await.map_err(|_| "a fault in the agent")?.map_err(|error| error.to_string())?;
        (read, DiskLayout::One)
    };
    story.step("node read", woken, "");
    if !observations.contains_key(&signal) {
        return Err(format!("{} cannot be read here", signal.name()));
    }
    // The others as they are set, for comparison.
    let others = shared.needs.settings.thresholds.iter().filter(|other| other.signal != signal).cloned();
    let thresholds = std::iter::once(threshold).chain(others).collect();
    let settings = EvictionSettings { thresholds, ..shared.needs.settings.clone() };
    let assessment = assess(&settings, &observations, &Standing::default(), Timestamp::now());
    story.saw(&assessment.seen);
    let Some(due) = assessment.due.iter().find(|due| due.threshold.signal == signal) else {
        return Ok(story.end("nothing: there is more than the threshold"));
    };
    let began = Instant::now();
    let written = match &shared.needs.runtime {
        Some(runtime) if rank::needs(signal).disk => gather::written(runtime).await,
        _ => None,
    };
    let own = shared.clone();
    let read = tokio::task::spawn_blocking(move || {
        let subjects = own.needs.subjects.pods();
        gather::candidates(&own.needs.layout, &subjects, rank::needs(signal), written.as_ref())
    });
    let candidates = read.await.map_err(|_| "a fault in the agent")?;
    story.step("pods read", began, format!("{} pods", candidates.len()));
    let ranking = rank::rank(signal, layout, &settings, &candidates);
    let uses = |at: &&usize| candidates.get(**at).is_some_and(|one| rank::figures(signal, layout, one).0 > 0);
    let chosen = ranking.go.iter().find(uses).copied();
    story.ranked(rank::seen(signal, layout, &ranking, &candidates, chosen));
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
        None => format!("{first}no pod may be evicted"),
    };
    Ok(story.end(outcome))
}

fn words(reclaim: &Reclaim) -> &'static str {
    match reclaim {
        Reclaim::DeadContainers => "dead containers would be removed",
        Reclaim::UnusedImages => "unused images would be removed",
    }
}

/// A hard threshold, as the configuration would have it.
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
