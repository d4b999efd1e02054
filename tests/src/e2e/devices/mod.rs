//! Devices: device plugins that speak the kubelet's protocol with the agent, pods that get devices from them,
//! and enforcement in the kernel.

pub(crate) mod checkpoint;
mod enforce;
pub(crate) mod fixture;
mod health;
mod listing;
mod misbehaving;
mod order;
mod reach;
mod restart;
mod rounds;
mod takeover;
mod twin;
mod watcher;

pub(crate) use twin::Twin;

use crate::harness::{Capability, Test};

/// What every test of devices needs.
const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
];

/// What tests of misbehaving plugins need: only the plugin written in Python can misbehave.
const NEEDS_PYTHON: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::PythonGrpc,
];

pub fn tests() -> Vec<Test> {
    let parallel = [
        reach::TESTS,
        order::TESTS,
        health::TESTS,
        restart::TESTS,
        takeover::TESTS,
        misbehaving::TESTS,
        watcher::TESTS,
        listing::TESTS,
        enforce::TESTS,
    ]
    .concat();
    // It keeps more than one CPU busy.
    let few = rounds::TESTS.iter().copied();
    parallel.into_iter().map(Test::in_parallel).chain(few.map(Test::beside_few)).collect()
}
