//! Admission, preemption and eviction: which pod waits, which is preempted and which is evicted, and that no
//! other pod is affected. The memory at stake is that of the pods' own cgroup, which has a limit: the machine
//! itself is never short of memory, and other programs on it do not matter.

mod admission;
mod disk;
mod evicted;
pub(crate) mod fixture;
mod killed;
mod limits;
mod memory;
mod node;
mod observe;
mod pids;
mod preemption;
mod project_quota;
mod rounds;
mod simulate;
mod soft;
mod under;

use super::pods::{LONG_NEEDS as NEEDS, NEEDS as ANYWHERE};
use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    let parallel = [
        admission::TESTS,
        preemption::TESTS,
        memory::TESTS,
        evicted::TESTS,
        soft::TESTS,
        disk::TESTS,
        limits::TESTS,
        project_quota::TESTS,
        rounds::TESTS,
        simulate::TESTS,
    ]
    .concat();
    // They measure seconds closely, or kill the agent at a certain moment.
    let few = [under::TESTS, killed::TESTS].concat().into_iter().map(Test::beside_few);
    // They look at what the whole machine has.
    let alone = [node::TESTS, pids::TESTS, observe::TESTS].concat();
    parallel.into_iter().map(Test::in_parallel).chain(few).chain(alone).collect()
}
