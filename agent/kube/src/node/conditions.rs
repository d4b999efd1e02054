//! The node's conditions (pkg/kubelet/nodestatus/setters.go).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::facts::{Readings, RuntimeFacts};

/// The type of the condition that says whether pods can run.
pub const READY: &str = "Ready";
/// Resources without which no pod can be admitted.
const NEEDED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// The conditions that the agent sets, in the kubelet's order. A transition time of `known` is kept while the
/// status is the same. Conditions of others are not among them.
pub fn conditions(readings: &Readings, known: &[NodeCondition], now: Timestamp) -> Vec<NodeCondition> {
    let pressure = readings.pressure;
    let (ready, message) = match not_ready(readings) {
        None => (true, "kubelet is posting ready status".to_owned()),
        Some(message) => (false, message),
    };
    let of = |kind: &str, is: bool, since: Option<Timestamp>, reason: &str, message: &str| {
        let status = if is { "True" } else { "False" };
        let before = known.iter().find(|condition| condition.type_ == kind);
        let kept =
            before.filter(|before| before.status == status).and_then(|b| b.last_transition_time.clone());
        NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(seconds(now))),
            last_transition_time: kept.or(Some(Time(seconds(since.unwrap_or(now))))),
        }
    };
    let or = |is: bool, met: &'static str, not: &'static str| if is { met } else { not };
    let (memory, disk, pid) = (pressure.memory.is_some(), pressure.disk.is_some(), pressure.pid.is_some());
    vec![
        of(
            "MemoryPressure",
            memory,
            pressure.memory,
            or(memory, "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory"),
            or(
                memory,
                "kubelet has insufficient memory available",
                "kubelet has sufficient memory available",
            ),
        ),
        of(
            "DiskPressure",
            disk,
            pressure.disk,
            or(disk, "KubeletHasDiskPressure", "KubeletHasNoDiskPressure"),
            or(disk, "kubelet has disk pressure", "kubelet has no disk pressure"),
        ),
        of(
            "PIDPressure",
            pid,
            pressure.pid,
            or(pid, "KubeletHasInsufficientPID", "KubeletHasSufficientPID"),
            or(pid, "kubelet has insufficient PID available", "kubelet has sufficient PID available"),
        ),
        of(READY, ready, None, or(ready, "KubeletReady", "KubeletNotReady"), &message),
    ]
}

/// Why the node is not ready; `None` if it is. Several reasons are listed as a kubelet does
/// (k8s.io/apimachinery/pkg/util/errors `Aggregate`).
fn not_ready(readings: &Readings) -> Option<String> {
    let mut reasons = Vec::new();
    match &readings.runtime {
        RuntimeFacts::None => reasons.push("there is no container runtime".to_owned()),
        RuntimeFacts::Away(cause) => reasons.push(format!("container runtime is down: {cause}")),
        RuntimeFacts::Answers { unmet, .. } => {
            for unmet in unmet {
                let what = match unmet.condition.as_str() {
                    "NetworkReady" => "container runtime network not ready",
                    _ => "container runtime not ready",
                };
                let (condition, reason, message) = (&unmet.condition, &unmet.reason, &unmet.message);
                reasons.push(format!("{what}: {condition}=false reason:{reason} message:{message}"));
            }
        }
    }
    if readings.shutting_down {
        reasons.push("node is shutting down".to_owned());
    }
    let has = |name: &&str| readings.resources.iter().any(|resource| resource.name == **name);
    let missing: Vec<&str> = NEEDED.iter().copied().filter(|name| !has(name)).collect();
    if !missing.is_empty() {
        reasons.push(format!("missing node capacity for resources: {}", missing.join(", ")));
    }
    match reasons.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// The time in whole seconds, as objects of the API have it.
pub fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use nodewarden_model::NodeResource;

    use super::super::facts::{Pressures, Unmet};
    use super::*;

    fn readings() -> Readings {
        let resource = |name: &&str| NodeResource { name: (*name).to_owned(), capacity: 9, allocatable: 8 };
        Readings {
            resources: NEEDED.iter().map(resource).collect(),
            runtime: RuntimeFacts::Answers {
                name: "containerd".into(),
                version: "2".into(),
                unmet: Vec::new(),
            },
            ..Readings::default()
        }
    }

    fn ready(readings: &Readings) -> (String, String, String) {
        let found = conditions(readings, &[], Timestamp::UNIX_EPOCH).pop().unwrap();
        (found.status, found.reason.unwrap(), found.message.unwrap())
    }

    #[test]
    fn reasons_and_messages_are_the_kubelets() {
        let types: Vec<String> =
            conditions(&readings(), &[], Timestamp::UNIX_EPOCH).into_iter().map(|c| c.type_).collect();
        assert_eq!(types, ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]);
        assert_eq!(
            ready(&readings()),
            ("True".into(), "KubeletReady".into(), "kubelet is posting ready status".into())
        );
        let unmet = Unmet {
            condition: "NetworkReady".into(),
            reason: "NetworkPluginNotReady".into(),
            message: "cni plugin not initialized".into(),
        };
        let answers = RuntimeFacts::Answers { name: "c".into(), version: "2".into(), unmet: vec![unmet] };
        let network = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                       message:cni plugin not initialized";
        for (change, message) in [
            (Readings { runtime: answers.clone(), ..readings() }, network.to_owned()),
            (
                Readings { runtime: RuntimeFacts::Away("gone".into()), ..readings() },
                "container runtime is down: gone".to_owned(),
            ),
            (Readings { shutting_down: true, ..readings() }, "node is shutting down".to_owned()),
            (
                Readings { runtime: answers, shutting_down: true, ..readings() },
                format!("[{network}, node is shutting down]"),
            ),
            (
                Readings { resources: readings().resources[..3].to_vec(), ..readings() },
                "missing node capacity for resources: pods".to_owned(),
            ),
        ] {
            assert_eq!(ready(&change), ("False".into(), "KubeletNotReady".into(), message));
        }
    }

    #[test]
    fn the_transition_time_is_that_of_the_last_change() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let pressed =
            Readings { pressure: Pressures { memory: Some(at(50)), ..Pressures::default() }, ..readings() };
        let first = conditions(&readings(), &[], at(10));
        let same = conditions(&readings(), &first, at(20));
        let times = |c: &NodeCondition| {
            [&c.last_heartbeat_time, &c.last_transition_time].map(|time| time.as_ref().unwrap().0.as_second())
        };
        assert_eq!(times(&same[0]), [20, 10]);
        let changed = conditions(&pressed, &same, at(60));
        assert_eq!((times(&changed[0]), changed[0].status.as_str()), ([60, 50], "True"));
        assert_eq!(times(&changed[3]), [60, 10]);
    }
}
