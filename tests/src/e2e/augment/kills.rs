//! The agent is killed at any moment, and everything is put back all the same.

use nix::sys::signal::Signal;

use super::fixture::{Augmented, NEEDS, burst_file, features, is_possible, read, write};
use crate::fixture::{Agent, AgentOptions};
use crate::harness::{Capability, Context, Failure, REPORTED, Test};
use crate::soak::{Rounds, undo as soak};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("augment_undo", undo).timeout(90).needs(NEEDS),
    Test::new("augment_killed_at_every_step", every_step).timeout(180).needs(NEEDS),
    Test::new("augment_killed_at_any_moment", killed).timeout(300).needs(&[
        Capability::Root,
        Capability::MemoryCgroup,
        Capability::CpuQuota,
        Capability::Loopback,
        Capability::FullSpeed,
    ]),
];

/// `nodewarden undo` after kill -9: everything is put back, once; a cgroup that was made again and a value of
/// another program stay as they are. The next agent does the same, in whatever mode.
fn undo(context: &Context) -> Result<(), Failure> {
    is_possible(context)?;
    let node = Augmented::new(context)?;
    let before = node.settings()?;
    let state = context.temp.join("state");
    let kill = || {
        let mut agent = node.start(&features("Enforce"), &state)?;
        node.wait_written()?;
        agent.end(Signal::SIGKILL, node.wait(5))?;
        Ok::<_, Failure>(())
    };
    kill()?;
    ensure_eq!(read(&node.idle, "cpu.idle")?, "1", "cpu.idle after kill -9");
    let first = node.undo(&state)?;
    let text = String::from_utf8_lossy(&first.stdout).into_owned();
    ensure!(first.status.success(), "{text}{}", String::from_utf8_lossy(&first.stderr));
    ensure_eq!(Augmented::differences(&before, &node.settings()?), [""; 0], "after undo");
    let second = node.undo(&state)?;
    let text = String::from_utf8_lossy(&second.stdout).into_owned();
    ensure!(second.status.success() && text.contains("0 values were put back"), "{text}");

    kill()?;
    let burst = burst_file(&node.limited)?;
    write(&node.limited, burst, "3000")?;
    // Made again, with a value that the agent would have written.
    node.idle.remove()?;
    node.besteffort.child(node.idle.path().rsplit('/').next().unwrap_or_default())?;
    write(&node.idle, "cpu.idle", "1")?;
    let third = node.undo(&state)?;
    let text = String::from_utf8_lossy(&third.stdout).into_owned();
    ensure!(text.contains("left alone, because another program has written \"3000\""), "{text}");
    ensure_eq!(read(&node.limited, burst)?, "3000", "what another program wrote");
    ensure_eq!(read(&node.idle, "cpu.idle")?, "1", "cpu.idle of a cgroup that was made again");
    write(&node.limited, burst, "0")?;
    write(&node.idle, "cpu.idle", "0")?;

    kill()?;
    let observing = Agent::start(context, &AgentOptions { state: Some(state), ..AgentOptions::default() })?;
    ensure_eq!(read(&node.idle, "cpu.idle")?, "0", "cpu.idle after the start of an agent in mode observe");
    ensure_eq!(read(&node.limited, burst)?, "0", "burst after the start of an agent in mode observe");
    ensure_eq!(
        node.score()?,
        super::fixture::SCORE.to_string(),
        "score after the start of an agent in mode observe"
    );
    drop(observing);
    Ok(())
}

/// Rounds of the soak test on an ordinary and on an emulated machine.
const SOAK_ROUNDS: [u64; 2] = [40, 8];

/// A short run of `cargo xtask soak undo`: killed at each step of its writes, then undone.
fn every_step(context: &Context) -> Result<(), Failure> {
    let plan = Rounds { rounds: context.scaled(SOAK_ROUNDS), seed: u64::from(context.runner()) };
    let done = soak(context, &plan, |text| println!("{text}"))?;
    println!("{REPORTED}seed {}: {done}", plan.seed);
    Ok(())
}

/// Rounds of kill -9 in this test.
const ROUNDS: u64 = 60;

/// Killed at moments spread over the time in which it starts and writes, followed by undo, or by the next
/// agent.
fn killed(context: &Context) -> Result<(), Failure> {
    is_possible(context)?;
    let node = Augmented::new(context)?;
    let before = node.settings()?;
    let (mut found_written, mut found_none) = (0, 0);
    // How long it takes until everything is written.
    let state = context.temp.join("state");
    let begun = std::time::Instant::now();
    let mut first = Agent::spawn(context, &node.options(&features("Enforce"), &state))?;
    node.wait_written()?;
    let mut whole = begun.elapsed();
    first.end(Signal::SIGKILL, node.wait(5))?;
    for round in 0..ROUNDS {
        let mut agent = Agent::spawn(context, &node.options(&features("Enforce"), &state))?;
        // Most of them in the last part, where the writes are.
        let part = 40 + round * 80 / ROUNDS;
        std::thread::sleep(whole.mul_f64(part as f64 / 100.0));
        agent.end(Signal::SIGKILL, node.wait(5))?;
        // The machine may have more or less to do than in the round that was measured.
        if Augmented::differences(&before, &node.settings()?).is_empty() {
            found_none += 1;
            whole = whole.mul_f64(1.04);
        } else {
            found_written += 1;
            whole = whole.mul_f64(0.96);
        }
        // Every third time the next agent has to do it.
        if round % 3 != 2 {
            let undone = node.undo(&state)?;
            ensure!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
            let left = Augmented::differences(&before, &node.settings()?);
            ensure_eq!(left, [""; 0], "after round {round}");
        }
    }
    node.undo(&state)?;
    ensure_eq!(Augmented::differences(&before, &node.settings()?), [""; 0], "at the end");
    ensure!(
        found_written > 5,
        "killed after a write in {found_written} of {ROUNDS} rounds, before any in {found_none}"
    );
    Ok(())
}
