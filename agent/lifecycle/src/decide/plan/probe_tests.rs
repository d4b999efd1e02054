//! Tables of what probes have done.

use serde_json::{Value, json};

use super::*;
use crate::decide::observed::ContainerStage::Running;
use crate::decide::observed::{ContainerSeen, Observed};
use crate::decide::published::{NOTHING, Published};
use crate::fixture::{at, container, exited, published, record, sandbox};
use crate::record::Record;
use nodewarden_config::PodSettings;
use nodewarden_manifest::Pod;
use nodewarden_manifest::ProbeKind;
use nodewarden_manifest::ProbeKind::{Liveness, Readiness, Startup};
use nodewarden_manifest::fixture::pod;
use nodewarden_model::Verdict::{Failure, Success};
use nodewarden_model::WaitingReason;

fn with(containers: Vec<ContainerSeen>) -> Observed {
    Observed { sandboxes: vec![sandbox(0, true)], containers }
}

/// Container `c` with all three probes.
fn probed(policy: &str) -> std::sync::Arc<Pod> {
    pod(json!({"restartPolicy": policy, "containers": [all(json!({"name": "c"}))]}))
}

fn all(mut container: Value) -> Value {
    for kind in ProbeKind::ALL {
        container[kind.field()] = json!({"exec": {"command": ["true"]}});
    }
    container
}

fn next(pod: &Pod, containers: Vec<ContainerSeen>, record: &Record, published: &Published, now: i64) -> Plan {
    plan(pod, &with(containers), record, published, &PodSettings::default(), at(now))
}

