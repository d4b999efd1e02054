//! The steps of a history, as numbers that shrink well.

use proptest::prelude::*;

pub(super) const RESOURCES: [&str; 3] = ["a.b/gpu", "c.d/nic", "e.f/fpga"];
pub(super) const PODS: usize = 5;
/// Number of devices that a plugin may list: 0 to 5.
pub(super) const DEVICES: usize = 6;

/// One step of a history. Resources, pods and reservations are given by number.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Plugins of these resources (as bits) register; most send their list at once.
    Register {
        resources: u8,
        list: Option<Vec<Listing>>,
    },
    /// The newest registration, or the one before, sends a list.
    Devices {
        resource: usize,
        stale: bool,
        list: Vec<Listing>,
    },
    Stopped {
        resource: usize,
        stale: bool,
    },
    /// Time passes, and expired resources are removed.
    Wait {
        seconds: u64,
    },
    /// A pod is planned with answers to the plan's questions; the plan is kept, or reserved at once.
    Plan {
        pod: usize,
        answers: Vec<Vec<usize>>,
        keep: bool,
    },
    /// A kept plan is reserved.
    Reserve {
        plan: usize,
    },
    /// The plugins answer, except for some calls.
    Commit {
        reservation: usize,
        unanswered: u8,
    },
    Cancel {
        reservation: usize,
    },
    /// The task that holds the reservation is ended.
    Drop {
        reservation: usize,
    },
    Release {
        pod: usize,
    },
    Surplus {
        pod: usize,
    },
    /// The agent is killed, and starts from the checkpoint.
    Restart,
    /// The agent is killed, the checkpoint is damaged, and the runtime knows all containers except init
    /// containers.
    Damaged,
}

/// One line of a plugin's list.
#[derive(Debug, Clone)]
pub(super) struct Listing {
    /// `DEVICES` is the empty id.
    pub id: usize,
    pub healthy: bool,
    /// Nodes 0 and 1 as bits.
    pub numa: u8,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let resource = || 0..RESOURCES.len();
    let pod = || 0..PODS;
    let which = || any::<prop::sample::Index>().prop_map(|index| index.index(12));
    let stale = || prop::bool::weighted(0.1);
    let answers = prop::collection::vec(prop::collection::vec(0..DEVICES + 1, 0..4), 0..4);
    prop_oneof![
        6 => (prop_oneof![2 => Just(7u8), 1 => 0u8..8], prop::option::weighted(0.9, list()))
            .prop_map(|(resources, list)| Step::Register { resources, list }),
        6 => (resource(), stale(), list())
            .prop_map(|(resource, stale, list)| Step::Devices { resource, stale, list }),
        2 => (resource(), stale()).prop_map(|(resource, stale)| Step::Stopped { resource, stale }),
        1 => (0u64..900).prop_map(|seconds| Step::Wait { seconds }),
        24 => (pod(), answers, prop::bool::weighted(0.2))
            .prop_map(|(pod, answers, keep)| Step::Plan { pod, answers, keep }),
        4 => which().prop_map(|plan| Step::Reserve { plan }),
        16 => (which(), prop_oneof![4 => Just(0u8), 1 => any::<u8>()])
            .prop_map(|(reservation, unanswered)| Step::Commit { reservation, unanswered }),
        2 => which().prop_map(|reservation| Step::Cancel { reservation }),
        1 => which().prop_map(|reservation| Step::Drop { reservation }),
        3 => pod().prop_map(|pod| Step::Release { pod }),
        6 => pod().prop_map(|pod| Step::Surplus { pod }),
        1 => Just(Step::Restart),
        1 => Just(Step::Damaged),
    ]
}

/// A list with most devices healthy and some not listed, and some wrong lines.
fn list() -> impl Strategy<Value = Vec<Listing>> {
    let line = (0..=DEVICES, prop::bool::weighted(0.8), 0u8..4);
    let line = line.prop_map(|(id, healthy, numa)| Listing { id, healthy, numa });
    let state = prop_oneof![8 => Just(Some(true)), 1 => Just(Some(false)), 1 => Just(None)];
    let correct = prop::collection::vec((state, 0u8..4), DEVICES);
    (correct, prop::collection::vec(line, 0..3)).prop_map(|(correct, wrong)| {
        let listed = correct
            .into_iter()
            .enumerate()
            .filter_map(|(id, (state, numa))| Some(Listing { id, healthy: state?, numa }));
        listed.chain(wrong).collect()
    })
}
