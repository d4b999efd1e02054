//! Feedback: BestEffort is held back while a Guaranteed pod waits, kept so through reconciles, and given back after the
//! load, at the agent's end and after its death.

pub(crate) mod scene;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::e2e::hierarchy::managed::{a_moment_ago, status};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};
use scene::Scene;

pub const TESTS: &[Test] = &[
    Test::new("feedback_holds_cpu_back", cpu).timeout(240).needs(&[
        Capability::Root,
        Capability::CpuQuota,
        Capability::MemoryCgroup,
        Capability::Schedstat,
        Capability::Btf,
        Capability::Loopback,
        Capability::FullSpeed,
    ]),
    Test::new("feedback_holds_memory_back", memory).timeout(240).needs(&[
        Capability::Root,
        Capability::CpuCgroup,
        Capability::MemoryV2,
        Capability::Loopback,
    ]),
];

/// Quick to act and to give back, and nothing is needed to wait for: whoever waits at all waits too long.
const QUICK: &str = "throttle: {periodMilliseconds: 200, holdSeconds: 1, maxHoldSeconds: 2, cpu: {enabled: true, \
                     waitMilliseconds: 1}}";
/// Longer than the pod has to wait.
const LONG: Duration = Duration::from_secs(100);

fn cpu(context: &Context) -> Result<(), Failure> {
    let mut scene = Scene::new(context)?;
    let (limit, begin) = (context.patiently(20), a_moment_ago());
    let agent = scene.agent("")?;
    let own = scene.files()?;
    let [calm, busy] = scene.groups()?;
    let spinners = scene.spinners(&busy)?;
    let _waiting = scene.waiting(&calm, LONG)?;
    std::thread::sleep(Duration::from_secs(2));
    ensure_eq!(scene.files()?, own, "off by default");
    drop(agent);

    let agent = scene.agent(QUICK)?;
    scene.until("held back", limit, |files| files != own)?;
    scene.told(&agent, begin, "Squeezed", "7e57e57e-0000-4000-8000-00000000000a waited")?;
    // Reconciles come and go; what is held back is no drift.
    std::thread::sleep(Duration::from_secs(3));
    ensure_eq!(status(&agent)?.corrections, 0, "corrections");

    // The load is over.
    drop(spinners);
    scene.until("as it was after the load", limit, |files| files == own)?;
    scene.told(&agent, begin, "Released", "")?;
    ensure_eq!(status(&agent)?.corrections, 0, "corrections");

    // The agent ends in the middle of it.
    let spinners = scene.spinners(&busy)?;
    scene.until("held back again", limit, |files| files != own)?;
    drop(agent);
    ensure_eq!(scene.files()?, own, "after the agent's end");

    // It is killed in the middle of it, and the next one knows nothing of feedback.
    let mut agent = scene.agent(QUICK)?;
    scene.until("held back a third time", limit, |files| files != own)?;
    agent.end(Signal::SIGKILL, limit)?;
    let agent = scene.agent("")?;
    ensure_eq!(scene.files()?, own, "after the next agent's start");
    drop((spinners, agent));
    Ok(())
}

/// The distance is more than there is: BestEffort is held to the least at once, and slowed, not killed.
fn memory(context: &Context) -> Result<(), Failure> {
    let mut scene = Scene::new(context)?;
    let (limit, begin) = (context.patiently(20), a_moment_ago());
    let agent = scene.agent("")?;
    let own = scene.files()?;
    drop(agent);
    let section = "throttle: {periodMilliseconds: 200, holdSeconds: 1, maxHoldSeconds: 2, memory: {enabled: true, \
                   distance: 1024Gi, least: 32Mi}}";
    let agent = scene.agent(section)?;
    let high = format!("memory.high {}", 32 << 20);
    scene.until("held to the least", limit, |files| files.contains(&high))?;
    scene.told(&agent, begin, "Squeezed", "")?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        ensure!(scene.files()?.contains(&high), "it does not outlast reconciles");
        std::thread::sleep(Duration::from_millis(200));
    }
    ensure_eq!(status(&agent)?.corrections, 0, "corrections");
    drop(agent);
    ensure_eq!(scene.files()?, own, "after the agent's end");
    Ok(())
}
