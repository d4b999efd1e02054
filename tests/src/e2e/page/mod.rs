//! The page of the agent, in a headless Chromium.

pub(crate) mod fixture;
mod look;
mod shown;
mod use_of_it;

use crate::harness::{Capability, Test};

/// What every test of the page needs.
const NEEDS: &[Capability] =
    &[Capability::Root, Capability::Loopback, Capability::FullSpeed, Capability::Chromium];

pub fn tests() -> Vec<Test> {
    let parallel = [use_of_it::TESTS, look::TESTS].concat();
    // An event has to be on the page within a second.
    let alone = shown::TESTS.to_vec();
    parallel.into_iter().map(Test::in_parallel).chain(alone).collect()
}
