//! Probes of real servers in pods on a real container runtime: every handler with good and bad answers,
//! startup, readiness and liveness, and probes over restarts of the agent.

mod delays;
mod died;
mod ending;
mod fixture;
mod handlers;
mod liveness;
pub(crate) mod manifest;
mod restarts;
mod shown;
mod sidecars;
mod startup;
mod thresholds;

use super::pods::{LONG_NEEDS, NEEDS};
use crate::harness::Test;

pub(crate) use fixture::samples;

pub fn tests() -> Vec<Test> {
    let parallel = [handlers::TESTS, thresholds::TESTS, liveness::TESTS, sidecars::TESTS].concat();
    // Their bounds are parts of a second.
    let few = [startup::TESTS, ending::TESTS, died::TESTS, delays::TESTS, restarts::TESTS].concat();
    parallel.into_iter().map(Test::in_parallel).chain(few.into_iter().map(Test::beside_few)).collect()
}
