//! Processes run out: who has the most goes.

use std::fs;

use serde_json::json;

use super::NEEDS;
use super::site::{NO_DISKS, QUICK, Site, requests};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("eviction_of_who_has_most_processes", most).timeout(150).needs(NEEDS)];

/// From what is free to the threshold, and what the greedy one takes.
const ABOVE: u64 = 300;
const TAKEN: u64 = 700;

/// How many may still begin: kubelet `getPidStats` takes the smaller of the two limits, less what runs by loadavg.
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

fn most(context: &Context) -> Result<(), Failure> {
    let threshold = available()?.saturating_sub(ABOVE);
    if threshold < TAKEN {
        return Err(Failure::Skip(format!("only {threshold} more processes can be had")));
    }
    let kubelet = format!(
        "evictionHard: {{memory.available: 1Mi, pid.available: '{threshold}', {NO_DISKS}}}\n\
         evictionPressureTransitionPeriod: 2s\n"
    );
    let mut site = Site::new(context, &kubelet, QUICK)?;
    let none = || json!({});
    let pods = [
        site.greedy("few", json!({}), &[], none()),
        site.greedy("large", requests(8), &[], none()),
        site.greedy("many", requests(64), &[], none()),
    ];
    let others = site.up(pods)?;
    // Memory does not matter here.
    site.hold("large", 60)?;
    site.program.fork("few", 5)?;
    site.program.fork("many", TAKEN)?;
    let seen = site.evicted("many")?;
    site.program.fork("many", 0)?;
    let message = seen.text("/status/message").to_owned();
    let begin = format!("The node was low on resource: pids. Threshold quantity: {threshold}, available: ");
    ensure!(message.starts_with(&begin), "{message:?} does not begin with {begin:?}");
    let decision = site.eviction_of("many")?;
    let order: Vec<_> = decision.candidates.iter().map(|one| one.name.as_str()).collect();
    ensure_eq!(order, ["many", "few", "large"], "the order");
    // Others of the machine may have taken some of what there was.
    ensure!(decision.candidates[0].usage > ABOVE / 3, "{:?}", decision.candidates[0]);
    site.unharmed(&others[..2])?;
    site.stage.up("many")?;
    ensure!(!site.is_pressed("PIDPressure")?, "it is back while the node is under pressure");
    ensure_eq!(site.chosen("eviction")?, ["many"], "who was chosen");
    site.unharmed(&others[..2])?;
    site.stage.finish()
}
