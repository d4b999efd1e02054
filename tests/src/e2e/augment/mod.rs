//! Mode augment: what is written beside a kubelet and put back, on real cgroups that the tests make as a
//! kubelet does, with the pods at a stand-in for the API server.

mod events;
mod evicting;
mod eviction;
pub(crate) mod fixture;
mod kills;
mod writes;

use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    let parallel = [writes::TESTS, kills::TESTS, events::TESTS].concat();
    // What measures times below a second, or what a node has left.
    let alone = [events::ALONE, eviction::TESTS].concat();
    parallel.into_iter().map(Test::in_parallel).chain(alone).collect()
}
