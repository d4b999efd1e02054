//! Runs one round: starts a pod, makes it use up memory, and watches its death.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nodewarden_model::DecisionStep;
use serde_json::json;

use super::fixture::EvictionFixture;
use super::judge::{self, Round};
use super::sampler::{Sample, Sampler};
use super::stall_detector::{self, Stall, StallDetector};
use crate::bench::Run;
use crate::e2e::pressure::fixture::{greedy, is_evicted, requests};
use crate::e2e::support::eventually;
use crate::ensure;
use crate::harness::Failure;

/// Pause before the pod uses memory, so that its start is over.
const REST: Duration = Duration::from_millis(200);
/// Time-out from its first byte to its death, in seconds.
const LIMIT_S: u64 = 60;
/// How long the node is watched after the death, for late or additional events.
const AFTER: Duration = Duration::from_millis(500);

/// A pod that is ready to use up memory.
pub struct Eater {
    name: String,
    pub pid: i32,
    process: Process,
    /// How many bytes it is to hold.
    bytes: u64,
}

impl Eater {
    /// # Errors
    /// The pod does not start.
    pub fn start(fixture: &mut EvictionFixture<'_>, name: &str) -> Result<Self, Failure> {
        let manifest = greedy(&fixture.program, name, requests(16), &[], json!({}));
        fixture.stage.put([manifest])?;
        let pod = fixture.stage.wait_up(name)?;
        let pid = main_process(fixture, &fixture.stage.container_cgroup(&pod, "c")?)?;
        let process = Process::open(pid)?;
        Ok(Self { name: name.to_owned(), pid, process, bytes: fixture.ready()? })
    }

    /// Lets it use up memory until it is dead.
    ///
    /// # Errors
    /// It does not die.
    pub fn eat(&self, fixture: &mut EvictionFixture<'_>, pace: u64) -> Result<Eaten, Failure> {
        std::thread::sleep(REST);
        let context = fixture.stage.context();
        let (detector, sampler) = (StallDetector::start()?, Sampler::start(context)?);
        let begun = Timestamp::now();
        fixture.program.hold(&self.name, self.bytes, pace)?;
        let dead = self.process.dead(context.patiently(LIMIT_S));
        std::thread::sleep(AFTER);
        let (samples, stalls) = (sampler.stop(), detector.stop());
        // In any case it must not use more memory.
        fixture.program.hold(&self.name, 0, 0)?;
        let dead = dead?;
        ensure!(fixture.available()? > 0, "nothing is available");
        Ok(Eaten { begun, dead, samples, stalls })
    }
}

/// What was seen while a pod used up memory.
pub struct Eaten {
    begun: Timestamp,
    dead: Timestamp,
    samples: Vec<Sample>,
    stalls: Vec<Stall>,
}

impl Eaten {
    /// The figures of the round, in which the pod was killed at this time, and when the threshold was
    /// crossed.
    ///
    /// # Errors
    /// The threshold was not crossed, or the memory did not come back.
    pub fn round(
        &self,
        threshold: u64,
        killed: Timestamp,
        others: usize,
    ) -> Result<(Round, Timestamp), Failure> {
        let seen = judge::passed(&self.samples, threshold, killed, self.dead).ok_or_else(|| {
            let lowest = self.samples.iter().map(|sample| sample.available).min();
            let count = self.samples.len();
            Failure::Unexpected(format!(
                "of {count} readings the lowest is {lowest:?}, with a threshold of {threshold}"
            ))
        })?;
        let round = Round {
            kill: judge::milliseconds(seen.crossing, killed),
            dead: judge::milliseconds(seen.crossing, self.dead),
            back: judge::milliseconds(seen.crossing, seen.back),
            below: threshold.saturating_sub(seen.lowest) as f64 / 1e6,
            others,
            stood: stall_detector::longest(&self.stalls, seen.crossing, self.dead),
        };
        Ok((round, seen.crossing))
    }
}

