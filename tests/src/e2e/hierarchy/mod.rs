//! The hierarchy in mode manage: what a kubelet writes, kept true, through crashes, and nothing left.

pub(super) mod compare;
mod containers;
mod drift;
mod kill9;
pub(crate) mod managed;
pub(crate) mod pods;
mod recorded;
mod recording;
mod safety;

use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    [recorded::TESTS, drift::TESTS, kill9::TESTS, containers::TESTS, safety::TESTS].concat()
}
