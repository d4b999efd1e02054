//! What is shown of probes: `nodewarden pods describe`, `/pods`, and the kubelet's metrics.

use std::time::Duration;

use super::site::Site;
use crate::fixture::check_metrics;
use crate::harness::{Failure, tool};
use crate::{ensure, ensure_eq};

/// Of a pod with a container that is ready, and one whose readiness probe fails.
pub fn check(site: &Site<'_>, pod: &str, good: &str, bad: &str) -> Result<(), Failure> {
    let seen = site.stage.pod(pod)?;
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
    let failed = site.runs(pod, bad, "Readiness", "failed")?;
    ensure!(failed >= 1.0, "{bad} has {failed} failed runs");
    ensure_eq!(site.runs(pod, bad, "Readiness", "successful")?, 0.0, "successful runs of {bad}");
    let succeeded = site.runs(pod, good, "Readiness", "successful")?;
    std::thread::sleep(Duration::from_millis(2500));
    let later = site.runs(pod, good, "Readiness", "successful")?;
    ensure!(later > succeeded, "{good} has {succeeded} successful runs, and {later} after two periods");

    let samples = site.samples()?;
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
        check_metrics(site.context(), &site.stage.agent()?.get("/metrics")?.body)?;
    }
    described(site, pod)
}

/// The words that a person looks for.
fn described(site: &Site<'_>, pod: &str) -> Result<(), Failure> {
    let output = site.stage.command(&["pods", "describe", pod])?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "pods describe: {}", String::from_utf8_lossy(&output.stderr));
    for words in ["http-get", "tcp-socket", "exec", "statuscode: 503", "period=1s", "#failure=1"] {
        ensure!(text.contains(words), "{words:?} is not in\n{text}");
    }
    ensure!(text.to_lowercase().contains("next"), "when a probe is due is not in\n{text}");
    Ok(())
}
