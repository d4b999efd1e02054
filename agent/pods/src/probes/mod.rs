//! Liveness, readiness and startup probes.
//!
//! A `ProbeSpec` is a probe of a container's manifest, an [`Answer`] the result of one run. [`rules`] decides
//! what follows from runs, and `grid` when they are due; both are pure. `engine` runs them with [`Handlers`].

mod engine;
mod grid;
mod handler;
mod memory;
pub mod rules;
mod types;

pub use engine::{Change, ProbeSink, Probes, Watched};
pub use handler::{Handlers, ProbeError, Prober, Target};
pub use memory::{ProbeMemory, ProbeState};
use nodewarden_manifest::host_port;
pub use types::Answer;
