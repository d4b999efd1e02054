//! Garbage collection of images and dead containers on a real containerd whose images lie on a small file system of
//! their own: what goes, in which order, where it stops, and that nothing in use ever goes.

mod command_line;
mod containers;
mod faults;
mod judge;
mod order;
mod rounds;
pub(crate) mod site;
mod stands;
mod threshold;

use crate::harness::{Capability, Test};

/// What every test of the agent here needs.
const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

pub fn tests() -> Vec<Test> {
    [
        stands::TESTS,
        threshold::TESTS,
        faults::TESTS,
        order::TESTS,
        containers::TESTS,
        command_line::TESTS,
        rounds::TESTS,
    ]
    .concat()
}
