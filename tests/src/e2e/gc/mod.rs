//! Garbage collection of images and dead containers, on a real containerd with a small file system of its
//! own: what is removed, in which order, when it stops, and that nothing in use is removed.

mod command_line;
mod containers;
mod disk_and_proxy;
mod faults;
pub(crate) mod fixture;
mod judge;
mod order;
mod rounds;
mod threshold;

use crate::harness::{Capability, Test};

/// What every test with an agent needs here.
const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

pub fn tests() -> Vec<Test> {
    let parallel =
        [disk_and_proxy::TESTS, faults::TESTS, containers::TESTS, command_line::TESTS, rounds::TESTS]
            .concat();
    // They compare times of images that differ by about a second, or keep the disk busy.
    let few = [threshold::TESTS, order::TESTS].concat();
    parallel.into_iter().map(Test::in_parallel).chain(few.into_iter().map(Test::beside_few)).collect()
}
