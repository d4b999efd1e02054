//! The node in a cluster: a real control plane, kubectl and the scheduler.
//!
//! With `NODEWARDEN_NODE=kubelet` the same tests run against the real kubelet, which shows whether a test asks for
//! something that a node cannot do here.

mod configuration;
mod deployment;
pub(crate) mod fixture;
pub(crate) mod manifest;
pub(crate) mod node;
mod outage;
mod reports;
mod smoke;
mod streams;

use crate::harness::{Capability, Test};

/// What every test in a cluster needs.
pub(crate) const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::ControlPlane,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

pub fn tests() -> Vec<Test> {
    [smoke::TESTS, deployment::TESTS, streams::TESTS, configuration::TESTS, outage::TESTS, reports::TESTS]
        .concat()
}
