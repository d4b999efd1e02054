//! A sidecar: an init container with the restart policy Always (KEP-753).

use serde_json::json;

use super::fixture::{NewerApi, condition, container};
use crate::e2e::pods::NEEDS;
use crate::e2e::pods::manifest::shell;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("newer_api_sidecar", sidecar).timeout(120).needs(NEEDS)];

/// It is in the status of init containers, running and started, restarts by itself, and ends after the
/// others.
fn sidecar(context: &Context) -> Result<(), Failure> {
    let node = NewerApi::start(context, "")?;
    let notes = context.temp.join("sidecar-notes");
    std::fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
    let ends = |word: &str| {
        format!("trap 'echo {word} >> /notes/ends; exit 0' TERM; while true; do sleep 600 & wait $!; done")
    };
    let mut side = shell(
        "side",
        &format!("if mkdir /notes/once; then sleep 2; exit 3; fi; {}", ends("side")),
        mount.clone(),
    );
    side["restartPolicy"] = json!("Always");
    node.create(
        "beside",
        json!({
            "terminationGracePeriodSeconds": 10,
            "initContainers": [side, shell("init", "exit 0", json!({}))],
            "containers": [shell("c", &ends("c"), mount)],
            "volumes": [{ "name": "notes", "hostPath": { "path": notes, "type": "Directory" } }],
        }),
    );
    let first = node.wait_ready("beside")?;
    ensure_eq!(condition(&first, "Initialized")["status"], json!("True"), "Initialized");
    let init = container(&first, "init")?;
    ensure_eq!(init["state"]["terminated"]["exitCode"], json!(0), "the init container");
    let seen = node.wait("beside", "with a sidecar that was restarted", 60, |pod| {
        container(pod, "side")
            .is_ok_and(|side| side["restartCount"] == 1 && side["state"]["running"].is_object())
    })?;
    let side = container(&seen, "side")?;
    ensure!(
        seen["status"]["initContainerStatuses"].as_array().is_some_and(|all| all.len() == 2),
        "the statuses of init containers: {}",
        seen["status"]
    );
    ensure_eq!((&side["started"], &side["ready"]), (&json!(true), &json!(true)), "started and ready");
    ensure_eq!(side["lastState"]["terminated"]["exitCode"], json!(3), "its first end");
    ensure_eq!(container(&seen, "c")?["restartCount"], json!(0), "restarts of the container beside it");
    ensure_eq!(seen["status"]["phase"], json!("Running"), "phase");
    node.remove("beside")?;
    let path = notes.join("ends");
    let order = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    ensure_eq!(order, "c\nside\n", "the order in which they ended");
    Ok(())
}
