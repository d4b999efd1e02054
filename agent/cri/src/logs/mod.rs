//! Container logs in the files and format of CRI runtimes.
//!
//! - [`Entry`]: one line of a log file.
//! - [`Selection`]: which entries are shown, and how.
//! - [`LogPath`]: where a log is; everything is opened without following links below the directory of all
//!   logs.
//! - [`runs`]: which runs of a container have a log.
//! - [`Reader`]: reads one run's log from the requested position, across rotated files.
//! - [`send`]: the same as a stream that can follow new output.
//! - [`rotation`]: rotates a log that has become too large.
//! - [`mod@tail`]: the end of a log, for termination messages.

mod back;
mod entry;
mod error;
mod files;
mod follow;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod place;
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
pub use place::LogPath;
pub use reader::{Reader, Request, Step};
pub use select::{Piece, Selection};
pub use tail::tail;
