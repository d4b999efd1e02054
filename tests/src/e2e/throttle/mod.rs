//! Throttling: BestEffort is throttled while a Guaranteed pod waits, stays throttled through reconciles, and
//! is released after the load, when the agent exits, and after it was killed.

pub(crate) mod fixture;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::e2e::hierarchy::fixture::{just_before_now, status};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};
use fixture::ThrottleFixture;

pub const TESTS: &[Test] = &[
    Test::new("throttle_cpu", cpu).timeout(240).needs(&[
        Capability::Root,
        Capability::CpuQuota,
        Capability::MemoryCgroup,
        Capability::Schedstat,
        Capability::Btf,
        Capability::Loopback,
        Capability::FullSpeed,
    ]),
    Test::new("throttle_memory", memory).timeout(240).needs(&[
        Capability::Root,
        Capability::CpuCgroup,
        Capability::MemoryV2,
        Capability::Loopback,
    ]),
];

/// Short periods, and a limit of 1 ms for waiting, so that any wait is too long.
const QUICK: &str = "throttle: {periodMilliseconds: 200, holdSeconds: 1, maxHoldSeconds: 2, cpu: {enabled: true, \
                     waitMilliseconds: 1}}";
/// Longer than the test lets the pod run.
const LONG: Duration = Duration::from_secs(100);

/// While a Guaranteed pod waits for CPUs, BestEffort is throttled; it gets its own values back after the
/// load, the agent's exit, or a kill.
fn cpu(context: &Context) -> Result<(), Failure> {
    let mut fixture = ThrottleFixture::new(context)?;
    let (limit, begin) = (context.patiently(20), just_before_now());
    let agent = fixture.agent("")?;
    let own_values = fixture.files()?;
    let [guaranteed, best_effort] = fixture.groups()?;
    let spinners = fixture.spinners(&best_effort)?;
    let _waiting = fixture.waiting(&guaranteed, LONG)?;
    std::thread::sleep(Duration::from_secs(2));
    ensure_eq!(
        fixture.files()?,
        own_values,
        "files of BestEffort without the section `throttle`, which is off by default"
    );
    drop(agent);

    let agent = fixture.agent(QUICK)?;
    fixture.wait_until("throttled", limit, |files| files != own_values)?;
    fixture.expect_note(&agent, begin, "Squeezed", "7e57e57e-0000-4000-8000-00000000000a waited")?;
    // Several reconciles pass: the throttled values are not drift.
    std::thread::sleep(Duration::from_secs(3));
    ensure_eq!(status(&agent)?.corrections, 0, "corrected files");

    // The load is over.
    drop(spinners);
    fixture.wait_until("released after the load", limit, |files| files == own_values)?;
    fixture.expect_note(&agent, begin, "Released", "")?;
    ensure_eq!(status(&agent)?.corrections, 0, "corrected files");

    // The agent exits while it throttles.
    let spinners = fixture.spinners(&best_effort)?;
    fixture.wait_until("throttled a second time", limit, |files| files != own_values)?;
    drop(agent);
    ensure_eq!(fixture.files()?, own_values, "files of BestEffort after the agent's exit");

    // The agent is killed while it throttles, and the next one has throttling off.
    let mut agent = fixture.agent(QUICK)?;
    fixture.wait_until("throttled a third time", limit, |files| files != own_values)?;
    agent.end(Signal::SIGKILL, limit)?;
    let agent = fixture.agent("")?;
    ensure_eq!(fixture.files()?, own_values, "files of BestEffort after the next agent's start");
    drop((spinners, agent));
    Ok(())
}

/// With a distance above the machine's memory, `memory.high` of BestEffort is set to the minimum and stays
/// until the agent exits.
fn memory(context: &Context) -> Result<(), Failure> {
    let mut fixture = ThrottleFixture::new(context)?;
    let (limit, begin) = (context.patiently(20), just_before_now());
    let agent = fixture.agent("")?;
    let own_values = fixture.files()?;
    drop(agent);
    let section = "throttle: {periodMilliseconds: 200, holdSeconds: 1, maxHoldSeconds: 2, memory: {enabled: true, \
                   distance: 1024Gi, least: 32Mi}}";
    let agent = fixture.agent(section)?;
    let high = format!("memory.high {}", 32 << 20);
    fixture.wait_until("limited to the minimum", limit, |files| files.contains(&high))?;
    fixture.expect_note(&agent, begin, "Squeezed", "")?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        ensure!(fixture.files()?.contains(&high), "memory.high does not stay through reconciles");
        std::thread::sleep(Duration::from_millis(200));
    }
    ensure_eq!(status(&agent)?.corrections, 0, "corrected files");
    drop(agent);
    ensure_eq!(fixture.files()?, own_values, "files of BestEffort after the agent's exit");
    Ok(())
}
