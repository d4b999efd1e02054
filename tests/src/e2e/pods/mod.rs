//! Pods on a real container runtime: features of a pod's spec, checked from inside a pod, and what happens
//! when
//! something goes wrong.

mod churn;
mod command_line;
mod crash;
mod environment;
mod faults;
pub(crate) mod fixture;
mod hooks;
mod images;
mod kubelet_keys;
pub(crate) mod listed;
pub(crate) mod manifest;
mod names;
mod namespaces;
mod oom;
mod order;
mod power_loss;
mod refused;
mod resize;
mod rotation;
mod runtime;
mod security;
mod stop_signal;
mod summary;
mod survive;
mod url;
mod volumes;

use std::collections::BTreeMap;

use crate::harness::{Capability, Failure, Test};

/// What every test with pods needs.
pub(crate) const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
];

/// What tests with a network of the pods need.
pub(crate) const NETWORK_NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::PodNetwork,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
];

/// What tests with many time limits need: an emulated machine is too slow for them.
pub(crate) const LONG_NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

pub fn tests() -> Vec<Test> {
    let parallel = [
        runtime::TESTS,
        names::TESTS,
        environment::TESTS,
        volumes::TESTS,
        namespaces::TESTS,
        security::TESTS,
        stop_signal::TESTS,
        order::TESTS,
        hooks::TESTS,
        images::TESTS,
        resize::TESTS,
        rotation::TESTS,
        refused::TESTS,
        summary::TESTS,
        survive::TESTS,
        faults::TESTS,
        power_loss::TESTS,
        kubelet_keys::TESTS,
        url::TESTS,
        command_line::TESTS,
        churn::TESTS,
    ]
    .concat();
    // Bounds of half a second.
    let few = crash::TESTS.iter().copied().map(Test::beside_few);
    // A bound of a tenth of a second.
    let alone = oom::TESTS.iter().copied();
    parallel.into_iter().map(Test::in_parallel).chain(few).chain(alone).collect()
}

/// Checks the `key=value` lines that a container printed; fails with every difference.
fn check(printed: &BTreeMap<String, String>, expected: &[(&str, &str)]) -> Result<(), Failure> {
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(key, value)| printed.get(*key).map(String::as_str) != Some(value))
        .map(|(key, value)| format!("{key} is {:?}, not {value:?}", printed.get(*key)))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Unexpected(wrong.join("; "))) }
}
