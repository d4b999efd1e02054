//! Mode augment: what is written beside a kubelet and put back, on real cgroups that the tests make as a kubelet does, with
//! the pods at a stand-in for the API server.

mod events;
mod evicting;
mod eviction;
pub(crate) mod fixture;
mod kills;
mod writes;

use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    // One at a time: an agent in mode augment sees the cgroups of the other tests' pods, which have the same uids.
    [writes::TESTS, kills::TESTS, events::TESTS, eviction::TESTS].concat()
}
