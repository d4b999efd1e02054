//! What API servers newer than Kubernetes 1.20.2 have, with a stand-in for the API server
//! ([`crate::fixture::StandInApi`]) and pods on a real container runtime: resizes of pods, sidecars, and
//! conditions.

mod conditions;
pub(crate) mod fixture;
mod resize;
mod sidecar;

use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    [resize::TESTS, sidecar::TESTS, conditions::TESTS].concat().into_iter().map(Test::in_parallel).collect()
}
