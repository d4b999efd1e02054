//! Feedback of what pods wait for to how they are limited, before anything has to die: the levels below are squeezed while
//! those above wait, and released with hysteresis.
//!
//! [`cpu`] and [`memory`] decide, as functions of plain values and a time; [`run`] reads what they need once a period,
//! lays what they decide over the levels' limits ([`nodewarden_hierarchy::PodSink::overlay`]) and writes each step into the
//! journal. Off unless configured; undone when it ends.

mod cpu;
mod error;
mod gather;
mod hold;
mod memory;
mod run;
mod turn;

pub use error::FeedbackError;
pub use gather::Waited;
pub use run::{Feedback, Needs, start};
