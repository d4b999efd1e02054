//! Probes of containers whose main process has died.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::NEEDS;
use super::fixture::ProbeFixture;
use super::manifest::probe;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pods::manifest::{merged, shell};
use crate::e2e::support::eventually;
use crate::fixture::NOTES;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("probe_of_a_dead_process", died).timeout(120).needs(NEEDS)];

/// Far below a period. Much longer on an emulated machine, for which there is no promise.
const AT_ONCE: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(10)];
const THRESHOLD: u32 = 3;
/// Failures that are allowed: one run may have been due at the moment of the death.
const AT_THAT_MOMENT: f64 = 1.0;

/// A container whose main process was killed, also by the OOM killer, is unready at once and not probed any
/// more: the agent learns of the death from the kernel, not from failing probes.
fn died(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, "")?;
    let [killed, eats] = [fixture.program.port()?, fixture.program.port()?];
    let probes = |port: u16| {
        let tcp = || probe(fixture.tcp(port), fixture.delayed(json!({ "failureThreshold": THRESHOLD })));
        json!({ "readinessProbe": tcp(), "livenessProbe": tcp() })
    };
    let arguments = |port: u16| ["--tcp".to_owned(), port.to_string()];
    let never = json!({ "restartPolicy": "Never" });
    let first = fixture.server("killed", "c", &arguments(killed), probes(killed));
    let first = fixture.pod("killed", json!({ "containers": [first] }));
    // The server runs next to process 1, which uses up the memory.
    let serve = fixture.program.command("eats-c", &arguments(eats)).join(" ");
    let script =
        format!("{serve} & while ! test -e {NOTES}/hungry; do sleep 0.05; done; exec tail /dev/zero");
    let more = merged(
        probes(eats),
        json!({
            "volumeMounts": fixture.program.mounts(),
            "resources": { "limits": { "memory": "128Mi" } },
        }),
    );
    let second = fixture.pod("eats", merged(never, json!({ "containers": [shell("c", &script, more)] })));
    fixture.pods.put([first, second])?;

    let before = fixture.pods.wait_up("killed")?;
    let pids = processes(&fixture, &before)?;
    ensure!(!pids.is_empty(), "no process in the container's cgroup");
    let begun = Instant::now();
    for pid in pids {
        kill(Pid::from_raw(pid), Signal::SIGKILL)
            .map_err(|error| Failure::Unexpected(format!("kill {pid}: {error}")))?;
    }
    check_unready(&fixture, "killed", begun)?;
    let after = fixture.pods.wait_until("killed", "restarted", 20, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 1)
    })?;
    let last = after.container("c")?.last_terminated().cloned().unwrap_or_default();
    ensure_eq!((&last["exitCode"], &last["reason"]), (&json!(137), &json!("Error")), "how it ended");
    not_probed(&fixture, "killed")?;

    fixture.pods.wait_up("eats")?;
    let begun = Instant::now();
    fixture.program.answer("hungry", "-")?;
    // It takes a while to use up the memory.
    let ended = fixture.pods.wait_phase("eats", "Failed")?;
    let took = begun.elapsed();
    let ended = ended.container("c")?.terminated().cloned().unwrap_or_default();
    ensure_eq!(ended["reason"], "OOMKilled", "reason of its end after {took:?}");
    not_probed(&fixture, "eats")?;
    fixture.pods.finish()
}

/// The processes of container `c`, from its cgroup in any hierarchy.
fn processes(fixture: &ProbeFixture<'_>, pod: &ListedPod) -> Result<Vec<i32>, Failure> {
    let cgroup = fixture.pods.container_cgroup(pod, "c")?;
    let hierarchies = fixture.context().layout.hierarchies().iter();
    let files = hierarchies.map(|h| h.mount.join(cgroup.trim_start_matches('/')).join("cgroup.procs"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    let mut pids: Vec<i32> = texts
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// Checks that a dead container is shown as not ready at once.
fn check_unready(fixture: &ProbeFixture<'_>, pod: &str, begun: Instant) -> Result<(), Failure> {
    // Without a pause between requests: the container may run again soon.
    let bound = fixture.context().scaled(AT_ONCE);
    let took = eventually_fast(bound * 2, || {
        let seen = fixture.pods.pod(pod)?;
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

/// As [`eventually`], without a pause between the calls.
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

/// Checks that the journal has no change of a probe's result, and that no run after the death was counted.
fn not_probed(fixture: &ProbeFixture<'_>, pod: &str) -> Result<(), Failure> {
    let events = fixture.events_of(pod, "c", &["Unhealthy", "Killing"])?;
    let changed: Vec<_> = events
        .iter()
        .filter(|event| event.reason == "Killing" || !event.message.contains(&format!("(1 of {THRESHOLD})")))
        .collect();
    ensure!(changed.is_empty(), "a dead container was still probed: {changed:?}");
    for kind in ["Readiness", "Liveness"] {
        let failed = fixture.runs(pod, "c", kind, "failed")?;
        ensure!(failed <= AT_THAT_MOMENT, "{kind} of {pod} failed {failed} times");
    }
    Ok(())
}
