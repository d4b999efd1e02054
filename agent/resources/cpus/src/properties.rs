//! What holds for every machine, setting and sequence of admissions, removals and restarts.

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::{Container, Pod};
use nodewarden_topology::fixture::{Shape, equally_far, guaranteed};
use nodewarden_topology::{
    AllocateError, Allocated, CpuTopology, Hint, Hints, Merger, Provider, Settings as Merging, admit,
};
use proptest::prelude::*;

use crate::{CpuManager, Options, Settings, StateFile, distributed, packed};

/// One thing that happens on a node.
#[derive(Debug, Clone)]
enum Step {
    /// A pod arrives: containers as for [`guaranteed`], with CPUs as hundredths of the machine.
    Admit(Vec<(bool, bool, u32)>),
    RemovePod(prop::sample::Index),
    RemoveContainer(prop::sample::Index, prop::sample::Index),
    /// The agent starts again, perhaps with other reserved CPUs, and other CPUs offline.
    Restart {
        reserved: Option<usize>,
        offline: Option<u32>,
    },
}

fn shapes() -> impl Strategy<Value = Shape> {
    let size = (1..=8u32, 0..=2u32, 1..=2u32, 1..=16u32, 1..=2u32);
    (size, any::<bool>()).prop_map(|((sockets, nodes, caches, cores, threads), threads_last)| Shape {
        sockets,
        nodes,
        caches,
        cores,
        threads,
        threads_last,
    })
}

fn options() -> impl Strategy<Value = Options> {
    let bits = prop::collection::vec(any::<bool>(), 6);
    bits.prop_map(|bits| Options {
        full_cores: bits[0] && !bits[3],
        across_numa: bits[1] && !bits[3],
        by_socket: bits[2],
        across_cores: bits[3],
        strict: bits[4],
        by_cache: bits[5] && !bits[3] && !bits[1],
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let container = (any::<bool>(), prop::bool::weighted(0.2), 0..40u32);
    let step = prop_oneof![
        6 => prop::collection::vec(container, 1..4).prop_map(Step::Admit),
        2 => any::<prop::sample::Index>().prop_map(Step::RemovePod),
        2 => (any::<prop::sample::Index>(), any::<prop::sample::Index>())
            .prop_map(|(pod, container)| Step::RemoveContainer(pod, container)),
        1 => (prop::option::of(1..4usize), prop::option::of(0..1024u32))
            .prop_map(|(reserved, offline)| Step::Restart { reserved, offline }),
    ];
    prop::collection::vec(step, 1..12)
}

/// A manager that checks on each call that hints are honoured.
struct Checked<'a>(&'a mut CpuManager);

impl Provider for Checked<'_> {
    fn container_hints(&mut self, pod: &Pod, container: &Container) -> Hints {
        self.0.hints(pod, container)
    }

    fn pod_hints(&mut self, pod: &Pod) -> Hints {
        self.0.pod_hints(pod)
    }

    fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Hint,
    ) -> Result<Allocated, AllocateError> {
        let hinted = self.0.hints(pod, container).into_values().flatten().flatten();
        let enough = hinted.into_iter().any(|hint| hint.affinity == affinity.affinity);
        let result = self.0.allocate(pod, container, affinity)?;
        let cpus = self.0.assignments().get(&pod.uid, &container.name);
        if let (Some(nodes), Some(cpus), true) = (affinity.affinity, cpus, enough) {
            let topology = self.0.topology();
            let sockets = topology.sockets_of_nodes(nodes).into_iter();
            let allowed = match self.0.settings().options.by_socket {
                true => sockets.fold(CpuSet::default(), |all, socket| all.union(&socket.cpus)),
                false => topology.cpus_of_nodes(nodes),
            };
            // With full-pcpus-only single threads of the nodes count in hints, and are not given.
            let whole_cores = self.0.settings().options.full_cores;
            assert!(whole_cores || cpus.is_subset(&allowed), "{cpus} are not on nodes {nodes}");
        }
        Ok(result)
    }

    fn allocate_pod(&mut self, pod: &Pod, affinity: Hint) -> Result<Allocated, AllocateError> {
        Provider::allocate_pod(self.0, pod, affinity)
    }

    fn release(&mut self, pod_uid: &str, container: &str) {
        self.0.remove(pod_uid, container);
    }
}

fn merger(policy: &str, scope: &str, topology: &CpuTopology) -> Merger {
    let nodes = topology.node_set();
    let options = BTreeMap::from([("max-allowable-numa-nodes".to_owned(), "16".to_owned())]);
    let settings = Merging::new(policy, scope, &options, nodes.len(), true).unwrap();
    Merger::new(settings, equally_far(nodes))
}

/// What always holds. `reserved_apart`: whether no container had its CPUs before they were reserved.
fn check(manager: &CpuManager, reserved_apart: bool) {
    assert!(!reserved_apart || manager.is_consistent(), "{:?}", manager.assignments());
    let (all, shared) = (manager.assignments().all(), manager.shared());
    assert!(!shared.is_empty(), "the shared pool is never empty");
    assert!(all.is_subset(manager.topology().all()), "{all} are online");
    if !shared.is_subset(&manager.settings().reserved) {
        assert!(shared.is_disjoint(&all), "{shared} are shared and {all} are not");
    }
    let both = shared.union(&all).union(&manager.settings().reserved);
    assert_eq!(&both, manager.topology().all(), "no CPU is lost");
}

