//! A short run of the soak test of devices.

use super::NEEDS;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::soak::{Rounds, allocations};

pub const TESTS: &[Test] = &[Test::new("devices_survive_kill9", rounds).timeout(300).needs(NEEDS)];

/// Number of rounds on an ordinary and on an emulated machine: enough for each step at least once.
const ROUNDS: [u64; 2] = [30, 6];

/// Killed at any step of an allocation, the agent neither loses a device nor allocates one twice.
fn rounds(context: &Context) -> Result<(), Failure> {
    let plan = Rounds { rounds: context.scaled(ROUNDS), seed: u64::from(context.runner()) };
    let summary = allocations(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {summary}", plan.seed);
    Ok(())
}
