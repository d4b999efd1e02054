//! The cgroup hierarchy in mode manage: the values of a kubelet, corrected on drift, complete after crashes,
//! removed with the pods.

pub(super) mod compare;
mod containers;
mod drift;
pub(crate) mod fixture;
mod kill9;
pub(crate) mod pods;
mod recorded;
mod recording;
mod safety;

use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    let alone = recorded::TESTS.iter().copied();
    let parallel = [containers::TESTS, safety::TESTS, drift::TESTS, kill9::TESTS].concat();
    alone.chain(parallel.into_iter().map(Test::in_parallel)).collect()
}
