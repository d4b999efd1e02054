use serde_json::json;

use super::*;
use crate::decide::observed::ContainerStage::{Created, Exited, Running, Unknown};
use crate::decide::plan::KillReason;
use crate::decide::plan::plan;
use crate::decide::published::Published;
use crate::fixture::published;
use crate::fixture::{at, container, exited, pod, record, sandbox};
use crate::record::Ending;
use nodewarden_config::PodSettings;
use nodewarden_eviction::Eviction;
use nodewarden_manifest::ProbeKind::{Liveness, Readiness, Startup};
use nodewarden_manifest::{ByName, ProbeKind};
use nodewarden_model::OomVictim;
use nodewarden_model::Verdict;
use nodewarden_model::Verdict::{Failure, Success};

struct Case {
    pod: Arc<Pod>,
    record: Record,
    observed: Observed,
    published: Published,
    failed: BTreeMap<String, Waiting>,
    /// A resize that was begun, and why it could not be done.
    resizing: (bool, Option<&'static str>),
}

impl Case {
    fn new(policy: &str, containers: Vec<ContainerSeen>) -> Self {
        let pod = pod(json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "c", "image": "busybox"}],
        }));
        let record = record(&pod);
        let observed = Observed { sandboxes: vec![sandbox(0, true)], containers };
        let (published, failed) = (Published::default(), BTreeMap::new());
        Self { pod, record, observed, published, failed, resizing: (false, None) }
    }

    /// As shown at second `now`, after what ended was noted.
    fn view(&mut self, now: i64) -> PodView {
        let settings = PodSettings::default();
        self.record.note_ends(&self.pod, &self.observed, &settings);
        let plan = plan(&self.pod, &self.observed, &self.record, &self.published, &settings, at(now));
        view(&Facts {
            devices: &DeviceHealth::new(),
            pod: &self.pod,
            observed: &self.observed,
            record: &self.record,
            published: &self.published,
            plan: &plan,
            failed: &self.failed,
            node_ips: &[],
            trouble: None,
            resize: None,
            resizing: self.resizing,
            api: None,
            ended: false,
        })
    }
}

/// `i:Waiting/PodInitializing`, `c:Running`, `c:Terminated/Error`; `+` is ready, `last` follows in brackets.
fn shown(view: &PodView) -> String {
    let text = |c: &ContainerView| {
        let state = match &c.state {
            ContainerState::Waiting { reason, .. } => format!("Waiting/{reason}"),
            ContainerState::Running { .. } => "Running".into(),
            ContainerState::Terminated(ended) => format!("Terminated/{}", ended.reason),
        };
        let last = c.last.as_ref().map(|l| format!("({})", l.id)).unwrap_or_default();
        format!("{}:{state}{}{last}", c.name, if c.ready { "+" } else { "" })
    };
    let containers: Vec<_> = view.containers.iter().map(text).collect();
    format!("{:?} {}", view.phase, containers.join(" "))
}

#[track_caller]
fn check(policy: &str, containers: Vec<ContainerSeen>, expected: &str) -> PodView {
    let view = Case::new(policy, containers).view(3600);
    assert_eq!(shown(&view), expected);
    view
}

#[test]
fn the_phases_of_a_pod_from_start_to_end() {
    let init = "i:Waiting/PodInitializing s:Waiting/PodInitializing c:Waiting/PodInitializing";
    check("Never", vec![], &format!("Pending {init}"));
    check("Never", vec![container("i", 0, Created)], &format!("Pending {init}"));
    let rest = "s:Waiting/PodInitializing c:Waiting/PodInitializing";
    check("Never", vec![container("i", 0, Running)], &format!("Pending i:Running {rest}"));
    let i = || exited("i", 0, 0);
    check("Never", vec![i()], &format!("Pending i:Terminated/Completed+ {rest}"));
    let s = || container("s", 0, Running);
    let c = "i:Terminated/Completed+ s:Running+ c:Waiting/PodInitializing";
    check("Never", vec![i(), s()], &format!("Pending {c}"));
    let running = "Running i:Terminated/Completed+ s:Running+ c:Running+";
    check("Never", vec![i(), s(), container("c", 0, Running)], running);
    let ended = "Running i:Terminated/Completed+ s:Running+ c:Terminated/Completed";
    check("Never", vec![i(), s(), exited("c", 0, 0)], ended);
    let all = |code| vec![i(), exited("s", 0, 137), exited("c", 0, code)];
    check("Never", all(0), "Succeeded i:Terminated/Completed+ s:Terminated/Error c:Terminated/Completed");
    check("Never", all(1), "Failed i:Terminated/Completed+ s:Terminated/Error c:Terminated/Error");
    check("Never", vec![exited("i", 0, 1)], &format!("Failed i:Terminated/Error {rest}"));
}

