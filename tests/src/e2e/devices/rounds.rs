//! Some rounds of the soak: the agent is killed at every step of an allocation.

use super::NEEDS;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::soak::{Rounds, allocations};

pub const TESTS: &[Test] = &[Test::new("devices_survive_kill9", rounds).timeout(300).needs(NEEDS)];

/// On an ordinary and on an emulated machine: each of the steps at least once.
const ROUNDS: [u64; 2] = [30, 6];

fn rounds(context: &Context) -> Result<(), Failure> {
    let plan = Rounds { rounds: context.scaled(ROUNDS), seed: u64::from(context.runner()) };
    let summary = allocations(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {summary}", plan.seed);
    Ok(())
}
