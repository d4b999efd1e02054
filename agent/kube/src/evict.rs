//! Eviction beside a kubelet: what the API server has to hear of a pod that was killed here, and the question
//! whether one may be evicted.
//!
//! [`decide`] says what is sent and what follows from the answer, [`evictor`] sends it, [`record`] keeps what
//! the API server does not have yet in the state directory, so that neither an outage nor the agent's end
//! loses it.

pub mod decide;
mod evictor;
mod record;
mod request;

pub use evictor::{Evictor, Outcome};
pub use record::Killed;
