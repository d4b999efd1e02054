//! Garbage collection of images and dead containers. The decisions are pure functions; before each removal
//! the facts are read again.
//!
//! Decided in `plan`, from when images were seen and used (`uses`), what uses them (`users`) and how
//! full their file system is (`fs`). Carried out by the [`Collector`], one run at a time. [`Holds`] prevent
//! the removal of an image that is about to be used.

#![deny(missing_docs)]

mod collector;
mod containers;
mod error;
mod first_runs;
#[cfg(test)]
mod fixture;
mod fs;
mod holds;
mod image_fs;
mod images;
mod logs;
mod metrics;
mod periodic;
mod plan;
mod quiet;
mod reporter;
mod run;
mod runtime;
mod shared;
mod sweep;
#[cfg(test)]
mod tests;
mod users;
mod uses;

pub use collector::Collector;
pub use error::GcError;
pub use fs::{Disk, FileSystems, FsError, StatVfs};
pub use holds::{Hold, Holds};
pub use plan::FsFault;
pub use runtime::{DiskUsage, ImageFsInfo, Runtime};
pub use shared::Deps;
