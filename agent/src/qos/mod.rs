//! Limits of each level from pods, and nothing else: everything here is a function of plain values.
//!
//! - [`cpu`]: millicores to shares and quota. [`weight`]: shares to weight, by either formula.
//! - [`oom`]: `oom_score_adj`.

pub mod cpu;
pub mod oom;
pub mod weight;

#[cfg(test)]
mod golden;
