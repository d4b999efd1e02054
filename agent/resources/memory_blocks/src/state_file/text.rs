//! The text that the checksum covers: the Go value as `dump.ForHash` prints it, with sorted keys.

use std::fmt::Write;

use nodewarden_topology::NodeSet;

use super::StateFile;
use crate::{Block, NodeState, Table};

/// The text, with `pod_level` with what pods have as a whole.
pub(super) fn of(state: &StateFile, pod_level: bool) -> String {
    let machine = map(state.machine.0.iter().map(|(number, state)| format!("{number}:{}", node(state))));
    let containers = state.blocks.containers.iter().map(|(uid, containers)| {
        format!("{uid}:{}", map(containers.iter().map(|(name, own)| format!("{name}:{}", blocks(own)))))
    });
    let mut text = format!(
        "(*state.MemoryManagerCheckpoint){{PolicyName:(string){} MachineState:(state.NUMANodeMap){machine} \
         Entries:(state.ContainerMemoryAssignments){}",
        state.policy,
        map(containers)
    );
    if pod_level {
        let pods = state.blocks.pods.iter();
        let pods = pods.map(|(uid, own)| format!("{uid}:{{MemoryBlocks:([]state.Block){}}}", blocks(own)));
        let _ = write!(text, " PodEntries:(state.PodMemoryAssignments){}", map(pods));
    }
    text + " Checksum:(checksum.Checksum)0}"
}

fn node(node: &NodeState) -> String {
    let tables = node.memory.iter().map(|(resource, own)| format!("{resource}:{}", table(own)));
    format!(
        "<*>{{NumberOfAssignments:(int){} MemoryMap:(map[v1.ResourceName]*state.MemoryTable){} Cells:([]int){}}}",
        node.assignments,
        map(tables),
        numbers(node.group)
    )
}

fn table(table: &Table) -> String {
    format!(
        "<*>{{TotalMemSize:(uint64){} SystemReserved:(uint64){} Allocatable:(uint64){} Reserved:(uint64){} \
         Free:(uint64){}}}",
        table.total, table.system_reserved, table.allocatable, table.reserved, table.free
    )
}

fn blocks(blocks: &[Block]) -> String {
    let one = |block: &Block| {
        format!(
            "{{NUMAAffinity:([]int){} Type:(v1.ResourceName){} Size:(uint64){}}}",
            numbers(block.nodes),
            block.resource,
            block.size
        )
    };
    format!("[{}]", blocks.iter().map(one).collect::<Vec<_>>().join(" "))
}

fn numbers(nodes: NodeSet) -> String {
    format!("[{}]", nodes.iter().map(|node| node.to_string()).collect::<Vec<_>>().join(" "))
}

fn map(entries: impl Iterator<Item = String>) -> String {
    format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
}
