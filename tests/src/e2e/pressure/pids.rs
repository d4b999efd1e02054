//! Eviction when process ids run out.

use std::fs;

use serde_json::json;

use super::NEEDS;
use super::fixture::{NO_DISKS, PressureFixture, QUICK_RESTART, requests};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("eviction_of_pod_with_most_processes", most).timeout(150).needs(NEEDS)];

/// Pids from the available number down to the threshold.
const ABOVE: u64 = 300;
/// Processes that the evicted pod starts.
const TAKEN: u64 = 700;

/// How many processes may still start: as in kubelet `getPidStats` the smaller of the two limits, less the
/// number running by loadavg.
fn available() -> Result<u64, Failure> {
    let number = |path: &str, nth: usize| -> Result<u64, Failure> {
        let text = fs::read_to_string(path).map_err(Failure::file(path))?;
        let word = text.split_whitespace().nth(nth).unwrap_or_default();
        let last = word.rsplit('/').next().unwrap_or_default();
        last.parse().map_err(|_| Failure::Unexpected(format!("{path}: {text:?}")))
    };
    let most = number("/proc/sys/kernel/pid_max", 0)?.min(number("/proc/sys/kernel/threads-max", 0)?);
    Ok(most.saturating_sub(number("/proc/loadavg", 3)?))
}

/// When pids run low the pod with most processes is evicted, not one with more memory, and starts again
/// afterwards.
fn most(context: &Context) -> Result<(), Failure> {
    let threshold = available()?.saturating_sub(ABOVE);
    if threshold < TAKEN {
        return Err(Failure::Skip(format!("only {threshold} more processes can be started")));
    }
    let kubelet = format!(
        "evictionHard: {{memory.available: 1Mi, pid.available: '{threshold}', {NO_DISKS}}}\n\
         evictionPressureTransitionPeriod: 2s\n"
    );
    let mut fixture = PressureFixture::new(context, &kubelet, QUICK_RESTART)?;
    let none = || json!({});
    let pods = [
        fixture.greedy("few", json!({}), &[], none()),
        fixture.greedy("large", requests(8), &[], none()),
        fixture.greedy("many", requests(64), &[], none()),
    ];
    let others = fixture.put_and_wait_up(pods)?;
    // Memory does not matter for this signal.
    fixture.hold("large", 60)?;
    fixture.program.fork("few", 5)?;
    fixture.program.fork("many", TAKEN)?;
    let seen = fixture.wait_evicted("many")?;
    fixture.program.fork("many", 0)?;
    let message = seen.text("/status/message").to_owned();
    let begin = format!("The node was low on resource: pids. Threshold quantity: {threshold}, available: ");
    ensure!(message.starts_with(&begin), "{message:?} does not begin with {begin:?}");
    let decision = fixture.eviction_of("many")?;
    let order: Vec<_> = decision.candidates.iter().map(|one| one.name.as_str()).collect();
    ensure_eq!(order, ["many", "few", "large"], "order of the candidates");
    // Other programs of the machine may have used some pids.
    ensure!(decision.candidates[0].usage > ABOVE / 3, "{:?}", decision.candidates[0]);
    fixture.check_unchanged(&others[..2])?;
    fixture.pods.wait_up("many")?;
    ensure!(!fixture.has_condition("PIDPressure")?, "it runs again while the node is under pressure");
    ensure_eq!(fixture.chosen("eviction")?, ["many"], "chosen pods");
    fixture.check_unchanged(&others[..2])?;
    fixture.pods.finish()
}
