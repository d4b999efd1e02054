//! Benches of devices: how long the agent takes to allocate them, and how much its kernel program adds to
//! each open.

mod allocation;
mod direct;
mod opens;

use super::{Bench, Figure, Run};
use crate::harness::Failure;

pub struct Devices;

impl Bench for Devices {
    fn name(&self) -> &'static str {
        "devices"
    }

    fn about(&self) -> &'static str {
        "allocating 1,000 devices of 10 plugins to 200 pods, without the plugins' own time; an open in a guarded pod"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let mut figures = direct::measure(run)?;
        figures.extend(allocation::measure(run)?);
        figures.extend(opens::measure(run)?);
        Ok(figures)
    }
}