#[test]
fn restarted_containers_are_shown_with_their_last_end() {
    let up = || vec![exited("i", 0, 0), container("s", 0, Running)];
    let with = |c: Vec<ContainerSeen>| up().into_iter().chain(c).collect::<Vec<_>>();
    let view = check(
        "Always",
        with(vec![exited("c", 0, 1), container("c", 1, Running)]),
        "Running i:Terminated/Completed+ s:Running+ c:Running+(c.0)",
    );
    assert_eq!((view.containers[2].restarts, view.containers[2].image.as_str()), (1, "busybox"));
    // Waits for its back-off; the pod counts as running.
    let mut case = Case::new("Always", with(vec![exited("c", 0, 1)]));
    case.view(5);
    case.observed.containers = with(vec![exited("c", 1, 1)]);
    let view = case.view(16);
    assert_eq!(shown(&view), "Running i:Terminated/Completed+ s:Running+ c:Waiting/CrashLoopBackOff(c.1)");
    // The runtime's memory is lost; the record's is not.
    case.observed.containers = up();
    assert_eq!(shown(&case.view(16)), shown(&view));
    assert_eq!(case.view(16).containers[2].restarts, 1);
    // One that is made counts when it has started, or has failed to.
    let mut made = Case::new("Always", with(vec![exited("c", 0, 1), container("c", 1, Created)]));
    assert_eq!(made.view(1).containers[2].restarts, 0);
    let failed = Waiting { reason: WaitingReason::RunContainerError, message: String::new() };
    made.failed.insert("c".into(), failed);
    assert_eq!(made.view(1).containers[2].restarts, 1);
    // A failing sidecar and a failing init container.
    let mut failing = with(vec![container("c", 0, Running)]);
    failing[1] = exited("s", 0, 1);
    check("Always", failing, "Running i:Terminated/Completed+ s:Terminated/Error c:Running+");
    let rest = "s:Waiting/PodInitializing c:Waiting/PodInitializing";
    check("Always", vec![exited("i", 3, 1)], &format!("Pending i:Terminated/Error {rest}"));
}

#[test]
fn a_failed_start_is_shown_as_waiting() {
    let mut case = Case::new("Always", vec![]);
    let waiting = Waiting { reason: WaitingReason::ErrImagePull, message: "no such image".into() };
    case.failed.insert("i".into(), waiting);
    let view = case.view(0);
    let state =
        ContainerState::Waiting { reason: WaitingReason::ErrImagePull, message: "no such image".into() };
    assert_eq!(view.containers[0].state, state);
}

#[test]
fn an_unknown_state_is_shown_as_terminated() {
    let view = check(
        "Always",
        vec![exited("i", 0, 0), container("s", 0, Running), container("c", 0, Unknown)],
        "Running i:Terminated/Completed+ s:Running+ c:Terminated/ContainerStatusUnknown",
    );
    let ContainerState::Terminated(ended) = &view.containers[2].state else { unreachable!() };
    assert_eq!(ended.exit_code, 137);
}

#[test]
fn a_kill_for_memory_is_shown_as_oom_killed() {
    let victim = OomVictim { time: at(3), pid: 4711, command: "sleep".into() };
    let up = |c| vec![exited("i", 0, 0), container("s", 0, Running), c];
    let with = |stage: ContainerSeen| {
        let mut case = Case::new("Never", up(stage));
        let own = case.record.containers.get_or_default("c");
        own.oom = Some(Box::new(("c.0".into(), victim.clone())));
        case.view(3600).containers[2].clone()
    };
    // A child process: the container still runs.
    let view = with(container("c", 0, Running));
    assert_eq!(
        (view.oom.as_deref(), &view.state),
        (Some(&victim), &ContainerState::Running { since: at(0) })
    );
    let end = |code, reason: &str| {
        let view = with(ContainerSeen { reason: reason.into(), ..exited("c", 0, code) });
        let ContainerState::Terminated(ended) = view.state else { unreachable!() };
        assert_eq!(ended.oom.as_ref(), Some(&victim));
        (ended.reason, ended.signal)
    };
    assert_eq!(end(137, "Error"), ("OOMKilled".into(), 9));
    assert_eq!(end(1, "Error"), ("OOMKilled".into(), 0));
    assert_eq!(end(0, "Completed"), ("OOMKilled".into(), 0));
    assert_eq!(end(0, "OOMKilled"), ("OOMKilled".into(), 0));
    // Another run's victim is not this one's.
    let view = with(exited("c", 1, 1));
    assert_eq!(view.oom, None);
    let ContainerState::Terminated(ended) = view.state else { unreachable!() };
    assert_eq!((ended.reason, ended.oom), (EndReason::Error, None));
}

