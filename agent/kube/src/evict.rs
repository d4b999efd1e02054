//! Eviction beside a kubelet: what the API server has to hear of a pod that was killed here, and the question
//! whether one may be evicted.
//!
//! [`decide`] says what is sent and what follows from the answer, [`keeper`] sends it, [`record`] keeps what
//! the API server does not have yet in the state directory, so that neither an outage nor the agent's end
//! loses it.

pub mod decide;
mod keeper;
mod record;
mod request;

pub use keeper::{Evictor, Outcome};
pub use record::Killed;
