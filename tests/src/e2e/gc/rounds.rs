//! A short run of the soak test of garbage collection.

use super::NEEDS;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::soak::{Rounds, collections};

pub const TESTS: &[Test] = &[Test::new("gc_random_rounds", rounds).timeout(150).needs(NEEDS)];

/// Number of rounds on an ordinary and on an emulated machine.
const ROUNDS: [u64; 2] = [25, 6];

/// While pods and images come and go at random, all unused images are collected and no used one is.
fn rounds(context: &Context) -> Result<(), Failure> {
    let plan = Rounds { rounds: context.scaled(ROUNDS), seed: u64::from(context.runner()) };
    let tally = collections(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {tally}", plan.seed);
    Ok(())
}
