//! Container logs, in the files and the format that CRI runtimes write them.
//!
//! - [`Entry`]: one line of a log file.
//! - [`Selection`]: what of the entries is shown, and how.
//! - [`runs`]: which runs of a container have a log.
//! - [`Reader`]: one run's log from where it was asked for, through the files it was rotated to.
//! - [`send`]: the same as a stream that follows what is written.
//! - [`rotation`]: moving a log away that has become too large.
//! - [`tail`]: the end of a log, as a termination message has it.

mod back;
mod entry;
mod error;
mod files;
mod follow;
mod reader;
pub mod rotation;
mod select;
mod tail;
#[cfg(test)]
mod tests;

pub use entry::{Entry, Stream};
pub use error::LogError;
pub use files::runs;
pub use follow::send;
pub use reader::{Reader, Request, Step};
pub use select::{Piece, Selection};
pub use tail::tail;
