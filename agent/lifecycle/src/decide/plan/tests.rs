//! Tables of what is decided when.

mod api;

use serde_json::{Value, json};

use super::*;
use crate::decide::observed::ContainerStage::{Created, Exited, Running, Unknown};
use crate::decide::observed::{ContainerSeen, Observed, SandboxSeen};
use crate::decide::published::NOTHING;
use crate::fixture::{at, container, exited, record, sandbox};
use crate::record::{Ending, Record};
use nodewarden_config::PodSettings;
use nodewarden_manifest::Pod;
use nodewarden_manifest::fixture::pod;
use nodewarden_model::{ClockReading, Waiting, WaitingReason};

/// A short form: `stop s0`, `create 1`, `start c.0`, `kill c.0 Resize`, ….
fn actions(plan: &Plan) -> Vec<String> {
    let text = |action: &Action| match action {
        Action::StopSandbox { id } => format!("stop {id}"),
        Action::RemoveSandbox { id } => format!("forget {id}"),
        Action::CreateSandbox { attempt } => format!("create {attempt}"),
        Action::KillContainer { id, reason, .. } => format!("kill {id} {reason:?}"),
        Action::StartContainer { name, attempt } => format!("start {name}.{attempt}"),
        Action::FinishStart { id, .. } => format!("finish {id}"),
        Action::UpdateResources { id, .. } => format!("update {id}"),
        Action::RemoveContainer { id } => format!("remove {id}"),
    };
    plan.actions.iter().map(text).collect()
}

fn seen(sandboxes: Vec<SandboxSeen>, containers: Vec<ContainerSeen>) -> Observed {
    Observed { sandboxes, containers }
}

/// In sandbox 0, ready.
fn with(containers: Vec<ContainerSeen>) -> Observed {
    seen(vec![sandbox(0, true)], containers)
}

/// As a worker decides: what ended is noted first. An hour after all that happened: no back-off.
fn decide(pod: &Pod, observed: &Observed) -> Plan {
    let mut record = record(&std::sync::Arc::new(pod.clone()));
    let settings = PodSettings::default();
    record.note_ends(pod, observed, &settings);
    plan(pod, observed, &record, &NOTHING, &settings, at(3600))
}

#[track_caller]
fn check(pod: &Pod, observed: &Observed, expected: &[&str]) -> Plan {
    let plan = decide(pod, observed);
    assert_eq!(actions(&plan), expected);
    plan
}

fn plain(policy: &str) -> std::sync::Arc<Pod> {
    pod(json!({"restartPolicy": policy, "containers": [{"name": "a"}, {"name": "b"}]}))
}

/// Sidecar, init container, sidecar, and one ordinary container.
fn staged(policy: &str) -> std::sync::Arc<Pod> {
    pod(json!({
        "restartPolicy": policy,
        "initContainers": [
            {"name": "s", "restartPolicy": "Always"}, {"name": "i"}, {"name": "t", "restartPolicy": "Always"}],
        "containers": [{"name": "c"}],
    }))
}

#[test]
fn a_new_pod_gets_a_sandbox() {
    let pod = plain("Always");
    check(&pod, &Observed::default(), &["create 0"]);
    check(&pod, &with(vec![]), &["start a.0", "start b.0"]);
    check(&pod, &with(vec![container("a", 0, Running)]), &["start b.0"]);
    let plan = check(&pod, &with(vec![container("a", 0, Running), container("b", 0, Running)]), &[]);
    assert_eq!(plan, Plan::default());
}

#[test]
fn a_dead_sandbox_is_replaced_when_its_containers_have_ended() {
    let pod = plain("Always");
    let dead = vec![sandbox(0, false)];
    check(&pod, &seen(dead.clone(), vec![container("a", 0, Running)]), &["stop s0"]);
    check(&pod, &seen(dead.clone(), vec![container("a", 0, Unknown)]), &["stop s0"]);
    let ended = vec![exited("a", 0, 137), exited("b", 0, 137)];
    check(&pod, &seen(dead, ended.clone()), &["stop s0", "create 1"]);
    let both = seen(vec![sandbox(1, true), sandbox(0, false)], ended);
    check(&pod, &both, &["stop s0", "forget s0", "start a.1", "start b.1"]);
}

