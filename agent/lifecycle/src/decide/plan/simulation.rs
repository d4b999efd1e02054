//! Random pods on a simulated runtime: a plan that is carried out, by an agent that dies at any step, leads
//! to a pod that needs nothing more, and on the way nothing runs twice, out of turn or again without a cause.
//! Probes succeed and fail in any order: no failure ends a container twice, and no sidecar is passed before
//! it has started. The pod is evicted at any moment: nothing of it starts until its back-off is over, and
//! then it starts as a new pod does.

mod evictions;
mod probes;
mod world;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use world::World;

use nodewarden_manifest::ProbeKind;
use nodewarden_model::Verdict;

/// A pod, how its containers end, and what is done to it from outside.
#[derive(Debug, Clone)]
struct Scenario {
    spec: Value,
    /// Exit codes of each container's runs in turn; after the last one it runs on, or ends well if it is an
    /// init container.
    codes: BTreeMap<String, Vec<i32>>,
    /// How containers exit that the agent ends.
    stopped: i32,
    disturbances: Vec<Disturbance>,
}

#[derive(Debug, Clone, Copy)]
enum Disturbance {
    /// The agent dies after as many actions of a plan; the last one was done and not noted.
    AgentDies(usize),
    SandboxDies,
    /// The runtime does not know a container's state.
    Unknown,
    /// The runtime made a container that the agent did not get to start.
    Created,
    /// Time for running containers to end.
    Ends,
    /// The runtime forgets an ended container.
    Forgets,
    /// A probe of one of the running containers is made; the agent may die before or after that is saved.
    Probe {
        which: usize,
        kind: ProbeKind,
        verdict: Verdict,
        then: Then,
    },
    /// The agent dies after it has noted that it ends a container for a probe, and the container still runs.
    KillCutOff,
    /// The pod is evicted and starts again; the agent dies at these moments of it.
    MakesWay {
        /// Its processes are killed by its cgroup before the worker knows of it.
        killed: bool,
        dies: [bool; 3],
    },
}

/// What follows a probe.
#[derive(Debug, Clone, Copy)]
enum Then {
    Published,
    DiesUnsaved,
    DiesUnpublished,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let policy = || prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    let own = prop_oneof![3 => Just(Value::Null), 1 => Just(json!("Never")), 1 => Just(json!("OnFailure")),
        1 => Just(json!("Always"))];
    let hook = any::<bool>().prop_map(|has| match has {
        true => json!({"postStart": {"exec": {"command": ["true"]}}}),
        false => Value::Null,
    });
    let codes = prop::collection::vec(prop_oneof![2 => Just(0), 2 => Just(1), 1 => Just(137)], 0..4);
    let probe = || {
        let thresholds = (1..3, 1..3).prop_map(|(success, failure)| {
            json!({"exec": {"command": ["true"]}, "successThreshold": success, "failureThreshold": failure})
        });
        prop_oneof![1 => Just(Value::Null), 1 => thresholds]
    };
    let all_probes = (probe(), probe(), probe()).prop_map(
        |(startup, readiness, liveness)| json!({"startupProbe": startup, "readinessProbe": readiness, "livenessProbe": liveness}),
    );
    let probes = prop_oneof![1 => Just(json!({})), 1 => all_probes];
    let one = || (own.clone(), hook.clone(), codes.clone(), probes.clone());
    let kind = prop::sample::select(ProbeKind::ALL.to_vec());
    let verdict = prop_oneof![1 => Just(Verdict::Success), 2 => Just(Verdict::Failure)];
    let then = prop_oneof![6 => Just(Then::Published), 1 => Just(Then::DiesUnsaved), 1 => Just(Then::DiesUnpublished)];
    let sidecar = (any::<bool>(), one());
    let disturbance = prop_oneof![
        3 => (0_usize..4).prop_map(Disturbance::AgentDies),
        1 => Just(Disturbance::SandboxDies),
        1 => Just(Disturbance::Unknown),
        1 => Just(Disturbance::Created),
        2 => Just(Disturbance::Ends),
        1 => Just(Disturbance::Forgets),
        8 => (any::<usize>(), kind, verdict, then)
            .prop_map(|(which, kind, verdict, then)| Disturbance::Probe { which, kind, verdict, then }),
        1 => Just(Disturbance::KillCutOff),
        1 => (any::<bool>(), any::<[bool; 3]>()).prop_map(|(killed, dies)| Disturbance::MakesWay { killed, dies }),
    ];
    let parts = (
        policy(),
        prop::collection::vec(sidecar, 0..4),
        prop::collection::vec(one(), 1..4),
        prop_oneof![Just(0), Just(137), Just(143)],
        prop::collection::vec(disturbance, 0..24),
    );
    parts.prop_map(|(policy, init, ordinary, stopped, disturbances)| {
        let mut codes = BTreeMap::new();
        let mut init_containers = Vec::new();
        for (index, (sidecar, (own, hook, runs, probes))) in init.into_iter().enumerate() {
            let name = format!("i{index}");
            let own = if sidecar {
                json!("Always")
            } else if own == "Always" {
                Value::Null
            } else {
                own
            };
            let hook = if sidecar { hook } else { Value::Null };
            let probes = if sidecar { probes } else { json!({}) };
            init_containers
                .push(with(json!({"name": name, "restartPolicy": own, "lifecycle": hook}), probes));
            codes.insert(name, runs);
        }
        let mut containers = Vec::new();
        for (index, (own, hook, runs, probes)) in ordinary.into_iter().enumerate() {
            let name = format!("c{index}");
            containers.push(with(json!({"name": name, "restartPolicy": own, "lifecycle": hook}), probes));
            codes.insert(name, runs);
        }
        let spec =
            json!({"restartPolicy": policy, "initContainers": init_containers, "containers": containers});
        Scenario { spec, codes, stopped, disturbances }
    })
}

/// A container with its probes.
fn with(mut container: Value, probes: Value) -> Value {
    if let (Value::Object(all), Value::Object(probes)) = (&mut container, probes) {
        all.extend(probes);
    }
    container
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_story_ends_well(scenario in scenario()) {
        let mut world = World::new(&scenario);
        for disturbance in &scenario.disturbances {
            world.strike(*disturbance);
        }
        let plan = world.settle();
        world.is_as_wanted(&plan);
        // And so it stays.
        prop_assert_eq!(world.plan(), plan);
    }
}
