//! One round: a pod starts, uses up memory, and is evicted.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use super::fixture::Beside;
use crate::bench::Run;
use crate::bench::eviction::judge;
use crate::bench::eviction::round::Process;
use crate::bench::eviction::sampler::Sampler;
use crate::e2e::cluster::beside::cgroup;
use crate::e2e::cluster::fixture::container_id;
use crate::e2e::pressure::fixture::decisions;
use crate::e2e::support::eventually;
use crate::harness::Failure;

/// Pause before the pod uses memory, so that its start is over.
const REST: Duration = Duration::from_millis(500);
/// Time-out from its first byte to its death, in seconds: a kubelet looks every ten.
const LIMIT_S: u64 = 120;
/// How long the node is watched after the death, for a restart or another eviction: a kubelet acts on figures
/// of up to ten seconds ago.
const AFTER: Duration = Duration::from_secs(3);

/// What one round gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Milliseconds from crossing the threshold to the agent's kill; `None` without an agent.
    pub kill: Option<f64>,
    /// From there to the death of the pod's process.
    pub dead: f64,
    /// From the death to the pod's deletion, or its status Failed and Evicted, at the API server; 0 if that
    /// came first.
    pub known: f64,
    /// How far available memory fell below the threshold, in megabytes.
    pub below: f64,
    /// Number of uninvolved pods that were evicted or restarted.
    pub others: usize,
    /// How often the pod's container was started again.
    pub restarts: u64,
}

/// Returns `None` if the readings do not show when the threshold was crossed and memory was back, because
/// something else on the machine used it.
///
/// # Errors
/// The pod does not start or is not evicted.
pub fn round(
    run: &Run<'_>,
    beside: &mut Beside<'_>,
    pace: u64,
    name: &str,
) -> Result<Option<Round>, Failure> {
    let context = run.context;
    let pod = beside.start_pod(name, 16)?;
    let process = Process::open(main_process(&pod)?)?;
    let bytes = beside.ready()?;
    std::thread::sleep(REST);

    let threshold = beside.threshold();
    let (sampler, begun) = (Sampler::start(context)?, Timestamp::now());
    beside.program.hold(name, bytes, pace)?;
    let dead = process.dead(context.patiently(LIMIT_S));
    let dead_at = Instant::now();
    // In any case it must not use more memory.
    beside.program.hold(name, 0, 0)?;
    let dead = dead?;
    let known = known(beside, name, dead_at + context.patiently(LIMIT_S))?;
    std::thread::sleep(AFTER);
    let samples = sampler.stop();

    let killed = beside.agent().map(|agent| {
        eventually(context.patiently(20), &format!("no decision that chose {name}"), || {
            let decisions = decisions(agent)?;
            Ok(judge::evictions(&decisions, begun, name).0.and_then(judge::killed))
        })
    });
    let killed = killed.transpose()?;
    let last = beside.cluster.pod(name)?;
    let (others, restarts) = (beside.changed()?, last.map_or(0, |pod| restarts(&pod)));
    beside.cluster.run(&["delete", "pod", name, "--ignore-not-found", "--wait=false"])?;
    beside.cluster.wait_gone(name, 60)?;
    let Some(seen) = judge::passed(&samples, threshold, killed.unwrap_or(dead), dead) else {
        let lowest = samples.iter().map(|sample| sample.available).min().unwrap_or(0);
        run.progress(&format!(
            "{name}: repeated: something else used memory: of {} readings the lowest is {lowest}, with a threshold \
             of {threshold} bytes",
            samples.len()
        ));
        return Ok(None);
    };
    let round = Round {
        kill: killed.map(|killed| judge::milliseconds(seen.crossing, killed)),
        dead: judge::milliseconds(seen.crossing, dead),
        known: known.saturating_duration_since(dead_at).as_secs_f64() * 1e3,
        below: threshold.saturating_sub(seen.lowest) as f64 / 1e6,
        others,
        restarts,
    };
    run.progress(&format!(
        "{name}: kill {} ms, dead {:.1} ms, known {:.0} ms after it, {:.0} MB below, {} others, {} restarts",
        round.kill.map_or("–".to_owned(), |kill| format!("{kill:.1}")),
        round.dead,
        round.known,
        round.below,
        round.others,
        round.restarts
    ));
    Ok(Some(round))
}

/// When the API server knew that the pod was evicted.
fn known(beside: &Beside<'_>, name: &str, deadline: Instant) -> Result<Instant, Failure> {
    while let Some(change) = beside.watch.next_until(deadline) {
        let (pod, status) = (&change.object["metadata"], &change.object["status"]);
        let is_over =
            change.kind == "DELETED" || (status["phase"] == "Failed" && status["reason"] == "Evicted");
        if pod["name"] == name && is_over {
            return Ok(change.at);
        }
    }
    Err(Failure::Unexpected(format!("the API server does not hear that {name} was evicted")))
}

fn restarts(pod: &Value) -> u64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0)
}

/// The pid of the container's only process, from its cgroup.
fn main_process(pod: &Value) -> Result<i32, Failure> {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let id = container_id(pod).as_str().unwrap_or_default();
    let folder = cgroup(uid)?.join(Path::new(id.trim_start_matches("containerd://")));
    let path = folder.join("cgroup.procs");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    match text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>()[..] {
        [pid] => Ok(pid),
        _ => Err(Failure::Unexpected(format!("{} has {text:?}", path.display()))),
    }
}
