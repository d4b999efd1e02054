//! The packages and the image that `cargo xtask dist` makes, here of the binary under test: installed,
//! upgraded and removed by real package managers, imported and run by a real container runtime. And
//! `nodewarden bundle` of a running agent.

mod bundle;
mod deb;
pub(super) mod image;
mod made;
mod root;
mod rpm;

use crate::harness::Test;

/// Every test of this group.
pub fn tests() -> Vec<Test> {
    [bundle::TESTS, deb::TESTS, rpm::TESTS, image::TESTS]
        .concat()
        .into_iter()
        .map(Test::in_parallel)
        .collect()
}
