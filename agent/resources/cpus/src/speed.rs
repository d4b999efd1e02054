//! How long decisions take on a machine with 8 sockets, 16 NUMA nodes and 1,024 CPUs. `cargo test --release`
//! prints what is promised (below 5 ms); a build for development only has to stay within a bound that catches
//! what is exponential.

use std::time::{Duration, Instant};

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_topology::fixture::{Shape, equally_far, guaranteed};
use nodewarden_topology::{CpuTopology, Hint, Merger, Policy, Settings as Merging};

use crate::{CpuManager, Options, Settings, Sorting, distributed};

const BOUND: Duration =
    if cfg!(debug_assertions) { Duration::from_secs(2) } else { Duration::from_millis(5) };

/// The shortest of several runs, printed.
fn shortest<T>(name: &str, mut run: impl FnMut() -> T) -> T {
    let mut best: Option<(Duration, T)> = None;
    for _ in 0..5 {
        let start = Instant::now();
        let value = run();
        let took = start.elapsed();
        if best.as_ref().is_none_or(|best| took < best.0) {
            best = Some((took, value));
        }
    }
    let (took, value) = best.expect("several runs");
    println!("{name}: {took:?}");
    assert!(took < BOUND, "{name}: {took:?}");
    value
}

/// All CPUs but some, so that every NUMA node has another number of free ones.
fn uneven(topology: &CpuTopology) -> CpuSet {
    let taken = topology.nodes().iter().enumerate().flat_map(|(at, node)| node.cpus.iter().take(2 * at));
    let taken: CpuSet = taken.collect();
    topology.all().difference(&taken)
}

#[test]
fn decisions_are_fast_on_the_largest_machine() {
    let topology = Shape::LARGEST.topology(|_| false);
    assert_eq!((topology.all().len(), topology.nodes().len()), (1024, 16));
    let sets = [
        ("packed", Options::default()),
        ("full-pcpus-only", Options { full_cores: true, ..Options::default() }),
        (
            "distribute-cpus-across-numa",
            Options { across_numa: true, full_cores: true, ..Options::default() },
        ),
        ("distribute-cpus-across-cores", Options { across_cores: true, ..Options::default() }),
        ("prefer-align-cpus-by-uncorecache", Options { by_cache: true, ..Options::default() }),
        ("align-by-socket", Options { by_socket: true, ..Options::default() }),
    ];
    for (name, options) in sets {
        let settings = Settings::fixed(&topology, options, 2, &CpuSet::default(), false).unwrap();
        let manager = CpuManager::new(topology.clone(), settings);
        let pod = guaranteed("p", &[(false, false, 350, 1)]);
        let any = Hint { affinity: None, preferred: false };
        shortest(&format!("allocate, {name}"), || {
            manager.clone().allocate(&pod, &pod.containers[0], any).expect("room")
        });
    }
    let manager = CpuManager::new(
        topology.clone(),
        Settings::fixed(&topology, Options::default(), 2, &CpuSet::default(), false).unwrap(),
    );
    let pod = guaranteed("p", &[(false, false, 300, 1)]);
    let hints = shortest("hints of 16 NUMA nodes", || manager.hints(&pod, &pod.containers[0]));
    let settings = Merging { policy: Policy::BestEffort, ..Merging::default() };
    let merger = Merger::new(settings, equally_far(topology.node_set()));
    let both = [hints.clone(), hints];
    shortest("merging two resources with hints of 16 NUMA nodes", || merger.merge(&both));
}

/// Free CPUs that differ on every node are the worst case of distributing.
#[test]
fn distributing_is_fast_when_every_node_has_another_number_of_free_cpus() {
    for nodes in [1, 2] {
        let topology = Shape { nodes, caches: 4 / nodes, ..Shape::LARGEST }.topology(|_| false);
        let free = uneven(&topology);
        for wanted in [101, 350, 351, 600, 701] {
            let name = format!("distributing {wanted} CPUs over {} NUMA nodes", topology.nodes().len());
            shortest(&name, || distributed(&topology, &free, wanted, 1, Sorting::Packed).expect("room"));
        }
    }
}
