//! A short run of the soak test of pressure.

use std::time::Duration;

use crate::harness::{Capability, Context, Failure, REPORTED, Test};
use crate::soak::{PressurePlan, pressure};

pub const TESTS: &[Test] = &[Test::new("eviction_random_rounds", rounds).timeout(400).needs(&[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::PidsCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
])];

/// How long rounds are begun.
const TIME: Duration = Duration::from_secs(40);

/// Whatever becomes short while something fails, the pod is evicted that the kernel's own figures name.
fn rounds(context: &Context) -> Result<(), Failure> {
    let plan = PressurePlan { duration: TIME, seed: u64::from(context.runner()), round: None };
    let summary = pressure(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {summary}", plan.seed);
    Ok(())
}
