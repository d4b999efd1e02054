//! State and reason of a pod as `kubectl get pods` computes them (pkg/printers/internalversion `printPod`).
//! Pure.

use nodewarden_model::{EndReason, PodPhase, WaitingReason};
use nodewarden_proto::nodewarden::v1::{Container, Ended, Pod, Waiting, container::State};

/// State and reason of a pod that is being ended.
const TERMINATING: &str = "Terminating";
const INIT: &str = "init";
const SIDECAR: &str = "sidecar";

/// The state in one word: `Running`, `Pending`, `Terminating`, ….
pub fn state(pod: &Pod) -> &str {
    if pod.terminating.is_some() { TERMINATING } else { &pod.phase }
}

/// The number of ready sidecars and containers, and the number of all of them.
pub fn ready(pod: &Pod) -> (usize, usize) {
    let counted = || pod.containers.iter().filter(|c| c.kind != INIT);
    (counted().filter(|c| c.ready).count(), counted().count())
}

/// The sum of the restarts of all containers.
pub fn restarts(pod: &Pod) -> u32 {
    pod.containers.iter().map(|c| c.restarts).sum()
}

/// The pod's own reason, else that of the container that keeps the pod from running; empty if all is well.
pub fn reason(pod: &Pod) -> String {
    if !pod.reason.is_empty() && pod.reason != TERMINATING {
        return pod.reason.clone();
    }
    if let Some(reason) = init_reason(pod) {
        return reason;
    }
    let mut found = String::new();
    for container in pod.containers.iter().filter(|c| c.kind != INIT) {
        match &container.state {
            Some(State::Waiting(waiting)) if !is_initialising(waiting) => {
                return waiting.reason.clone();
            }
            Some(State::Terminated(ended)) if found.is_empty() || ended.exit_code != 0 => {
                found = ended_reason(ended);
            }
            _ => {}
        }
    }
    let runs = |c: &&Container| matches!(c.state, Some(State::RunningSince(_)));
    let mut running = pod.containers.iter().filter(|c| c.kind != INIT).filter(runs);
    // Some containers completed while others run.
    let completed = EndReason::from(found.as_str()) == EndReason::Completed;
    let quiet = found.is_empty() || (completed && pod.phase == PodPhase::Running.name());
    match quiet {
        false => found,
        // Containers of a terminating pod are expected to be not ready.
        true if pod.terminating.is_none() && running.any(|c| !c.ready) => "NotReady".to_owned(),
        true => String::new(),
    }
}

/// `Init:1/2`, or the reason why the current init container does not complete.
fn init_reason(pod: &Pod) -> Option<String> {
    let init: Vec<&Container> =
        pod.containers.iter().filter(|c| c.kind == INIT || c.kind == SIDECAR).collect();
    let begun = pod.containers.iter().any(|c| c.kind != INIT && c.kind != SIDECAR && !c.id.is_empty());
    if begun {
        return None;
    }
    let turn = init.iter().position(|c| match &c.state {
        Some(State::Terminated(ended)) => c.kind == SIDECAR || ended.exit_code != 0,
        Some(State::RunningSince(_)) => c.kind == INIT || !c.started,
        _ => true,
    })?;
    Some(match &init[turn].state {
        Some(State::Terminated(ended)) => format!("Init:{}", ended_reason(ended)),
        Some(State::Waiting(waiting)) if !is_initialising(waiting) => {
            format!("Init:{}", waiting.reason)
        }
        _ => format!("Init:{turn}/{}", init.len()),
    })
}

/// Containers before it keep it from running: it is not what is wrong.
fn is_initialising(waiting: &Waiting) -> bool {
    waiting.reason == WaitingReason::PodInitializing.name()
}

