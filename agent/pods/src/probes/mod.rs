//! Liveness, readiness and startup probes.
//!
//! What a container's manifest asks for is a [`ProbeSpec`]; what a run of one came to is an [`Answer`]. What follows
//! from runs is decided in [`rules`], when they are due in `grid`, both pure; [`engine`] has them made by [`Handlers`].

pub mod engine;
mod grid;
mod handler;
mod memory;
pub mod rules;
mod types;

pub use engine::{Change, ProbeSink, Probes, Watched};
pub use handler::{Handlers, ProbeError, Prober, Target};
pub use memory::{ProbeMemory, Standing};
use nodewarden_manifest::host_port;
pub use types::Answer;
