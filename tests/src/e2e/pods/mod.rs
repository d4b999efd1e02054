//! Pods on a real container runtime.

mod names;
mod runtime;

use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    [runtime::TESTS, names::TESTS].concat()
}
