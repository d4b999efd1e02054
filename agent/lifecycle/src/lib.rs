//! Makes pods run: each has a worker that compares what its source wants with what the runtime has, decides,
//! and acts.
//!
//! Rooms from ground to top; each imports only those before it:
//!
//! 1. `id`: a runtime's id, shared by all who know it. `record`: what of a pod must outlive the agent, and
//!    the files that keep it.
//! 2. `decide`: pure functions. Which pods start, stay, are resized or end (`decide::identity`); what is next
//!    for one pod (`decide::plan`); how it is shown (`decide::phase`).
//! 3. `orders`: what a worker can be ordered to do, and what it reports.
//! 4. `faults`: pods in whose work the agent panicked, whose workers wait.
//! 5. `set_aside`: directories of ended pods that cannot be removed.
//! 6. `stop_signals`: signals that images ask to be stopped with. `removals`: who waits for the removal of a
//!    cgroup.
//! 7. `environment`: clients, settings and limits that all workers share.
//! 8. `state`: the state of one pod. It has one owner, `state::PodState`.
//! 9. `act`: carries out plans and orders at the runtime, on disk and in the kernel.
//! 10. `worker`: one pod's loop: take orders, decide, act, wait.
//! 11. `manager`: gives every pod its worker, and looks after what belongs to no pod.
//! 12. `start`: builds all of it from the configuration and what an earlier agent left.

#![deny(missing_docs)]

mod act;
mod decide;
mod environment;
mod faults;
#[cfg(test)]
mod fixture;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod id;
mod manager;
mod orders;
mod pulls;
mod record;
mod removals;
mod set_aside;
mod start;
mod state;
mod stop_signals;
mod worker;

pub use decide::resize::{Change, change};
pub use environment::{Places, ownership};
pub use record::store::StoreError;
pub use set_aside::SetAside;
pub use start::{Adoption, Deps, Lifecycle, Recovered, find, start};
