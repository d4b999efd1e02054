//! A short run of the soak test of pressure.

use std::time::Duration;

use crate::harness::{Capability, Context, Failure, REPORTED, Test};
use crate::soak::{SeededRounds, pressure};

pub const TESTS: &[Test] = &[
    Test::new("eviction_random_rounds", rounds).timeout(400).needs(NEEDS),
    Test::new("eviction_with_a_hung_file_system", hung).timeout(200).needs(NEEDS),
];

const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::PidsCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
];

/// How long rounds are begun.
const TIME: Duration = Duration::from_secs(40);
/// A round in which a file system hangs in a pod's volume while the disk of the volumes fills up.
const HUNG: u64 = 782_780_504;

/// Whatever becomes short while something fails, the pod is evicted that the kernel's own figures name.
fn rounds(context: &Context) -> Result<(), Failure> {
    let plan = SeededRounds { duration: TIME, seed: u64::from(context.runner()), round: None };
    let summary = pressure(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {summary}", plan.seed);
    Ok(())
}

/// A file system that hangs in a pod's volume delays the eviction for disk space by nothing.
fn hung(context: &Context) -> Result<(), Failure> {
    if !std::path::Path::new("/dev/fuse").exists() {
        return Err(Failure::Skip("no /dev/fuse".into()));
    }
    let plan = SeededRounds { duration: TIME, seed: 0, round: Some(HUNG) };
    let summary = pressure(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}{summary}");
    Ok(())
}
