//! Devices: plugins of the published protocol against the running agent, pods that get devices from them, and what the
//! kernel allows.

pub(crate) mod checkpoint;
mod enforce;
mod health;
mod liars;
mod listing;
mod order;
mod reach;
mod restart;
mod rounds;
pub(crate) mod site;
mod takeover;
mod twin;
mod watcher;

use crate::harness::{Capability, Test};

/// What every test of devices needs.
const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
];

/// What tests of a plugin that misbehaves need: only the one in Python does.
const NEEDS_PYTHON: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::PythonGrpc,
];

pub fn tests() -> Vec<Test> {
    [
        reach::TESTS,
        order::TESTS,
        health::TESTS,
        restart::TESTS,
        takeover::TESTS,
        liars::TESTS,
        watcher::TESTS,
        listing::TESTS,
        enforce::TESTS,
        rounds::TESTS,
    ]
    .concat()
}
