//! Pods that come and go, ten a second, beside those that stay.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::bench::Run;
use crate::e2e::stand_in::fixture::{CONTAINERS, Scale};
use crate::ensure;
use crate::harness::Failure;

/// Time between two that come.
const EACH: Duration = Duration::from_millis(100);
/// How many come, on a full and on a quick run.
const COUNT: [usize; 2] = [300, 100];
/// One goes when so many have come after it: five seconds later.
const ALIVE: usize = 50;
/// Limit in seconds until all are gone.
const LIMIT: u64 = 300;

/// What it cost.
pub struct Churn {
    /// The agent's CPU time for one pod, from its manifest to its end.
    pub cpu_ms: f64,
    /// From the last manifest's removal until nothing was left of all that came.
    pub settled_s: f64,
}

/// Lets pods come and go while `pods` others stay.
///
/// # Errors
/// A pod that came did not run, or one stays.
pub fn churn(run: &Run<'_>, scale: &Scale<'_>, pods: usize) -> Result<Churn, Failure> {
    let count = COUNT[usize::from(run.quick)];
    let name = |number: usize| format!("comes-{number:03}");
    let (started, cpu) = (scale.runtime().notes()?.started, scale.agent().cpu_time()?);
    let begun = Instant::now();
    for number in 0..count + ALIVE {
        let due = begun + EACH * u32::try_from(number).unwrap_or(u32::MAX);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if number < count {
            scale.put(&name(number), &json!({ "memory": "16Mi" }))?;
        }
        if let Some(number) = number.checked_sub(ALIVE) {
            scale.remove(&name(number))?;
        }
    }
    let last = Instant::now();
    let limit = run.context.patiently(LIMIT);
    let settled = scale
        .runtime()
        .wait_until(limit, "all that came are gone", |notes| notes.sandboxes == pods as u64)?;
    let used = scale.agent().cpu_time()? - cpu;
    let ran = scale.runtime().notes()?.started - started;
    ensure!(ran >= (count * CONTAINERS) as u64, "{ran} containers of {count} pods were started");
    Ok(Churn {
        cpu_ms: used.as_secs_f64() * 1e3 / count as f64,
        settled_s: settled.duration_since(last).as_secs_f64(),
    })
}