#[test]
fn of_two_ready_sandboxes_the_newest_stays() {
    let pod = plain("Always");
    let in_new = |c: ContainerSeen| ContainerSeen { sandbox: "s1".into(), ..c };
    let containers = vec![
        container("a", 0, Running),
        in_new(container("a", 1, Running)),
        in_new(container("b", 0, Running)),
    ];
    let observed = seen(vec![sandbox(0, true), sandbox(1, true)], containers);
    check(&pod, &observed, &["stop s0", "forget s0"]);
}

#[test]
fn a_clock_that_is_set_does_not_change_the_back_off() {
    let pod = plain("Always");
    let settings = PodSettings::default();
    // The runtime goes on saying that it ended at 55 s.
    let observed = with(vec![exited("a", 5, 1), container("b", 0, Running)]);
    for step in [0, 86_400, -86_400] {
        let clocks = |seconds: u64, step: i64| ClockReading {
            wall: at(seconds as i64 + step),
            boot_id: "a".into(),
            boot_ns: seconds * 1_000_000_000,
        };
        let mut record = record(&pod);
        record.containers.get_or_default("a").failures = 2;
        record.align(&clocks(56, 0));
        record.note_ends(&pod, &observed, &settings);
        record.limit_ends(at(56));
        record.align(&clocks(60, step));
        let decided = |seconds| plan(&pod, &observed, &record, &NOTHING, &settings, at(seconds + step));
        assert_eq!(actions(&decided(74)), Vec::<String>::new(), "{step}");
        assert_eq!(decided(74).wake, Some(at(75 + step)), "20 s after its end");
        assert_eq!(actions(&decided(75)), ["start a.6"], "{step}");
    }
    // Set back after its end and before that was noted: the back-off is whole, and no longer.
    let mut record = record(&pod);
    record.containers.get_or_default("a").failures = 2;
    record.note_ends(&pod, &observed, &settings);
    record.limit_ends(at(-3600));
    let decided = |seconds| plan(&pod, &observed, &record, &NOTHING, &settings, at(seconds));
    assert_eq!(decided(-3590).wake, Some(at(-3580)));
    assert_eq!(actions(&decided(-3580)), ["start a.6"]);
}

#[test]
fn a_finished_pod_gets_no_new_sandbox() {
    for (policy, codes, phase) in [
        ("Never", [0, 0], PodPhase::Succeeded),
        ("Never", [0, 1], PodPhase::Failed),
        ("OnFailure", [0, 0], PodPhase::Succeeded),
    ] {
        let pod = plain(policy);
        let ended = vec![exited("a", 0, codes[0]), exited("b", 0, codes[1])];
        let plan = check(&pod, &with(ended.clone()), &["stop s0"]);
        assert_eq!(plan.finished, Some(phase));
        let plan = check(&pod, &seen(vec![sandbox(0, false)], ended.clone()), &[]);
        assert_eq!(plan.finished, Some(phase));
        // And when the runtime has forgotten all of it.
        let mut record = record(&pod);
        record.note_ends(&pod, &with(ended), &PodSettings::default());
        let plan = crate::decide::plan::plan(
            &pod,
            &Observed::default(),
            &record,
            &NOTHING,
            &PodSettings::default(),
            at(3600),
        );
        assert_eq!((actions(&plan), plan.finished), (vec![], Some(phase)));
    }
}

#[test]
fn failed_containers_start_again_in_the_new_sandbox() {
    let pod = plain("OnFailure");
    let ended = vec![exited("a", 0, 0), exited("b", 3, 1)];
    check(&pod, &seen(vec![sandbox(0, false)], ended.clone()), &["stop s0", "create 1"]);
    let both = seen(vec![sandbox(1, true)], ended.iter().cloned().map(|c| ContainerSeen { ..c }).collect());
    // The old sandbox is forgotten by the runtime, its containers are not.
    check(&pod, &both, &["remove a.0", "remove b.3", "start b.4"]);
}

