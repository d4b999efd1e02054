//! Mode augment: acts on the node of an unmodified kubelet, beside it, and never fights it.
//!
//! [`table`] says what kubelet and runtime write, which is never written here. [`ledger`] is how everything
//! else is written: on disk first, with what stood there, so that it is put back at the end, at the next
//! start or by `nodewarden undo`. The features decide purely: [`protect`] and [`throttle`] say what should be
//! written, [`incident`] which Events pods get; [`policy`] reads what pods ask for in their annotations.
//! [`engine`] is the thread that reads the node, asks them and acts.

#![deny(missing_docs)]

pub mod engine;
pub mod incident;
pub mod ledger;
pub mod policy;
pub mod protect;
pub mod table;
pub mod throttle;
pub mod wanted;

pub use engine::{Augment, Deps, Report, SeenContainer, SeenPod, undone};
pub use ledger::{Ledger, LedgerError};
pub use policy::Policy;
