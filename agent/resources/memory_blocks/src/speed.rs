//! How long decisions take on a machine with 16 NUMA nodes. `cargo test --release` prints what is promised
//! (below 5 ms); a build for development only has to stay within a bound that catches what grows faster than
//! the hints.

use std::time::{Duration, Instant};

use nodewarden_topology::fixture::guaranteed;
use nodewarden_topology::{Hint, HugePages, NumaNode};

use crate::{MemoryManager, Settings};

const BOUND: Duration =
    if cfg!(debug_assertions) { Duration::from_secs(2) } else { Duration::from_millis(5) };

#[test]
fn decisions_are_fast_on_16_numa_nodes() {
    let nodes: Vec<NumaNode> = (0..16)
        .map(|id| NumaNode {
            id,
            memory_bytes: 64 << 30,
            huge_pages: vec![HugePages { size_kib: 2048, count: 64 }],
            distances: Vec::new(),
        })
        .collect();
    let reserved = [(0, [("memory".to_owned(), 1u64 << 30)].into())].into();
    let manager = MemoryManager::new(&nodes, Settings::fixed(&nodes, reserved).unwrap()).unwrap();
    let pod = guaranteed("p", &[(false, false, 1, 200 << 10)]);
    let any = Hint { affinity: None, preferred: false };
    let mut best = [Duration::MAX; 2];
    for _ in 0..5 {
        let start = Instant::now();
        let hints = manager.hints(&pod, &pod.containers[0]);
        best[0] = best[0].min(start.elapsed());
        assert!(!hints.is_empty());
        let start = Instant::now();
        manager.clone().allocate(&pod, &pod.containers[0], any).expect("room");
        best[1] = best[1].min(start.elapsed());
    }
    println!("memory: hints of 16 NUMA nodes: {:?}, allocate: {:?}", best[0], best[1]);
    assert!(best.iter().all(|took| *took < BOUND), "{best:?}");
}
