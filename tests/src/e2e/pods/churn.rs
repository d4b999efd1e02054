//! A minute of the soak test of pods.

use std::time::Duration;

use super::NEEDS;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::soak::{Plan, churn};

pub const TESTS: &[Test] = &[Test::new("pods_survive_churn", churn_for_a_minute).timeout(300).needs(NEEDS)];

const PODS: u64 = 20;

/// Pods are as their manifests say after a minute of random changes, kills of the agent and restarts of
/// containerd.
fn churn_for_a_minute(context: &Context) -> Result<(), Failure> {
    if context.patience > 1 {
        let why = "emulated: a container takes seconds to start, and a minute would change nothing";
        return Err(Failure::Skip(why.to_owned()));
    }
    let plan = Plan {
        pods: PODS,
        duration: Duration::from_secs(60),
        seed: u64::from(context.runner()),
        containerd_restarts: 2,
    };
    let summary = churn(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {summary}", plan.seed);
    Ok(())
}
