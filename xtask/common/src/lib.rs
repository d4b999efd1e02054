//! What `xtask` and `nodewarden-vm` share: where things are, running programs, files, Debian's packages, and
//! counting tests.

#![deny(missing_docs)]

pub mod debian;
pub mod files;
pub mod layout;
pub mod process;
pub mod progress;
pub mod tally;
