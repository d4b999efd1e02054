//! A minute of the soak: pods come, change and go at random while the agent is killed and containerd restarted.

use std::time::Duration;

use super::NEEDS;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::soak::{Plan, churn};

pub const TESTS: &[Test] = &[Test::new("pods_survive_churn", minute).timeout(300).needs(NEEDS)];

/// On an ordinary and on an emulated machine.
const PODS: [u64; 2] = [20, 6];

fn minute(context: &Context) -> Result<(), Failure> {
    let plan = Plan {
        pods: context.scaled(PODS),
        duration: Duration::from_secs(60),
        seed: u64::from(context.runner()),
        containerd_restarts: 2,
    };
    let summary = churn(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {summary}", plan.seed);
    Ok(())
}
