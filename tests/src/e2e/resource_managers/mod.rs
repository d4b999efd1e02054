//! The managers of CPUs, memory and topology: exclusive CPUs and memory of NUMA nodes for real containers,
//! seen in the kernel's files and in what it counted at every switch.
//!
//! Tests whose names begin with `numa_` need two NUMA nodes; `cargo xtask vm test --kernel 6.12 --systemd
//! numa_` runs them in a guest that has them.

mod exclusive;
mod fixture;
mod numa;
mod state;

use crate::harness::{Capability, Test};

/// What every test here needs.
const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Cpuset,
    Capability::TwoCpus,
    Capability::Loopback,
];

/// What tests with several NUMA nodes need.
const NUMA_NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Cpuset,
    Capability::NumaNodes,
    Capability::Loopback,
];

pub fn tests() -> Vec<Test> {
    [exclusive::TESTS, state::TESTS, numa::TESTS].concat()
}