#[test]
fn init_containers_run_in_order() {
    let pod = staged("Always");
    let waiting = |plan: &Plan| plan.waiting.keys().cloned().collect::<Vec<_>>().join(" ");
    let plan = check(&pod, &with(vec![]), &["start s.0"]);
    assert_eq!(waiting(&plan), "c i t");
    assert_eq!(plan.waiting["c"], Waiting { reason: WaitingReason::PodInitializing, message: String::new() });
    check(&pod, &with(vec![container("s", 0, Created)]), &["finish s.0"]);
    let s = || container("s", 0, Running);
    let plan = check(&pod, &with(vec![s()]), &["start i.0"]);
    assert_eq!(waiting(&plan), "c t");
    check(&pod, &with(vec![s(), container("i", 0, Running)]), &[]);
    check(&pod, &with(vec![s(), exited("i", 0, 1)]), &["start i.1"]);
    check(&pod, &with(vec![exited("s", 0, 0), exited("i", 0, 1)]), &["start s.1", "start i.1"]);
    check(&pod, &with(vec![s(), exited("i", 0, 0)]), &["start t.0"]);
    let plan = check(&pod, &with(vec![s(), exited("i", 0, 0), container("t", 0, Running)]), &["start c.0"]);
    assert_eq!(waiting(&plan), "");
    // The runtime may have forgotten those before.
    check(&pod, &with(vec![s(), container("t", 0, Running)]), &["start c.0"]);
    // Once initialised, only sidecars come again.
    let late = vec![exited("s", 0, 0), exited("i", 0, 0), container("t", 0, Running), exited("c", 0, 1)];
    check(&pod, &with(late), &["start s.1", "start c.1"]);
}

#[test]
fn init_containers_have_their_turn_again_in_a_new_sandbox() {
    let pod = staged("Always");
    let old = [exited("s", 0, 137), exited("i", 0, 0), exited("t", 0, 137), exited("c", 0, 137)];
    let both = |more: Vec<ContainerSeen>| {
        let more = more.into_iter().map(|c| ContainerSeen { sandbox: "s1".into(), ..c });
        seen(vec![sandbox(1, true), sandbox(0, false)], old.iter().cloned().chain(more).collect())
    };
    let begin = ["stop s0", "forget s0"];
    check(&pod, &both(vec![]), &[&begin[..], &["start s.1"]].concat());
    check(&pod, &both(vec![container("s", 1, Running)]), &[&begin[..], &["start i.1"]].concat());
}

#[test]
fn a_failed_init_container_fails_a_pod_that_never_restarts() {
    let pod = staged("Never");
    let failed = |s| with(vec![container("s", 0, s), exited("i", 0, 1)]);
    let plan = check(&pod, &failed(Running), &["kill s.0 PodEnds", "stop s0"]);
    assert_eq!(plan.finished, None);
    let plan = check(&pod, &failed(Exited), &["stop s0"]);
    assert_eq!(plan.finished, Some(PodPhase::Failed));
}

#[test]
fn sidecars_do_not_keep_a_pod_and_end_last() {
    let pod = staged("OnFailure");
    let sidecars = |stage| vec![container("s", 0, stage), exited("i", 0, 0), container("t", 0, stage)];
    let mut ending = sidecars(Running);
    ending.push(exited("c", 0, 0));
    let plan = check(&pod, &with(ending), &["kill t.0 PodEnds", "kill s.0 PodEnds", "stop s0"]);
    assert_eq!(plan.finished, None);
    let mut ended = sidecars(Exited);
    ended.push(exited("c", 0, 0));
    let plan = check(&pod, &with(ended), &["stop s0"]);
    assert_eq!(plan.finished, Some(PodPhase::Succeeded));
    assert_eq!(end_order(&pod), [vec!["i", "c"], vec!["t"], vec!["s"]]);
}

#[test]
fn a_container_counts_as_started_after_its_hook() {
    let hook = json!({"postStart": {"exec": {"command": ["true"]}}});
    let pod = pod(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always", "lifecycle": hook}],
        "containers": [{"name": "c", "lifecycle": hook}],
    }));
    let mut record = record(&pod);
    let mut next = |observed: &Observed, hooked: &str| {
        record.containers.get_or_default("s").hooked = hooked.into();
        actions(&plan(&pod, observed, &record, &NOTHING, &PodSettings::default(), at(3600)))
    };
    let s = with(vec![container("s", 0, Running)]);
    assert_eq!(next(&s, ""), ["finish s.0"]);
    assert_eq!(next(&s, "s.0"), ["start c.0"]);
    let both = with(vec![container("s", 1, Running), container("c", 0, Running)]);
    assert_eq!(next(&both, "s.0"), ["finish s.1", "finish c.0"]);
}

