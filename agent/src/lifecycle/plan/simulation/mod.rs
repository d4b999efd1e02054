//! Random pods on a simulated runtime: a plan that is carried out, by an agent that dies at any step, leads to a pod
//! that needs nothing more, and on the way nothing runs twice, out of turn or again without a cause.

mod world;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use world::World;

/// A pod, how its containers end, and what is done to it from outside.
#[derive(Debug, Clone)]
struct Story {
    spec: Value,
    /// Exit codes of each container's runs in turn; after the last one it runs on, or ends well if it is an init
    /// container.
    codes: BTreeMap<String, Vec<i32>>,
    blows: Vec<Blow>,
}

#[derive(Debug, Clone, Copy)]
enum Blow {
    /// The agent dies after as many actions of a plan; the last one was done and not noted.
    AgentDies(usize),
    SandboxDies,
    /// A container's state cannot be told.
    Unknown,
    /// The runtime made a container that the agent did not get to start.
    Created,
    /// Time for running containers to end.
    Ends,
    /// The runtime forgets an ended container.
    Forgets,
}

fn story() -> impl Strategy<Value = Story> {
    let policy = || prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    let own = prop_oneof![3 => Just(Value::Null), 1 => Just(json!("Never")), 1 => Just(json!("OnFailure")),
        1 => Just(json!("Always"))];
    let hook = any::<bool>().prop_map(|has| match has {
        true => json!({"postStart": {"exec": {"command": ["true"]}}}),
        false => Value::Null,
    });
    let codes = prop::collection::vec(prop_oneof![2 => Just(0), 2 => Just(1), 1 => Just(137)], 0..4);
    let one = || (own.clone(), hook.clone(), codes.clone());
    let sidecar = (any::<bool>(), one());
    let blow = prop_oneof![
        3 => (0_usize..4).prop_map(Blow::AgentDies),
        1 => Just(Blow::SandboxDies),
        1 => Just(Blow::Unknown),
        1 => Just(Blow::Created),
        2 => Just(Blow::Ends),
        1 => Just(Blow::Forgets),
    ];
    let parts = (
        policy(),
        prop::collection::vec(sidecar, 0..4),
        prop::collection::vec(one(), 1..4),
        prop::collection::vec(blow, 0..12),
    );
    parts.prop_map(|(policy, init, ordinary, blows)| {
        let mut codes = BTreeMap::new();
        let mut init_containers = Vec::new();
        for (index, (sidecar, (own, hook, runs))) in init.into_iter().enumerate() {
            let name = format!("i{index}");
            let own = if sidecar {
                json!("Always")
            } else if own == "Always" {
                Value::Null
            } else {
                own
            };
            let hook = if sidecar { hook } else { Value::Null };
            init_containers.push(json!({"name": name, "restartPolicy": own, "lifecycle": hook}));
            codes.insert(name, runs);
        }
        let mut containers = Vec::new();
        for (index, (own, hook, runs)) in ordinary.into_iter().enumerate() {
            let name = format!("c{index}");
            containers.push(json!({"name": name, "restartPolicy": own, "lifecycle": hook}));
            codes.insert(name, runs);
        }
        let spec =
            json!({"restartPolicy": policy, "initContainers": init_containers, "containers": containers});
        Story { spec, codes, blows }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_story_ends_well(story in story()) {
        let mut world = World::new(&story);
        for blow in &story.blows {
            world.strike(*blow);
        }
        let plan = world.settle();
        world.is_as_wanted(&plan);
        // And so it stays.
        prop_assert_eq!(world.plan(), plan);
    }
}
