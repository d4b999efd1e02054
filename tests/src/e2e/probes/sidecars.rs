//! Probes of sidecars.

use std::time::Duration;

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::ProbeFixture;
use super::manifest::{exec, probe};
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pods::manifest::{STAY, shell};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("probe_sidecars", sidecars).timeout(120).needs(NEEDS)];

/// Whether the pod's condition Ready is true.
fn is_ready(pod: &ListedPod) -> bool {
    let conditions = pod.0["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

/// The next init container waits for a sidecar's startup probe, the pod is ready only when the sidecar is,
/// and a failed liveness probe restarts only the sidecar.
fn sidecars(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, "")?;
    let port = fixture.program.port()?;
    let with = |path: &str, more: Value| probe(fixture.http(port, path), more);
    let side = fixture.http_server(
        "side",
        "sidecar",
        port,
        json!({
            "restartPolicy": "Always",
            "startupProbe": with("/file/side-up", json!({ "failureThreshold": 1000 })),
            "readinessProbe": with("/file/side-ready", json!({})),
            "livenessProbe": with("/file/side-live", json!({ "failureThreshold": 2 })),
        }),
    );
    let next = shell("next", "exit 0", json!({}));
    let c = shell("c", STAY, json!({ "readinessProbe": probe(exec("exit 0"), fixture.patient()) }));
    let pod = fixture.pod("side", json!({ "initContainers": [side, next], "containers": [c] }));
    fixture.program.answer("side-live", "/ok")?;
    fixture.pods.put([pod])?;

    fixture.wait_notes("side", "sidecar", "was not probed for its startup", 20, |notes| {
        (notes.iter().filter(|note| note.path == "/file/side-up").count() >= 3).then_some(())
    })?;
    let seen = fixture.pods.pod("side")?.ok_or_else(|| Failure::Unexpected("the pod is gone".into()))?;
    ensure!(
        seen.container("next").map_or(true, |next| next.terminated().is_none() && !next.is_running()),
        "the next init container ran before the sidecar had started: {}",
        seen.0["status"]
    );
    ensure_eq!(
        (seen.phase(), &seen.container("sidecar")?.0["started"]),
        ("Pending", &json!(false)),
        "phase and started"
    );

    fixture.program.answer("side-up", "/ok")?;
    let seen = fixture.pods.wait_up("side")?;
    ensure_eq!(seen.container("next")?.exit_code(), Some(0), "exit code of the next init container");
    ensure!(!is_ready(&seen), "the pod is ready though its sidecar is not: {}", seen.0["status"]);
    fixture.program.answer("side-ready", "/ok")?;
    let ready = fixture.pods.wait_until("side", "ready with its sidecar", 20, is_ready)?;
    let main = ready.container("c")?.id().to_owned();

    fixture.program.answer("side-live", "/bad")?;
    fixture.pods.wait_until("side", "without its sidecar", 30, |pod| {
        pod.container("sidecar").is_ok_and(|sidecar| sidecar.restarts() == 1)
    })?;
    fixture.program.answer("side-live", "/ok")?;
    let again = fixture.pods.wait_until("side", "ready with its restarted sidecar", 30, is_ready)?;
    ensure_eq!(
        (again.container("c")?.id(), again.container("c")?.restarts()),
        (main.as_str(), 0),
        "id and restarts of the main container"
    );
    ensure_eq!(again.container("next")?.restarts(), 0, "restarts of the next init container");
    std::thread::sleep(Duration::from_secs(2));
    ensure_eq!(fixture.pods.wait_up("side")?.container("sidecar")?.restarts(), 1, "restarts of the sidecar");
    fixture.pods.finish()
}