fn ended_reason(ended: &Ended) -> String {
    match (ended.reason.is_empty(), ended.signal) {
        (false, _) => ended.reason.clone(),
        (true, 0) => format!("ExitCode:{}", ended.exit_code),
        (true, signal) => format!("Signal:{signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(kind: &str, state: State) -> Container {
        let id = if matches!(state, State::Waiting(_)) { "" } else { "x" };
        let started = matches!(state, State::RunningSince(_));
        Container {
            kind: kind.into(),
            id: id.into(),
            started,
            ready: started,
            state: Some(state),
            ..Container::default()
        }
    }

    fn waits(reason: &str) -> State {
        State::Waiting(Waiting { reason: reason.into(), ..Waiting::default() })
    }

    fn runs() -> State {
        State::RunningSince(prost_types::Timestamp::default())
    }

    fn ended(exit_code: i32, reason: &str) -> State {
        State::Terminated(Ended { exit_code, reason: reason.into(), ..Ended::default() })
    }

    #[track_caller]
    fn check(phase: &str, containers: Vec<(&str, State)>, expected: &str) {
        let containers = containers.into_iter().map(|(kind, state)| container(kind, state)).collect();
        let pod = Pod { phase: phase.into(), containers, ..Pod::default() };
        assert_eq!(reason(&pod), expected);
    }

    #[test]
    fn reasons() {
        let init = |state| {
            vec![
                ("init", state),
                ("sidecar", waits("PodInitializing")),
                ("container", waits("PodInitializing")),
            ]
        };
        check("Pending", init(waits("PodInitializing")), "Init:0/2");
        check("Pending", init(runs()), "Init:0/2");
        check("Pending", init(ended(0, "Completed")), "Init:1/2");
        check("Pending", init(ended(1, "Error")), "Init:Error");
        check("Pending", init(waits("CrashLoopBackOff")), "Init:CrashLoopBackOff");
        check("Pending", vec![("container", waits("ContainerCreating"))], "ContainerCreating");
        check("Running", vec![("init", ended(0, "Completed")), ("container", runs())], "");
        check(
            "Running",
            vec![("container", runs()), ("container", waits("CrashLoopBackOff"))],
            "CrashLoopBackOff",
        );
        check("Running", vec![("container", runs()), ("container", ended(0, "Completed"))], "");
        check("Running", vec![("container", runs()), ("container", ended(137, "OOMKilled"))], "OOMKilled");
        check(
            "Succeeded",
            vec![("sidecar", ended(0, "Completed")), ("container", ended(0, "Completed"))],
            "Completed",
        );
        check(
            "Failed",
            vec![("container", ended(3, "")), ("container", ended(0, "Completed"))],
            "ExitCode:3",
        );
    }

    #[test]
    fn a_running_container_that_is_not_ready_gives_not_ready() {
        let unready = |state, more| {
            let containers = vec![
                container("sidecar", runs()),
                Container { ready: false, ..container("container", state) },
                container("container", more),
            ];
            Pod { phase: "Running".into(), containers, ..Pod::default() }
        };
        let mut pod = unready(runs(), runs());
        assert_eq!((reason(&pod).as_str(), ready(&pod)), ("NotReady", (2, 3)));
        assert_eq!(reason(&unready(runs(), ended(0, "Completed"))), "NotReady");
        assert_eq!(reason(&unready(ended(0, "Completed"), runs())), "");
        assert_eq!(reason(&unready(runs(), waits("CrashLoopBackOff"))), "CrashLoopBackOff");
        assert_eq!(reason(&unready(runs(), ended(1, "Error"))), "Error");
        pod.terminating = Some(prost_types::Timestamp::default());
        assert_eq!(reason(&pod), "");
    }

    #[test]
    fn the_pods_own_reason_comes_first() {
        let mut pod = Pod { phase: "Pending".into(), reason: "CgroupNotReady".into(), ..Pod::default() };
        assert_eq!((state(&pod), reason(&pod).as_str()), ("Pending", "CgroupNotReady"));
        (pod.reason, pod.terminating) = ("Terminating".into(), Some(prost_types::Timestamp::default()));
        assert_eq!((state(&pod), reason(&pod).as_str()), ("Terminating", ""));
    }
}
