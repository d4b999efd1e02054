//! Sidecars have all three probes: the next init container waits for their startup, the pod is ready when they are, and a
//! sidecar that fails is begun again alone.

use std::time::Duration;

use serde_json::{Value, json};

use super::NEEDS;
use super::manifest::{exec, probe};
use super::site::Site;
use crate::e2e::pods::manifest::{STAY, shell};
use crate::e2e::pods::seen::Seen;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("probe_sidecars", sidecars).timeout(120).needs(NEEDS)];

fn is_ready(pod: &Seen) -> bool {
    let conditions = pod.0["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

fn sidecars(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let port = site.program.port()?;
    let with = |path: &str, more: Value| probe(site.http(port, path), more);
    let side = site.http_server(
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
    let c = shell("c", STAY, json!({ "readinessProbe": probe(exec("exit 0"), site.patient()) }));
    let pod = site.pod("side", json!({ "initContainers": [side, next], "containers": [c] }));
    site.program.answer("side-live", "/ok")?;
    site.stage.put([pod])?;

    site.until_noted("side", "sidecar", "was not asked for its startup", 20, |notes| {
        (notes.iter().filter(|note| note.path == "/file/side-up").count() >= 3).then_some(())
    })?;
    let seen = site.stage.pod("side")?.ok_or_else(|| Failure::Unexpected("the pod is gone".into()))?;
    ensure!(
        seen.container("next").map_or(true, |next| next.ended().is_none() && !next.is_running()),
        "the next init container ran before the sidecar had started: {}",
        seen.0["status"]
    );
    ensure_eq!(
        (seen.phase(), &seen.container("sidecar")?.0["started"]),
        ("Pending", &json!(false)),
        "phase and started"
    );

    site.program.answer("side-up", "/ok")?;
    let seen = site.stage.up("side")?;
    ensure_eq!(seen.container("next")?.exit_code(), Some(0), "how the next init container ended");
    ensure!(!is_ready(&seen), "the pod is ready though its sidecar is not: {}", seen.0["status"]);
    site.program.answer("side-ready", "/ok")?;
    let ready = site.stage.until("side", "ready with its sidecar", 20, is_ready)?;
    let main = ready.container("c")?.id().to_owned();

    site.program.answer("side-live", "/bad")?;
    site.stage.until("side", "without its sidecar", 30, |pod| {
        pod.container("sidecar").is_ok_and(|sidecar| sidecar.restarts() == 1)
    })?;
    site.program.answer("side-live", "/ok")?;
    let again = site.stage.until("side", "ready with its sidecar anew", 30, is_ready)?;
    ensure_eq!(
        (again.container("c")?.id(), again.container("c")?.restarts()),
        (main.as_str(), 0),
        "the container beside it"
    );
    ensure_eq!(again.container("next")?.restarts(), 0, "runs of the init container after it");
    std::thread::sleep(Duration::from_secs(2));
    ensure_eq!(site.stage.up("side")?.container("sidecar")?.restarts(), 1, "restarts of the sidecar");
    site.stage.finish()
}