/// The reason and the words of the only action.
#[track_caller]
fn kill(plan: Plan) -> (KillReason, String) {
    match &plan.actions[..] {
        [Action::KillContainer { reason, message, .. }] => (*reason, message.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn liveness_and_startup_end_a_container_in_the_kubelets_words() {
    for (policy, again) in
        [("Always", ", will be restarted"), ("OnFailure", ", will be restarted"), ("Never", "")]
    {
        let pod = probed(policy);
        for (kind, reason, probe) in
            [(Liveness, KillReason::Liveness, "liveness"), (Startup, KillReason::Startup, "startup")]
        {
            let published = published("c.0", &[(kind, Failure)]);
            let plan = next(&pod, vec![container("c", 0, Running)], &record(&pod), &published, 5);
            assert_eq!(kill(plan), (reason, format!("Container c failed {probe} probe{again}")));
        }
    }
}

#[test]
fn no_other_result_ends_a_container() {
    let pod = probed("Always");
    let of = |published: &Published| {
        next(&pod, vec![container("c", 0, Running)], &record(&pod), published, 5).actions
    };
    assert_eq!(of(&NOTHING), []);
    assert_eq!(of(&published("c.0", &[(Readiness, Failure)])), []);
    assert_eq!(of(&published("c.0", &[(Startup, Success), (Liveness, Success)])), []);
    // Another run of it.
    assert_eq!(of(&published("c.1", &[(Liveness, Failure)])), []);
    // The kernel saw it end before the runtime did.
    let mut ended = published("c.0", &[(Liveness, Failure)]);
    assert!(ended.exit("c.0"));
    assert_eq!(of(&ended), []);
    assert!(ended.is_alive("c.0"));
    assert_eq!(of(&ended).len(), 1);
    // A probe that the container does not have (any more).
    let plain = nodewarden_manifest::fixture::pod(json!({"containers": [{"name": "c"}]}));
    let failed = published("c.0", &[(Liveness, Failure)]);
    assert_eq!(next(&plain, vec![container("c", 0, Running)], &record(&plain), &failed, 5).actions, []);
}

#[test]
fn a_failed_probe_comes_before_a_resize_that_restarts() {
    let sized = |memory: &str| {
        pod(json!({"containers": [all(json!({"name": "c", "resources": {"requests": {"memory": memory}},
            "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}))]}))
    };
    let (old, new) = (sized("64Mi"), sized("128Mi"));
    let mut record = record(&old);
    record.note_start(&old.containers[0], 0);
    let up = || vec![container("c", 0, Running)];
    assert_eq!(kill(next(&new, up(), &record, &NOTHING, 5)).0, KillReason::Resize);
    let failed = published("c.0", &[(Liveness, Failure), (Startup, Success)]);
    assert_eq!(kill(next(&new, up(), &record, &failed, 5)).0, KillReason::Liveness);
}

#[test]
fn a_probe_waits_for_the_hook() {
    let mut spec = all(json!({"name": "c"}));
    spec["lifecycle"] = json!({"postStart": {"exec": {"command": ["true"]}}});
    let pod = pod(json!({"containers": [spec]}));
    let failed = published("c.0", &[(Liveness, Failure)]);
    let plan = next(&pod, vec![container("c", 0, Running)], &record(&pod), &failed, 5);
    assert_eq!(plan.actions, [Action::FinishStart { id: "c.0".into(), name: "c".into() }]);
}

#[test]
fn a_container_ended_by_a_probe_starts_again_with_any_exit_code() {
    let never_but_137 = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [137]}}]);
    let own = |policy: Value, rules: Value| {
        let mut container = all(json!({"name": "c"}));
        container["restartPolicy"] = policy;
        container["restartPolicyRules"] = rules;
        container
    };
    for (policy, container, code, by_probe, itself) in [
        ("Always", own(Value::Null, Value::Null), 0, true, true),
        ("OnFailure", own(Value::Null, Value::Null), 0, true, false),
        ("OnFailure", own(Value::Null, Value::Null), 143, true, true),
        ("Never", own(Value::Null, Value::Null), 137, false, false),
        ("Never", own(json!("OnFailure"), Value::Null), 0, true, false),
        ("Always", own(json!("Never"), Value::Null), 137, false, false),
        ("Always", own(json!("Never"), never_but_137), 0, true, false),
    ] {
        let pod = pod(json!({"restartPolicy": policy, "containers": [container]}));
        for (noted, again) in [(true, by_probe), (false, itself)] {
            let mut record = record(&pod);
            if noted {
                record.note_kill("c", "c.0", KillReason::Liveness);
            }
            let observed = with(vec![exited("c", 0, code)]);
            record.note_ends(&pod, &observed, &PodSettings::default());
            let plan = plan(&pod, &observed, &record, &NOTHING, &PodSettings::default(), at(5));
            let start = Action::StartContainer { name: "c".into(), attempt: 1 };
            assert_eq!(plan.actions.contains(&start), again, "{policy} {code} {noted}");
            assert_eq!(plan.finished.is_some(), !again, "{policy} {code} {noted}");
            // And when the runtime has forgotten it.
            let forgotten = next(&pod, vec![], &record, &NOTHING, 5);
            assert_eq!(forgotten.actions.contains(&start), again, "{policy} {code} {noted}");
        }
    }
}

#[test]
fn a_kill_counts_once_for_the_back_off() {
    let pod = probed("OnFailure");
    let settings = PodSettings::default();
    let mut record = record(&pod);
    for attempt in 0..2 {
        let id = format!("c.{attempt}");
        let failed = published(&id, &[(Startup, Success), (Liveness, Failure)]);
        record.note_kill("c", &id, KillReason::Liveness);
        // Cut off by the agent's death: the next one finishes it.
        let up = with(vec![container("c", attempt, Running)]);
        assert_eq!(kill(plan(&pod, &up, &record, &failed, &settings, at(5))).0, KillReason::Liveness);
        record.note_kill("c", &id, KillReason::Liveness);
        let ended = with(vec![exited("c", attempt, 0)]);
        assert_eq!(record.note_ends(&pod, &ended, &settings).len(), 1);
        assert_eq!(record.note_ends(&pod, &ended, &settings).len(), 0);
        assert_eq!(record.containers["c"].failures, attempt + 1);
    }
    let ended = with(vec![exited("c", 1, 0)]);
    let waits = plan(&pod, &ended, &record, &NOTHING, &settings, at(16));
    assert_eq!((waits.actions, waits.wake), (vec![], Some(at(25))));
    assert_eq!(waits.waiting["c"].reason, WaitingReason::CrashLoopBackOff);
}

#[test]
fn a_sidecar_lets_the_next_one_start_once_it_has_started() {
    let pod = pod(json!({
        "initContainers": [all(json!({"name": "s", "restartPolicy": "Always"})), {"name": "i"}],
        "containers": [{"name": "c"}],
    }));
    let record = record(&pod);
    let up = || vec![container("s", 0, Running)];
    let waits = next(&pod, up(), &record, &NOTHING, 5);
    assert_eq!(waits.actions, []);
    assert_eq!(waits.waiting["c"].reason, WaitingReason::PodInitializing);
    let start = Action::StartContainer { name: "i".into(), attempt: 0 };
    // Neither readiness nor liveness holds anything.
    let started = published("s.0", &[(Startup, Success), (Readiness, Failure)]);
    assert_eq!(next(&pod, up(), &record, &started, 5).actions, [start]);
    let failed = published("s.0", &[(Startup, Failure)]);
    let words = (KillReason::Startup, "Init container s failed startup probe".to_owned());
    assert_eq!(kill(next(&pod, up(), &record, &failed, 5)), words);
    // Initialised once, nothing waits for it any more.
    let both = vec![container("s", 1, Running), exited("i", 0, 0)];
    let plan = next(&pod, both, &record, &NOTHING, 5);
    assert_eq!(plan.actions, [Action::StartContainer { name: "c".into(), attempt: 0 }]);
}
