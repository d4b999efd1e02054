//! Probes as shown by `nodewarden pods describe`, `/pods` and the kubelet's metrics.

use std::time::Duration;

use super::fixture::ProbeFixture;
use crate::fixture::check_metrics;
use crate::harness::{Failure, tool};
use crate::{ensure, ensure_eq};

/// Checks what is shown of a pod with a container `good`, which is ready, and `bad`, whose readiness probe
/// fails.
pub fn check(fixture: &ProbeFixture<'_>, pod: &str, good: &str, bad: &str) -> Result<(), Failure> {
    let seen = fixture.pods.pod(pod)?;
    let seen = seen.ok_or_else(|| Failure::Unexpected(format!("no pod {pod}")))?;
    ensure_eq!(seen.container(good)?.0["started"], true, "started of {good}, which has no startup probe");
    let conditions = seen.0["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = |name: &str| {
        let found = conditions.iter().find(|condition| condition["type"] == name);
        found.map(|found| (found["status"].clone(), found["reason"].as_str().unwrap_or_default().to_owned()))
    };
    for name in ["Ready", "ContainersReady"] {
        let expected = Some(("False".into(), "ContainersNotReady".to_owned()));
        ensure_eq!(condition(name), expected, "condition {name} of a pod with {bad}");
    }
    let failed = fixture.runs(pod, bad, "Readiness", "failed")?;
    ensure!(failed >= 1.0, "{bad} has {failed} failed runs");
    ensure_eq!(fixture.runs(pod, bad, "Readiness", "successful")?, 0.0, "successful runs of {bad}");
    let succeeded = fixture.runs(pod, good, "Readiness", "successful")?;
    std::thread::sleep(Duration::from_millis(2500));
    let later = fixture.runs(pod, good, "Readiness", "successful")?;
    ensure!(later > succeeded, "{good} has {succeeded} successful runs, and {later} after two periods");

    let samples = fixture.samples()?;
    for (family, label) in [
        ("prober_probe_duration_seconds_bucket", "probe_type"),
        ("nodewarden_probe_start_delay_seconds_bucket", "handler"),
        ("nodewarden_probes_running", "handler"),
        ("nodewarden_probes_waiting", "handler"),
    ] {
        let found = samples.iter().any(|sample| sample.name == family && sample.labels.contains_key(label));
        ensure!(found, "no {family} with a label {label}");
    }
    if tool("promtool").is_some() {
        check_metrics(fixture.context(), &fixture.pods.agent()?.get("/metrics")?.body)?;
    }
    described(fixture, pod)
}

/// Checks the output of `nodewarden pods describe`.
fn described(fixture: &ProbeFixture<'_>, pod: &str) -> Result<(), Failure> {
    let output = fixture.pods.command(&["pods", "describe", pod])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "pods describe: {}", String::from_utf8_lossy(&output.stderr));
    for words in ["http-get", "tcp-socket", "exec", "statuscode: 503", "period=1s", "#failure=1"] {
        ensure!(text.contains(words), "{words:?} is not in\n{text}");
    }
    ensure!(text.to_lowercase().contains("next"), "the time of the next run is not in\n{text}");
    Ok(())
}