/// # Errors
/// The pod does not start, is not evicted, or the agent reports no decision.
pub fn round(
    run: &Run<'_>,
    fixture: &mut EvictionFixture<'_>,
    pace: u64,
    name: &str,
) -> Result<Round, Failure> {
    let context = run.context;
    let eater = Eater::start(fixture, name)?;
    let eaten = eater.eat(fixture, pace)?;
    fixture.stage.wait_until(name, "evicted", 20, is_evicted)?;
    let decided = eventually(context.patiently(20), &format!("no decision that chose {name}"), || {
        let decisions = fixture.decisions()?;
        let (own, others) = judge::evictions(&decisions, eaten.begun, name);
        Ok(own.map(|one| (judge::killed(one), one.clone(), others)))
    });
    let (killed, decision, others) = decided?;
    let killed = killed.ok_or_else(|| {
        Failure::Unexpected(format!("the decision has no step `kill`: {:?}", decision.steps))
    })?;
    let others = others.max(fixture.changed()?);
    let (round, crossing) = eaten.round(fixture.threshold, killed, others)?;
    let steps: Vec<String> = decision.steps.iter().map(step).collect();
    run.progress(&format!(
        "{name}: woken by {}, kill {:.1} ms (woken {:.1} ms before it: {}; readings here at most {:.1} ms apart until \
         then), dead {:.1} ms, back {:.1} ms, {:.0} MB below, {} others, a CPU stood still for {:.0} ms",
        decision.woken_by,
        round.kill,
        judge::milliseconds(decision.time, killed),
        steps.join(", "),
        judge::longest_gap(&eaten.samples, crossing, killed),
        round.dead,
        round.back,
        round.below,
        round.others,
        round.stood
    ));
    fixture.stage.remove(name)?;
    fixture.stage.wait_gone(&[name])?;
    Ok(round)
}

/// What a step was and when it began and ended, in milliseconds since the wake-up.
fn step(step: &DecisionStep) -> String {
    let [from, to] = [step.after_us, step.after_us + step.took_us].map(|us| us as f64 / 1e3);
    format!("{} {from:.2} to {to:.2}", step.what)
}

/// The pid of the container's only process, from its cgroup.
fn main_process(fixture: &EvictionFixture<'_>, cgroup: &str) -> Result<i32, Failure> {
    let layout = &fixture.stage.context().layout;
    let hierarchy = layout.controller("memory");
    let hierarchy = hierarchy.ok_or(crate::fixture::CgroupError::NoController { controller: "memory" })?;
    let path = hierarchy.mount.join(cgroup.trim_start_matches('/')).join("cgroup.procs");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let pids: Vec<i32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match pids[..] {
        [pid] => Ok(pid),
        _ => Err(Failure::Unexpected(format!("{} has {text:?}", path.display()))),
    }
}

/// A process that is not a child of this one. Its end is noticed at once.
pub struct Process(OwnedFd);

impl Process {
    pub fn open(pid: i32) -> Result<Self, Failure> {
        // SAFETY: integers only (pidfd_open(2), Linux 5.3).
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        match i32::try_from(fd) {
            // SAFETY: a descriptor that the kernel has just returned, owned by nothing else.
            Ok(fd) if fd >= 0 => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => Err(Failure::file("pidfd_open")(std::io::Error::last_os_error())),
        }
    }

    /// Waits for its death and returns the time. Its memory has been freed by then (do_exit: exit_mm comes
    /// before exit_notify).
    pub fn dead(&self, limit: Duration) -> Result<Timestamp, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            let ended = poll(&mut fds, PollTimeout::from(500u16));
            let now = Timestamp::now();
            match ended {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(now),
                Err(error) => return Err(Failure::file("poll")(error.into())),
            }
            ensure!(Instant::now() < deadline, "the eater is alive after {limit:?}");
        }
    }
}
