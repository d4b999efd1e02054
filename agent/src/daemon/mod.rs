//! The daemon in `observe` mode: starts what watches, serves what is seen, and leaves the machine clean.

mod collecting;
mod devices;
mod error;
mod evicting;
mod managed_pods;
mod managing;
mod memory;
mod names;
mod observer;
mod rotating;
mod squeezing;
mod start;
mod upkeep;

pub use error::WatchError;
pub use start::run;