#[test]
fn what_an_earlier_agent_left_unfinished_is_finished() {
    let pod = plain("Never");
    check(&pod, &with(vec![container("a", 0, Created), exited("b", 0, 0)]), &["finish a.0"]);
    check(&pod, &with(vec![container("a", 0, Unknown), container("b", 0, Running)]), &["kill a.0 Unknown"]);
    // An older one of a name must not run at the same time as the newest.
    let doubled = vec![
        container("a", 0, Running),
        container("a", 1, Running),
        container("b", 0, Created),
        container("b", 1, Running),
        container("x", 0, Running),
    ];
    let order = ["kill a.0 NotWanted", "remove a.0", "remove b.0", "kill x.0 NotWanted", "remove x.0"];
    check(&pod, &with(doubled), &order);
}

#[test]
fn one_ended_container_of_each_name_is_kept() {
    let pod = plain("Always");
    let ended = vec![exited("a", 0, 1), exited("a", 1, 1), container("a", 2, Running), exited("b", 0, 1)];
    check(&pod, &with(ended), &["start b.1", "remove a.0"]);
    let ended = vec![exited("a", 0, 1), exited("a", 1, 1), container("b", 0, Running)];
    check(&pod, &with(ended), &["start a.2", "remove a.0"]);
}

#[test]
fn a_container_that_keeps_failing_waits_longer_each_time() {
    let pod = plain("Always");
    let mut record = record(&pod);
    let settings = PodSettings::default();
    let b = || container("b", 0, Running);
    let mut at_second = |observed: &Observed, second: i64| {
        record.note_ends(&pod, observed, &settings);
        plan(&pod, observed, &record, &NOTHING, &settings, at(second))
    };
    // Exit code 0 counts as well. Ended 5 s after its start, at second 5.
    let plan = at_second(&with(vec![exited("a", 0, 0), b()]), 5);
    assert_eq!((actions(&plan), plan.wake), (vec!["start a.1".to_owned()], None));
    // The second one: ended at 15, due at 25.
    let again = with(vec![exited("a", 1, 0), b()]);
    let plan = at_second(&again, 15);
    assert_eq!((actions(&plan), plan.wake), (vec![], Some(at(25))));
    let message = "back-off 10s restarting failed container=a pod=p_default(u)";
    assert_eq!(
        plan.waiting["a"],
        Waiting { reason: WaitingReason::CrashLoopBackOff, message: message.into() }
    );
    assert_eq!(actions(&at_second(&again, 24)), Vec::<String>::new());
    assert_eq!(actions(&at_second(&again, 25)), ["start a.2"]);
    let plan = at_second(&with(vec![exited("a", 2, 1), b()]), 25);
    assert_eq!(plan.wake, Some(at(25 + 20)));
    // For one that ran for longer than the reset the count starts again.
    let long = ContainerSeen { finished: Some(at(631)), ..exited("a", 3, 1) };
    assert_eq!(actions(&at_second(&with(vec![long, b()]), 631)), ["start a.4"]);
}

#[test]
fn a_container_that_the_agent_ended_starts_again_at_once() {
    let pod = plain("Never");
    let mut record = record(&pod);
    let settings = PodSettings::default();
    record.note_kill("a", "a.0", KillReason::Resize);
    let observed = with(vec![exited("a", 0, 137), container("b", 0, Running)]);
    record.note_ends(&pod, &observed, &settings);
    assert_eq!(record.containers["a"].failures, 0);
    assert_eq!(actions(&plan(&pod, &observed, &record, &NOTHING, &settings, at(5))), ["start a.1"]);
}

