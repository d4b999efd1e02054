//! Admission, preemption and eviction: who waits, who makes way and who goes, and that nobody else notices. Memory is the
//! pods' own: their level has a limit, and the signal is what that leaves them, so that the machine is never short of it
//! and nobody else on it matters.

mod admission;
mod disk;
mod evicted;
mod killed;
mod limits;
mod memory;
mod node;
mod observe;
mod pids;
mod preemption;
mod simulate;
pub(crate) mod site;
mod soft;
mod under;

use super::pods::{LONG_NEEDS as NEEDS, NEEDS as ANYWHERE};
use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    [
        admission::TESTS,
        preemption::TESTS,
        memory::TESTS,
        evicted::TESTS,
        soft::TESTS,
        under::TESTS,
        killed::TESTS,
        node::TESTS,
        pids::TESTS,
        disk::TESTS,
        limits::TESTS,
        simulate::TESTS,
        observe::TESTS,
    ]
    .concat()
}
