//! `cpu.weight` (v2) from `cpu.shares`: two formulas are in use, and no interface reports which.
//!
//! The kubelet's own levels and runtimes up to runc 1.3.1 and crun 1.22 use the linear formula; newer
//! runtimes use one that maps v1's default (1024) to v2's default (100). So a container's weight is accepted
//! if either formula gives it, and the formula of new containers is derived from containers whose limits were
//! not changed since their creation.

use super::cpu::{MAX_SHARES, MIN_SHARES};

/// The minimum of `cpu.weight`.
pub const MIN_WEIGHT: u64 = 1;
/// The maximum of `cpu.weight`.
const MAX_WEIGHT: u64 = 10_000;

/// A conversion from shares to weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightFormula {
    /// KEP-2254: maps [2, 262144] linearly to [1, 10000].
    Linear,
    /// runc ≥ 1.3.2, crun ≥ 1.23 (opencontainers/cgroups `ConvertCPUSharesToCgroupV2Value`).
    Quadratic,
}

impl WeightFormula {
    /// The weight that this formula gives; 0 (unset) for 0.
    pub fn weight(self, shares: u64) -> u64 {
        match self {
            Self::Linear => weight_linear(shares),
            Self::Quadratic => weight_quadratic(shares),
        }
    }
}

/// `1 + (shares − 2) × 9999 / 262142`, for shares limited to their range; 0 (unset) for 0.
pub fn weight_linear(shares: u64) -> u64 {
    if shares == 0 {
        return 0;
    }
    let above = shares.clamp(MIN_SHARES, MAX_SHARES) - MIN_SHARES;
    MIN_WEIGHT + above * (MAX_WEIGHT - MIN_WEIGHT) / (MAX_SHARES - MIN_SHARES)
}

/// `⌈10^((l² + 125·l) / 612 − 7/34)⌉` with l = log₂ shares; 0 (unset) for 0.
pub fn weight_quadratic(shares: u64) -> u64 {
    /// Far less than the distance (2·10⁻⁶) of every result from the next smaller integer, except that of
    /// 1024, which is exactly 100; far more than the error of a `powf`. So the rounding of no platform
    /// changes a result.
    const ROUNDING: f64 = 1e-9;
    match shares {
        0 => 0,
        1..=MIN_SHARES => MIN_WEIGHT,
        MAX_SHARES.. => MAX_WEIGHT,
        _ => (10f64.powf(exponent(shares)) - ROUNDING).ceil() as u64,
    }
}

fn exponent(shares: u64) -> f64 {
    let l = (shares as f64).log2();
    (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0
}

/// The formula by which `shares` give `weight`; `None` if both do or neither does.
fn formula_of(shares: u64, weight: u64) -> Option<WeightFormula> {
    match (weight_linear(shares) == weight, weight_quadratic(shares) == weight) {
        (true, false) => Some(WeightFormula::Linear),
        (false, true) => Some(WeightFormula::Quadratic),
        _ => None,
    }
}

/// Whether some runtime sets this weight for these shares: the check of a container's weight.
pub fn weight_is_true(shares: u64, weight: u64) -> bool {
    weight == weight_linear(shares) || weight == weight_quadratic(shares)
}

/// The evidence that containers give about the formula of the node's runtime. It must be given containers
/// that were just created: a runtime may be replaced while containers of the old one keep running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FormulaEvidence {
    latest: Option<WeightFormula>,
}

impl FormulaEvidence {
    /// Records the weight that an unchanged container has for its shares, and returns the formula that this
    /// pair shows, if it shows one.
    pub fn observe(&mut self, shares: u64, weight: u64) -> Option<WeightFormula> {
        let formula = formula_of(shares, weight)?;
        self.latest = Some(formula);
        Some(formula)
    }

    /// The formula of the newest container that showed one; `None` before the first.
    pub fn formula(&self) -> Option<WeightFormula> {
        self.latest
    }
}

#[cfg(test)]
mod tests;
