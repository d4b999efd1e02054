//! Garbage collection of images and dead containers: what goes is decided purely, and each removal is looked at before
//! the next.
//!
//! Decided in [`plan`], on when images were seen and used ([`Uses`]), by whom they are used ([`users`]) and how full
//! their file system is ([`fs`]). Carried out by the [`Collector`], one run at a time. [`Holds`] keep an image that is
//! about to be used from being removed.

mod collector;
mod containers;
mod error;
pub mod fs;
mod holds;
mod images;
mod logs;
pub mod plan;
mod run;
mod runtime;
mod sweep;
#[cfg(test)]
mod tests;
mod told;
mod types;
pub mod users;
mod uses;

pub use collector::{Collector, Needs};
pub use error::GcError;
pub use fs::{Disk, FileSystems, FsError, StatVfs};
pub use holds::{Hold, Holds};
pub use runtime::{Place, Places, Runtime};
pub use types::{DeadContainer, Fs};
pub use uses::{Uses, UsesFile};
