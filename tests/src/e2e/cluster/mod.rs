//! The node in a cluster: a real control plane, kubectl and the scheduler.
//!
//! With `NODEWARDEN_NODE=kubelet` the same tests run against the real kubelet, which shows whether a test asks for
//! something that a node cannot do here.

mod bad_api;
mod configuration;
mod credentials;
mod deployment;
mod endpoints;
pub(crate) mod fixture;
mod guests;
mod kubectl;
pub(crate) mod manifest;
pub(crate) mod node;
mod node_object;
pub(crate) mod options;
mod outage;
mod pty;
mod renewal;
mod reports;
mod requests;
mod smoke;
mod streams;
mod take_over;
mod watch;

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
    [
        smoke::TESTS,
        deployment::TESTS,
        streams::TESTS,
        configuration::TESTS,
        outage::TESTS,
        reports::TESTS,
        take_over::TESTS,
        credentials::TESTS,
        renewal::TESTS,
        node_object::TESTS,
        watch::TESTS,
        kubectl::TESTS,
        endpoints::TESTS,
        guests::TESTS,
    ]
    .concat()
}