#[test]
fn a_kill_reported_after_the_end_is_shown() {
    let victim = OomVictim { time: at(3), pid: 4711, command: "sleep".into() };
    for (code, reason) in [(137, "OOMKilled"), (0, "OOMKilled")] {
        let mut case = Case::new("Never", vec![exited("i", 0, 0), exited("c", 0, code)]);
        case.view(3600);
        case.record.containers.get_mut("c").unwrap().note_oom("c.0", victim.clone());
        let ContainerState::Terminated(ended) = &case.view(3600).containers[2].state else { unreachable!() };
        assert_eq!((ended.reason.to_string().as_str(), ended.oom.as_ref()), (reason, Some(&victim)));
    }
}

#[test]
fn endings_and_addresses_are_shown() {
    let mut case = Case::new("Always", vec![exited("i", 0, 0)]);
    case.observed.sandboxes[0].ips = vec!["10.0.0.7".parse().unwrap()];
    assert_eq!(case.view(0).ips, case.observed.sandboxes[0].ips);
    case.record.ending = Some(Ending { since: at(9), grace_seconds: 30, why: "its manifest is gone".into() });
    let view = case.view(10);
    assert_eq!((view.terminating, view.reason.to_string().as_str()), (Some(at(9)), "Terminating"));
    assert_eq!(view.message, "its manifest is gone");
    case.observed.sandboxes[0].ready = false;
    case.observed.containers = vec![container("i", 0, Exited)];
    assert!(case.view(11).ips.is_empty());
}