fn run(shape: Shape, options: Options, policy: (&str, &str), count: usize, steps: &[Step]) {
    let topology = shape.topology(|_| false);
    let single = policy.0 == "single-numa-node";
    let Ok(settings) = Settings::fixed(&topology, options, count, &CpuSet::default(), single) else { return };
    let merger = merger(policy.0, policy.1, &topology);
    let mut manager = CpuManager::new(topology, settings);
    let mut pods: Vec<Pod> = Vec::new();
    let mut reserved_apart = true;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Admit(containers) => {
                let size = manager.topology().all().len() as u32;
                let scaled: Vec<_> = containers
                    .iter()
                    .map(|(init, sidecar, share)| (*init, *sidecar, (share * size / 100).max(1), 1))
                    .collect();
                let pod = guaranteed(&format!("p{at}"), &scaled);
                let before = manager.clone();
                match admit(&merger, &mut [&mut Checked(&mut manager)], &pod, false) {
                    Ok(()) => {
                        let given = manager.assignments().all().difference(&before.assignments().all());
                        assert!(given.is_subset(&before.available()), "{given} was given twice");
                        for container in pod.init_containers.iter().chain(&pod.containers) {
                            let own =
                                manager.assignments().get(&pod.uid, &container.name).map_or(0, CpuSet::len);
                            assert_eq!(own as i64, container.resources.requests["cpu"].value());
                        }
                        let mut after = manager.clone();
                        after.retain(|uid, _| uid != pod.uid);
                        assert_eq!(
                            after.assignments(),
                            before.assignments(),
                            "removing gives back what was given"
                        );
                        assert_eq!(after.shared(), before.shared(), "removing gives back what was given");
                        pods.push(pod);
                    }
                    Err(_) => {
                        assert_eq!(manager.assignments(), before.assignments(), "a rejected pod has nothing");
                    }
                }
            }
            Step::RemovePod(index) if !pods.is_empty() => {
                let pod = pods.remove(index.index(pods.len()));
                manager.retain(|uid, _| uid != pod.uid);
            }
            Step::RemoveContainer(pod, container) if !pods.is_empty() => {
                let pod = &pods[pod.index(pods.len())];
                let names: Vec<_> =
                    pod.init_containers.iter().chain(&pod.containers).map(|c| &c.name).collect();
                manager.remove(&pod.uid, names[container.index(names.len())]);
            }
            Step::RemovePod(_) | Step::RemoveContainer(..) => {}
            Step::Restart { reserved, offline } => {
                let file = StateFile::read(&StateFile::of(&manager).write(false), |_| None).unwrap();
                assert_eq!(&file.assignments, manager.assignments());
                let topology = shape.topology(|cpu| Some(cpu) == *offline);
                if topology.all().is_empty() {
                    continue;
                }
                let settings = reserved.and_then(|count| {
                    Settings::fixed(&topology, options, count, &CpuSet::default(), single).ok()
                });
                let settings = settings.unwrap_or_else(|| Settings {
                    reserved: manager.settings().reserved.intersection(topology.all()),
                    ..manager.settings().clone()
                });
                let (restored, findings) = CpuManager::restore(topology, settings, &file.assignments);
                let same =
                    restored.settings() == manager.settings() && restored.topology() == manager.topology();
                assert!(!same || !reserved_apart || findings.is_empty(), "{findings:?}");
                let online = restored.topology().all().clone();
                for (uid, containers) in &manager.assignments().containers {
                    for (name, cpus) in containers {
                        let kept = restored.assignments().get(uid, name).cloned().unwrap_or_default();
                        assert_eq!(kept, cpus.intersection(&online), "{uid} {name} keeps what is online");
                    }
                }
                reserved_apart = false;
                manager = restored;
            }
        }
        check(&manager, reserved_apart);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// No CPU is given twice, the shared pool is never empty, removing gives back what was given, hints are
    /// honoured, a rejected pod keeps nothing, and restarting keeps what is online.
    #[test]
    fn sequences_keep_the_invariants(
        shape in shapes(),
        options in options(),
        policy in prop::sample::select(vec![
            ("none", "container"), ("best-effort", "container"), ("best-effort", "pod"),
            ("restricted", "container"), ("restricted", "pod"), ("single-numa-node", "container"),
        ]),
        count in 1..4usize,
        steps in steps(),
    ) {
        // As many NUMA nodes as are fast in a build for development.
        let shape = if shape.sockets * shape.nodes > 8 { Shape { nodes: 1, ..shape } } else { shape };
        run(shape, options, policy, count, &steps);
    }

    /// Choosing gives as many CPUs as wanted, all of them free, whatever is free and offline.
    #[test]
    fn choices_are_free_and_complete(
        shape in shapes(),
        options in options(),
        offline in prop::collection::btree_set(0..1024u32, 0..20),
        taken in prop::collection::btree_set(0..1024u32, 0..300),
        share in 0..=100usize,
        group in 1..=2usize,
    ) {
        let shape = if shape.sockets * shape.nodes > 8 { Shape { nodes: 1, ..shape } } else { shape };
        let topology = shape.topology(|cpu| offline.contains(&cpu));
        let free = topology.all().difference(&taken.iter().copied().collect());
        let wanted = free.len() * share / 100;
        let sorting = if options.across_cores { crate::Sorting::Spread } else { crate::Sorting::Packed };
        for chosen in [
            packed(&topology, &free, wanted, sorting, options.by_cache),
            distributed(&topology, &free, wanted, group, sorting),
        ] {
            let chosen = chosen.unwrap();
            prop_assert!(chosen.is_subset(&free), "{} of {}", chosen, free);
            prop_assert_eq!(chosen.len(), wanted);
        }
        let error = packed(&topology, &free, free.len() + 1, sorting, options.by_cache).unwrap_err();
        prop_assert_eq!((error.requested, error.available), (free.len() + 1, free.len()));
    }
}
