//! A container whose main process has died, or was killed for memory, is not probed into its failure threshold first: the
//! kernel has said it.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::NEEDS;
use super::manifest::probe;
use super::site::Site;
use crate::e2e::pods::manifest::{merged, shell};
use crate::e2e::pods::seen::Seen;
use crate::e2e::support::eventually;
use crate::fixture::NOTES;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("probe_of_a_dead_process", died).timeout(120).needs(NEEDS)];

/// Far below a period. Emulated machines are not promised anything.
const AT_ONCE: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(10)];
const THRESHOLD: u32 = 3;
/// A run may have been due at the very moment of the death.
const AT_THAT_MOMENT: f64 = 1.0;

fn died(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let [killed, eats] = [site.program.port()?, site.program.port()?];
    let probes = |port: u16| {
        let tcp = || probe(site.tcp(port), site.delayed(json!({ "failureThreshold": THRESHOLD })));
        json!({ "readinessProbe": tcp(), "livenessProbe": tcp() })
    };
    let arguments = |port: u16| ["--tcp".to_owned(), port.to_string()];
    let never = json!({ "restartPolicy": "Never" });
    let first = site.server("killed", "c", &arguments(killed), probes(killed));
    let first = site.pod("killed", json!({ "containers": [first] }));
    // The server beside process 1, which eats.
    let serve = site.program.command("eats-c", &arguments(eats)).join(" ");
    let script =
        format!("{serve} & while ! test -e {NOTES}/hungry; do sleep 0.05; done; exec tail /dev/zero");
    let more = merged(
        probes(eats),
        json!({
            "volumeMounts": site.program.mounts(),
            "resources": { "limits": { "memory": "128Mi" } },
        }),
    );
    let second = site.pod("eats", merged(never, json!({ "containers": [shell("c", &script, more)] })));
    site.stage.put([first, second])?;

    let before = site.stage.up("killed")?;
    let pids = processes(&site, &before)?;
    ensure!(!pids.is_empty(), "no process in the container's cgroup");
    let begun = Instant::now();
    for pid in pids {
        kill(Pid::from_raw(pid), Signal::SIGKILL)
            .map_err(|error| Failure::Unexpected(format!("kill {pid}: {error}")))?;
    }
    unready(&site, "killed", begun)?;
    let after = site.stage.until("killed", "begun again", 20, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 1)
    })?;
    let last = after.container("c")?.last().cloned().unwrap_or_default();
    ensure_eq!((&last["exitCode"], &last["reason"]), (&json!(137), &json!("Error")), "how it ended");
    not_probed(&site, "killed")?;

    site.stage.up("eats")?;
    let begun = Instant::now();
    site.program.answer("hungry", "-")?;
    // Eating takes its time, and then it is gone at once.
    let ended = site.stage.phase("eats", "Failed")?;
    let took = begun.elapsed();
    let ended = ended.container("c")?.ended().cloned().unwrap_or_default();
    ensure_eq!(ended["reason"], "OOMKilled", "how it ended after {took:?}");
    not_probed(&site, "eats")?;
    site.stage.finish()
}

/// The processes of the container, by its cgroup in any hierarchy.
fn processes(site: &Site<'_>, pod: &Seen) -> Result<Vec<i32>, Failure> {
    let cgroup = site.stage.container_cgroup(pod, "c")?;
    let hierarchies = site.context().layout.hierarchies().iter();
    let files = hierarchies.map(|h| h.mount.join(cgroup.trim_start_matches('/')).join("cgroup.procs"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    let mut pids: Vec<i32> = texts
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// Nobody is sent to a dead container.
fn unready(site: &Site<'_>, pod: &str, begun: Instant) -> Result<(), Failure> {
    // Asked as fast as it answers: it may be up again soon.
    let bound = site.context().scaled(AT_ONCE);
    let took = eventually_fast(bound * 2, || {
        let seen = site.stage.pod(pod)?;
        let c = seen
            .as_ref()
            .and_then(|pod| pod.container("c").ok())
            .map(|c| (c.0["ready"] == true, c.restarts()));
        Ok(c.is_none_or(|(ready, restarts)| !ready || restarts > 0).then(|| begun.elapsed()))
    })?;
    println!("{REPORTED}unready {:.1} ms after its main process was killed", took.as_secs_f64() * 1e3);
    ensure!(took < bound, "it was ready for {took:?} after its main process was killed");
    Ok(())
}

fn eventually_fast<T>(
    limit: Duration,
    mut ask: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if let Some(found) = ask()? {
            return Ok(found);
        }
    }
    eventually(Duration::ZERO, "a dead container stays ready", ask)
}

/// The journal has no change of a probe's result, and the counts no runs beyond that moment.
fn not_probed(site: &Site<'_>, pod: &str) -> Result<(), Failure> {
    let told = site.told_of(pod, "c", &["Unhealthy", "Killing"])?;
    let changed: Vec<_> = told
        .iter()
        .filter(|told| told.reason == "Killing" || !told.message.contains(&format!("(1 of {THRESHOLD})")))
        .collect();
    ensure!(changed.is_empty(), "a dead container was probed on: {changed:?}");
    for kind in ["Readiness", "Liveness"] {
        let failed = site.runs(pod, "c", kind, "failed")?;
        ensure!(failed <= AT_THAT_MOMENT, "{kind} of {pod} failed {failed} times");
    }
    Ok(())
}
