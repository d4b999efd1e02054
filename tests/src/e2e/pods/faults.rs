//! What an agent does about a pod in whose work the agent before it panicked.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::NEEDS;
use super::fixture::{PodFixture, SHORT_BACKOFF};
use super::manifest::{STAY, pod, shell};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("pod_waits_after_fault_of_the_agent", waits).timeout(120).needs(NEEDS)];

/// How long a pod waits after its second fault within ten minutes.
const WAIT: Duration = Duration::from_secs(20);
const TEXT: &str = "index out of bounds (agent/somewhere.rs:1:2)";

/// The pod that a file of faults names waits before the agent works for it again, and an event says why;
/// other pods do not wait, and containers that run are left alone. No panic can be brought about from
/// outside, so the file is one that this test writes, as the panic hook does.
fn waits(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::with_config(context, "", SHORT_BACKOFF)?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let volumes = json!([{ "name": "notes", "hostPath": { "path": notes } }]);
    let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
    let with_end = |name: &str| {
        let script = format!("while ! test -e /notes/{name}; do sleep 0.1; done; rm /notes/{name}; exit 3");
        let containers = json!([shell("ends", &script, mount.clone()), shell("stays", STAY, json!({}))]);
        pod(name, json!({ "volumes": volumes, "containers": containers }))
    };
    let names = ["faulty", "other"];
    fixture.put(names.map(with_end))?;
    let faulty = fixture.wait_up("faulty")?;
    fixture.wait_up("other")?;
    let faults = fixture.agent()?.state().join("faults");
    fixture.kill_agent()?;

    // Meanwhile a container of each ends.
    for name in names {
        fs::write(notes.join(name), "").map_err(Failure::file(&notes))?;
    }
    eventually(context.patiently(10), "the containers do not end", || {
        Ok(names.iter().all(|name| !notes.join(name).exists()).then_some(()))
    })?;
    let file = faults.join(format!("{}.json", faulty.uid()));
    let at = SystemTime::now();
    let now = jiff::Timestamp::try_from(at).map_err(|error| Failure::Unexpected(error.to_string()))?;
    let fault = json!({ "times": 2, "at": now.to_string(), "text": TEXT });
    fs::create_dir_all(&faults).map_err(Failure::file(&faults))?;
    fs::write(&file, fault.to_string()).map_err(Failure::file(&file))?;
    fixture.start_agent()?;

    let restarted = |pod: &super::listed::ListedPod| {
        pod.is_up() && pod.container("ends").is_ok_and(|container| container.restarts() == 1)
    };
    fixture.wait_until("other", "restarted", 30, restarted)?;
    let shown = fixture.pod("faulty")?.ok_or_else(|| Failure::Unexpected("the pod is not listed".into()))?;
    // The other one may be late where everything is slow.
    if at.elapsed().unwrap_or_default() < WAIT {
        ensure_eq!(shown.container("ends")?.restarts(), 0, "restarts while the pod waits");
    }
    let died = fixture.notes("faulty", "WorkerDied", at)?;
    ensure_eq!(died.len(), 1, "events of the fault: {died:?}");
    ensure!(died[0].contains(TEXT) && died[0].contains("(in a row: 2)"), "the event says {:?}", died[0]);

    let again = fixture.wait_until("faulty", "restarted", 60, restarted)?;
    let waited = at.elapsed().unwrap_or_default();
    ensure!(waited >= WAIT, "the pod waited for {waited:?}");
    let stays = again.container("stays")?;
    ensure_eq!(stays.restarts(), 0, "restarts of a container that ran all the time");
    ensure_eq!(stays.id(), faulty.container("stays")?.id(), "a container that ran all the time");
    let others = fixture.notes("other", "WorkerDied", at)?;
    ensure!(others.is_empty(), "events of a fault of the other pod: {others:?}");
    fixture.finish()?;
    ensure!(!file.exists(), "{} is there after its pod is gone", file.display());
    Ok(())
}