#[test]
fn changed_resources_are_updated_or_restart_the_container() {
    let sized = |cpu: &str, memory: &str| {
        let of = |name: &str, kind: Value| {
            json!({"name": name, "restartPolicy": kind,
                   "resources": {"requests": {"cpu": cpu, "memory": memory}},
                   "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]})
        };
        pod(json!({"initContainers": [of("i", Value::Null), of("s", json!("Always"))],
                   "containers": [of("c", Value::Null)]}))
    };
    let old = sized("1", "64Mi");
    let mut record = record(&old);
    for container in old.init_containers.iter().chain(&old.containers) {
        record.note_start(container, 0);
    }
    let running = with(vec![exited("i", 0, 0), container("s", 0, Running), container("c", 0, Running)]);
    let next = |pod: &Pod, record: &Record| {
        actions(&plan(pod, &running, record, &NOTHING, &PodSettings::default(), at(3600)))
    };
    assert_eq!(next(&old, &record), Vec::<String>::new());
    assert_eq!(next(&sized("2", "64Mi"), &record), ["update s.0", "update c.0"]);
    assert_eq!(next(&sized("2", "1Gi"), &record), ["kill s.0 Resize", "kill c.0 Resize"]);
    let new = sized("2", "64Mi");
    record.note_update(&new.containers[0]);
    assert_eq!(next(&new, &record), ["update s.0"]);
}

#[test]
fn an_attempt_that_was_never_created_does_not_count() {
    let pod = plain("Always");
    let settings = PodSettings::default();
    let mut record = record(&pod);
    let next = |record: &Record, containers| {
        let mut actions = actions(&plan(&pod, &with(containers), record, &NOTHING, &settings, at(5)));
        actions.retain(|action| action.contains(" a."));
        actions
    };
    record.note_start(&pod.containers[0], 0);
    assert_eq!(next(&record, vec![]), ["start a.0"]);
    // The runtime has it all the same.
    assert_eq!(next(&record, vec![container("a", 0, Running)]), Vec::<String>::new());
    record.note_created("a");
    assert_eq!(next(&record, vec![]), ["start a.1"]);
    record.note_start(&pod.containers[0], 1);
    assert_eq!(next(&record, vec![]), ["start a.1"]);
}

#[test]
fn a_pod_that_ends_has_no_plan() {
    let pod = plain("Always");
    let mut record = record(&pod);
    record.ending = Some(Ending { since: at(0), grace_seconds: 30, why: "removed".into() });
    let plan = plan(&pod, &Observed::default(), &record, &NOTHING, &PodSettings::default(), at(0));
    assert_eq!(plan, Plan::default());
}

#[test]
fn ended_containers_are_kept_as_configured() {
    let pod = pod(json!({"restartPolicy": "Always", "containers": [{"name": "a", "image": "i"}]}));
    let containers = (0..3).map(|attempt| exited("a", attempt, 1)).collect();
    let observed = Observed { sandboxes: vec![sandbox(0, true)], containers };
    let record = record(&pod);
    // They were made 30, 20 and 10 s ago.
    for (kept, least, removed) in [
        (Some(1), 0, &["a.1", "a.0"][..]),
        (Some(2), 0, &["a.0"]),
        (Some(0), 0, &["a.2", "a.1", "a.0"]),
        (None, 0, &[]),
        (Some(0), 15, &["a.1", "a.0"]),
        (Some(1), 15, &["a.0"]),
    ] {
        let settings = PodSettings {
            dead_kept: kept,
            dead_min_age: std::time::Duration::from_secs(least),
            ..PodSettings::default()
        };
        let plan = plan(&pod, &observed, &record, &NOTHING, &settings, at(30));
        let gone: Vec<&str> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::RemoveContainer { id } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(gone, removed, "{kept:?} {least}");
    }
}

/// The pod's settings were changed: what runs is in another cgroup.
#[test]
fn a_pod_leaves_a_cgroup_by_the_end_of_its_sandboxes() {
    let stop = |id: &str| Action::StopSandbox { id: id.into() };
    let seen = |sandboxes| Observed { sandboxes, containers: vec![container("c", 0, Running)] };
    assert_eq!(leave(&seen(vec![sandbox(0, true)])).unwrap().actions, [stop("s0")]);
    let two = vec![sandbox(2, true), sandbox(1, false), sandbox(0, true)];
    assert_eq!(leave(&seen(two)).unwrap().actions, [stop("s0"), stop("s2")]);
    assert_eq!(leave(&seen(vec![sandbox(0, false)])), None);
    assert_eq!(leave(&Observed::default()), None);
}
