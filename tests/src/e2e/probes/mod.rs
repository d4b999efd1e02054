//! Probes of real servers in pods on a real container runtime: every handler, good and bad; what starts, holds, restarts and
//! ends; and that nothing flips while the agent comes and goes.

mod delays;
mod died;
mod ending;
mod handlers;
mod liveness;
pub(crate) mod manifest;
mod restarts;
mod shown;
mod sidecars;
mod site;
mod startup;
mod steps;

use super::pods::{LONG_NEEDS, NEEDS};
use crate::harness::Test;

pub(crate) use site::samples;

pub fn tests() -> Vec<Test> {
    [
        handlers::TESTS,
        startup::TESTS,
        steps::TESTS,
        liveness::TESTS,
        sidecars::TESTS,
        ending::TESTS,
        died::TESTS,
        delays::TESTS,
        restarts::TESTS,
    ]
    .concat()
}
