//! `systemctl poweroff` on a node: the agent holds it up by logind's inhibitor until the pods have ended in
//! the order of their priority, the node is not ready meanwhile, and it comes back as it was.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{BOOT_SECONDS, SECONDS, boot, seconds_since, wait_node};
use crate::e2e::cluster::fixture::{ClusterFixture, condition};
use crate::e2e::cluster::manifest::{WAIT, pod};
use crate::e2e::support::eventually;
use crate::fixture::{GuestNode, agent_delays_shutdowns};
use crate::harness::{Context, Failure, REPORTED};
use crate::{ensure, ensure_eq};
use nodewarden_guest_job::{NOTES, NodeState};

/// Three groups, in all 90 s; logind's own limit is 5 s.
const LINES: &str = "shutdownGracePeriodByPodPriority:\n\
                     - {priority: 2000000000, shutdownGracePeriodSeconds: 30}\n\
                     - {priority: 0, shutdownGracePeriodSeconds: 30}\n\
                     - {priority: 1000, shutdownGracePeriodSeconds: 30}\n";
const DELAY: Duration = Duration::from_secs(90);
/// The pods with their priority classes, in the order in which they end.
const PODS: [(&str, &str); 3] =
    [("low", ""), ("middle", "nodewarden-middle"), ("critical", "system-node-critical")];
/// How long each takes to end, in seconds.
const ENDS_IN: u32 = 3;

pub fn graceful(context: &Context) -> Result<(), Failure> {
    // Kubernetes' own tolerations: pods of a node that is not ready are not deleted meanwhile.
    let fixture = ClusterFixture::start_alone(context)?;
    let mut guest = boot(&fixture, "a", LINES)?;
    wait_node(&fixture, &guest, "True", BOOT_SECONDS)?;
    guest.wait_state("holding up shutdowns by the longest time", SECONDS, holds_up_shutdowns)?;
    fixture.apply(&priority_class())?;
    for (name, class) in PODS {
        fixture.apply(&noting_pod(name, class, &guest))?;
    }
    for (name, _) in PODS {
        fixture.wait_pod(name, "ready", SECONDS, |pod| condition(pod, "Ready") == Some("True"))?;
    }
    shuts_down(&fixture, &mut guest)?;
    let begun = Instant::now();
    guest.boot()?;
    let state = guest.wait_state("up with its notes", BOOT_SECONDS, |state| !state.notes.is_empty())?;
    let expected: Vec<String> =
        PODS.iter().flat_map(|(name, _)| [format!("{name} begins"), format!("{name} ends")]).collect();
    ensure_eq!(state.notes, expected, "what the pods have noted on the node's disk");
    wait_node(&fixture, &guest, "True", BOOT_SECONDS)?;
    println!("{REPORTED}switched on to Ready: {}", seconds_since(begun));
    guest.wait_state("holding up shutdowns again", SECONDS, holds_up_shutdowns)?;
    fixture.run(&["delete", "pods", "--all", "--wait=false"])?;
    for (name, _) in PODS {
        fixture.wait_gone(name, SECONDS)?;
    }
    guest.wait_state("without any pod", SECONDS, |state| state.pods().is_empty())?;
    fixture.kubectl().run(&["delete", "priorityclass", PODS[1].1])?;
    fixture.finish()
}

/// From the announcement to the machine's end.
fn shuts_down(fixture: &ClusterFixture<'_>, guest: &mut GuestNode) -> Result<(), Failure> {
    let begun = Instant::now();
    guest.power_off()?;
    let (reason, message) = wait_node(fixture, guest, "False", 60)?;
    println!("{REPORTED}announced to not ready: {}", seconds_since(begun));
    ensure_eq!(
        (reason.as_str(), message.as_str()),
        ("KubeletNotReady", "node is shutting down"),
        "condition Ready"
    );
    let mut agent_held = false;
    let status = eventually(DELAY + Duration::from_secs(60), "the machine does not end", || {
        agent_held |= guest.state().is_some_and(|state| holds_up_shutdowns(&state));
        Ok(guest.has_ended()?)
    })?;
    println!("{REPORTED}announced to the machine's end: {}", seconds_since(begun));
    ensure!(status.success(), "QEMU ended with {status}");
    ensure!(agent_held, "no report came while the shutdown was held up");
    // Long enough for each group, and not for the whole time that groups may have.
    let took = begun.elapsed();
    let least = Duration::from_secs(u64::from(ENDS_IN) * PODS.len() as u64);
    ensure!((least..DELAY).contains(&took), "the machine ended after {took:?}");
    for (name, _) in PODS {
        let pod = fixture.pod(name)?.ok_or_else(|| Failure::Unexpected(format!("pod {name} is gone")))?;
        let status = &pod["status"];
        let seen = [&status["phase"], &status["reason"]].map(|value| value.as_str().unwrap_or_default());
        ensure_eq!(seen, ["Failed", "Terminated"], "phase and reason of {name}: {status}");
        let code = &status["containerStatuses"][0]["state"]["terminated"]["exitCode"];
        ensure_eq!(code.as_i64(), Some(0), "exit code of {name}: {status}");
    }
    Ok(())
}

/// logind allows the whole delay, and the agent holds an inhibitor of mode delay.
fn holds_up_shutdowns(state: &NodeState) -> bool {
    state.delay_micros == Some(DELAY.as_micros() as u64) && agent_delays_shutdowns(&state.inhibitors)
}

fn priority_class() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": PODS[1].1 },
        "value": 1000,
    })
}

/// A pod that notes on the node's disk when it is asked to end, and when it does.
fn noting_pod(name: &str, class: &str, guest: &GuestNode) -> Value {
    let mut pod = pod(name, guest.name(), "");
    let [folder, file] = NOTES;
    let note = |what: &str| format!("echo {name} {what} >> /notes/{file}");
    let ending = format!("{}; sleep {ENDS_IN}; {}; exit 0", note("begins"), note("ends"));
    pod["spec"]["containers"][0]["command"][2] = format!("trap '{ending}' TERM; {WAIT}").into();
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "notes", "mountPath": "/notes" }]);
    pod["spec"]["volumes"] =
        json!([{ "name": "notes", "hostPath": { "path": folder, "type": "DirectoryOrCreate" } }]);
    pod["spec"]["terminationGracePeriodSeconds"] = 60.into();
    if !class.is_empty() {
        pod["spec"]["priorityClassName"] = class.into();
    }
    pod
}