/// Container `c` and sidecar `s` with all probes, of pods that restart what failed.
fn probed(containers: Vec<ContainerSeen>) -> Case {
    let probe = json!({"exec": {"command": ["true"]}});
    let with = |name: &str, policy: serde_json::Value| {
        json!({"name": name, "image": "i", "restartPolicy": policy,
               "startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe})
    };
    let pod = pod(json!({
        "restartPolicy": "OnFailure",
        "initContainers": [with("s", json!("Always"))],
        "containers": [with("c", json!(null))],
    }));
    Case { record: record(&pod), pod, ..Case::new("Always", containers) }
}

#[test]
fn probes_decide_started_and_ready() {
    let up = || vec![container("s", 0, Running), container("c", 0, Running)];
    let of = |results: &[(ProbeKind, Verdict)], ended: bool| {
        let mut case = probed(up());
        case.published = published("c.0", results);
        if ended {
            case.published.exit("c.0");
        }
        let view = case.view(5);
        let c = &view.containers[1];
        assert!(matches!(c.state, ContainerState::Running { .. }));
        (c.started, c.ready)
    };
    assert_eq!(of(&[], false), (false, false));
    assert_eq!(of(&[(Startup, Failure)], false), (false, false));
    assert_eq!(of(&[(Readiness, Success)], false), (false, false));
    assert_eq!(of(&[(Startup, Success)], false), (true, false));
    assert_eq!(of(&[(Startup, Success), (Readiness, Failure)], false), (true, false));
    assert_eq!(of(&[(Startup, Success), (Readiness, Success)], false), (true, true));
    assert_eq!(of(&[(Startup, Success), (Readiness, Success), (Liveness, Failure)], false), (true, true));
    // The kernel saw it end, the runtime did not yet.
    assert_eq!(of(&[(Startup, Success), (Readiness, Success)], true), (true, false));
}

#[test]
fn a_sidecar_that_has_not_started_keeps_the_pod_pending() {
    let mut case = probed(vec![container("s", 0, Running)]);
    assert_eq!(shown(&case.view(5)), "Pending s:Running c:Waiting/PodInitializing");
    case.published = published("s.0", &[(Startup, Success), (Readiness, Success)]);
    assert_eq!(shown(&case.view(5)), "Pending s:Running+ c:Waiting/PodInitializing");
}

#[test]
fn a_pod_whose_container_a_probe_ended_stays_running() {
    let mut case = probed(vec![container("s", 0, Running), exited("c", 0, 0)]);
    case.record.note_kill("c", "c.0", KillReason::Liveness);
    case.view(5);
    case.observed.containers[1] = exited("c", 1, 0);
    case.record.note_kill("c", "c.1", KillReason::Liveness);
    // It exited well, and comes again all the same.
    let view = case.view(16);
    assert_eq!(shown(&view), "Running s:Running c:Waiting/CrashLoopBackOff(c.1)");
    assert_eq!(view.containers[1].restarts, 1);
    // One that exited so by itself has done what it was there for.
    case.record.containers.get_mut("c").unwrap().probes = None;
    assert_eq!(shown(&case.view(16)), "Running s:Running c:Terminated/Completed");
}

#[test]
fn an_evicted_pod_is_shown_as_failed() {
    let running = vec![container("s", 0, Running), container("c", 1, Running)];
    let mut case = Case::new("Always", [running, vec![exited("i", 0, 0)]].concat());
    let low = "The node was low on resource: memory.";
    let eviction = Eviction {
        reason: "Evicted".into(),
        message: low.into(),
        grace: None,
        killed: false,
        condition: None,
    };
    case.record.evict(&eviction, std::time::Duration::from_secs(30), false, at(100));
    let view = case.view(101);
    assert_eq!(shown(&view), "Running i:Terminated/Completed+ s:Running+ c:Running+");
    assert_eq!(
        (view.reason.to_string().as_str(), view.message.as_str(), view.terminating),
        ("Evicted", low, Some(at(100)))
    );
    // As long as anything of it is left it has not failed, and what has ended does not wait for a start.
    case.observed.containers[1] = exited("c", 1, 137);
    assert_eq!(shown(&case.view(102)), "Running i:Terminated/Completed+ s:Running+ c:Terminated/Error");
    case.record.note_gone(at(103));
    case.observed = Observed::default();
    let view = case.view(104);
    assert_eq!(shown(&view), "Failed i:Terminated/Completed+ s:Waiting/PodInitializing c:Terminated/Error");
    assert_eq!(
        (view.reason.to_string().as_str(), view.message.as_str(), view.terminating),
        ("Evicted", low, None)
    );
    // One that never ran is not left waiting.
    case.record.containers = ByName::new();
    let view = case.view(104);
    assert_eq!(
        shown(&view),
        "Failed i:Waiting/PodInitializing s:Waiting/PodInitializing c:Terminated/ContainerStatusUnknown"
    );
    case.record.ending =
        Some(Ending { since: at(105), grace_seconds: 30, why: "its manifest is gone".into() });
    let view = case.view(106);
    assert_eq!(
        (view.phase, view.reason.to_string().as_str(), view.terminating),
        (PodPhase::Failed, "Terminating", Some(at(105)))
    );
    case.record.ending = None;
    case.record.restart(at(110));
    let view = case.view(110);
    assert_eq!(
        (view.phase, view.reason.to_string().as_str(), view.started),
        (PodPhase::Pending, "", at(110))
    );
}

#[test]
fn a_resize_is_shown_until_its_containers_have_what_they_should_have() {
    let mut case = Case::new("Never", vec![exited("i", 0, 0), container("c", 0, Running)]);
    let error = |text: &str| Some(ResizeInProgress { error: Some(text.to_owned()) });
    assert_eq!(case.view(3600).resizing, None);
    case.resizing = (true, None);
    assert_eq!(case.view(3600).resizing, Some(ResizeInProgress::default()));
    case.resizing = (true, Some("refused"));
    assert_eq!(case.view(3600).resizing, error("refused"));
    // The last try failed, and nothing is to be resized any more.
    case.resizing = (false, Some("refused"));
    assert_eq!(case.view(3600).resizing, None);
    // Begun by an earlier agent: the container has other resources than it should have.
    let plan = Plan {
        actions: vec![Action::UpdateResources { id: "c0".into(), name: "c".into() }],
        ..Plan::default()
    };
    let none = DeviceHealth::new();
    let facts = |record| Facts {
        devices: &none,
        pod: &case.pod,
        observed: &case.observed,
        record,
        published: &case.published,
        plan: &plan,
        failed: &case.failed,
        node_ips: &[],
        trouble: None,
        resize: None,
        resizing: (false, Some("refused")),
        api: None,
        ended: false,
    };
    assert_eq!(view(&facts(&case.record)).resizing, error("refused"));
    let mut evicted = case.record.clone();
    let eviction = Eviction {
        reason: "Evicted".into(),
        message: String::new(),
        grace: None,
        killed: false,
        condition: None,
    };
    evicted.evict(&eviction, std::time::Duration::from_secs(30), false, at(100));
    assert_eq!(view(&facts(&evicted)).resizing, None, "its containers end");
}
