//! What is kept after a change of the settings or of the machine's memory.

use std::collections::BTreeMap;

use super::*;
use crate::MEMORY;

const GIB: u64 = 1 << 30;

/// NUMA nodes with this much memory, in GiB.
fn nodes(sizes: &[u64]) -> Vec<NumaNode> {
    let node = |(id, size): (usize, &u64)| NumaNode {
        id: id as u32,
        memory_bytes: size * GIB,
        huge_pages: Vec::new(),
        distances: Vec::new(),
    };
    sizes.iter().enumerate().map(node).collect()
}

fn settings(sizes: &[u64], reserved: u64) -> Settings {
    let reserved = BTreeMap::from([(0, BTreeMap::from([(MEMORY.to_owned(), reserved * GIB)]))]);
    Settings::fixed(&nodes(sizes), reserved).unwrap()
}

/// Pod `p` with a container `c` that has this much memory of these nodes.
fn saved(numa: &str, resource: &str, size: u64) -> Blocks {
    let mut blocks = Blocks::default();
    let block =
        Block { nodes: NodeSet::parse(numa).unwrap(), resource: resource.to_owned(), size: size * GIB };
    blocks.set("p", "c", vec![block]);
    blocks
}

fn restored(sizes: &[u64], reserved: u64, blocks: &Blocks) -> (MemoryManager, Vec<String>) {
    let before = MachineState::empty(&nodes(&[4, 4]), &settings(&[4, 4], 1).reserved).unwrap();
    let mut machine = before;
    blocks.taken().for_each(|block| _ = machine.take(block.nodes, &block.resource, block.size));
    let (manager, findings) =
        MemoryManager::restore(&nodes(sizes), settings(sizes, reserved), &machine, blocks).unwrap();
    (manager, findings.iter().map(ToString::to_string).collect())
}

#[test]
fn blocks_are_kept_and_changes_are_reported() {
    for (sizes, reserved, block, expected) in [
        (&[4, 4][..], 1, ("0", MEMORY, 2), &[][..]),
        (
            &[4, 4],
            2,
            ("0", MEMORY, 2),
            &["the memory of the NUMA nodes, or what is reserved of it, is not that of"],
        ),
        (
            &[2, 4],
            1,
            ("0", MEMORY, 2),
            &["NUMA nodes 0: containers have 1073741824 bytes of memory more than there is"],
        ),
        (&[4], 1, ("0-1", MEMORY, 5), &["pod p, container c: there is no memory on NUMA nodes 0-1"]),
        (
            &[4, 4],
            1,
            ("0", "hugepages-1Gi", 1),
            &["pod p, container c: there is no hugepages-1Gi on NUMA nodes 0"],
        ),
    ] {
        let blocks = saved(block.0, block.1, block.2);
        let (mut manager, findings) = restored(sizes, reserved, &blocks);
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        assert!(findings.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{findings:?}");
        let gone = findings.iter().any(|found| found.contains("there is no"));
        assert_eq!(manager.blocks() == &blocks, !gone, "{findings:?}");
        manager.remove("p", "c");
        let empty = MachineState::empty(&nodes(sizes), &manager.settings().reserved).unwrap();
        assert_eq!(manager.machine(), &empty, "everything is given back");
    }
}

#[test]
fn without_a_policy_memory_comes_from_any_node() {
    let blocks = saved("0", MEMORY, 2);
    let none = Settings { policy: Policy::None, ..settings(&[4, 4], 1) };
    let (manager, findings) =
        MemoryManager::restore(&nodes(&[4, 4]), none, &MachineState::default(), &blocks).unwrap();
    assert!(matches!(findings[..], [Finding::NoPolicy { .. }]), "{findings:?}");
    assert_eq!((manager.blocks(), manager.nodes_of("p", "c")), (&Blocks::default(), None));
}
