//! Pods on a real container runtime: each feature of a pod's spec in a pod that proves it from inside, and what
//! happens to pods when something goes wrong.

mod churn;
mod command_line;
mod crash;
mod hooks;
mod images;
pub(crate) mod manifest;
mod names;
mod namespaces;
mod oom;
mod order;
mod refused;
mod resize;
mod rotation;
mod runtime;
mod security;
pub(crate) mod seen;
pub(crate) mod stage;
mod survive;
mod volumes;
mod words;

use std::collections::BTreeMap;

use crate::harness::{Capability, Failure, Test};

/// What every pod needs.
pub(crate) const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
];

/// What those need that take long: an emulated machine is too slow for their times.
pub(crate) const LONG_NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

pub fn tests() -> Vec<Test> {
    [
        runtime::TESTS,
        names::TESTS,
        words::TESTS,
        volumes::TESTS,
        namespaces::TESTS,
        security::TESTS,
        order::TESTS,
        hooks::TESTS,
        images::TESTS,
        crash::TESTS,
        resize::TESTS,
        rotation::TESTS,
        refused::TESTS,
        survive::TESTS,
        oom::TESTS,
        command_line::TESTS,
        churn::TESTS,
    ]
    .concat()
}

/// What a container told, against what it should have.
fn check(told: &BTreeMap<String, String>, expected: &[(&str, &str)]) -> Result<(), Failure> {
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(key, value)| told.get(*key).map(String::as_str) != Some(value))
        .map(|(key, value)| format!("{key} is {:?}, not {value:?}", told.get(*key)))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Unexpected(wrong.join("; "))) }
}
