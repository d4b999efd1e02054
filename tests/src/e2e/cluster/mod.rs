//! The node in a cluster: a real control plane, kubectl and the scheduler.
//!
//! With `NODEWARDEN_NODE=kubelet` the same tests run against the real kubelet, which shows whether a test
//! asks for something that a node cannot do here.

mod admission;
mod bad_api;
pub mod beside;
mod claims;
mod configuration;
mod credentials;
mod daemonset;
mod daemonset_undo;
mod deployment;
mod devices;
mod endpoints;
pub(crate) mod fixture;
mod flood;
mod full_disk;
mod given_certificate;
mod guests;
mod images;
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
mod runtime_class;
mod smoke;
mod streams;
mod take_over;
mod top;
mod watch;
pub(crate) mod written;

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

/// The names of these tests begin so.
pub const PREFIX: &str = "cluster_";

pub fn tests() -> Vec<Test> {
    // The first shows whether any can pass, and a kubelet's paths are those of the machine.
    let alone = [smoke::TESTS, take_over::TESTS, beside::TESTS, devices::TESTS].concat();
    let parallel = [
        credentials::TESTS,
        daemonset::TESTS,
        daemonset_undo::TESTS,
        deployment::TESTS,
        streams::TESTS,
        configuration::TESTS,
        images::TESTS,
        claims::TESTS,
        runtime_class::TESTS,
        outage::TESTS,
        reports::TESTS,
        renewal::TESTS,
        node_object::TESTS,
        watch::TESTS,
        kubectl::TESTS,
        endpoints::TESTS,
        given_certificate::TESTS,
        admission::TESTS,
        full_disk::TESTS,
        flood::TESTS,
        top::TESTS,
        guests::TESTS,
    ]
    .concat();
    alone.into_iter().chain(parallel.into_iter().map(Test::in_parallel)).collect()
}
