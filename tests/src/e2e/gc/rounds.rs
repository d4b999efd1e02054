//! A little of the soak: pods and images come and go at random while everything unused is collected all the time.

use super::NEEDS;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::soak::{Rounds, collections};

pub const TESTS: &[Test] = &[Test::new("gc_rounds", rounds).timeout(150).needs(NEEDS)];

/// On an ordinary and on an emulated machine.
const ROUNDS: [u64; 2] = [25, 6];

fn rounds(context: &Context) -> Result<(), Failure> {
    let plan = Rounds { rounds: context.scaled(ROUNDS), seed: u64::from(context.runner()) };
    let tally = collections(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {tally}", plan.seed);
    Ok(())
}
