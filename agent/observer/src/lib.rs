//! Watches the node's cgroups: which there are ([`registry`], [`tree`]), what they use ([`files`],
//! [`counters`]), and both joined to one reading ([`sampler`]), which is kept in little memory ([`packed`]),
//! with the names of their pods and containers ([`names`]). [`limit_writes`]: who has written limits,
//! [`write_notices`] where the kernel programs cannot see it; [`neighbours`]: whom containers waited for.
//! [`Observer`] has all of it, and takes in what the kernel programs report; [`Observation`] starts it.

#![deny(missing_docs)]

mod counted;
pub mod counters;
pub mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod halves;
mod idle;
pub mod kernel_side;
pub mod limit_writes;
pub mod names;
pub mod neighbours;
mod observation;
mod observer;
mod packed;
mod ran;
mod reading;
pub mod registry;
mod remembered;
pub mod sampler;
pub mod tree;
mod upkeep_request;
mod usages;
pub mod write_notices;

pub use observation::{Observation, ObservationError};
pub use observer::{Coverage, Facts, Observer, OnPressure};
pub use upkeep_request::UpkeepRequest;
