//! One eater: begun, let eat, seen dead, and gone.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use super::judge::{self, Round};
use super::sampler::Sampler;
use super::site::Site;
use super::witness::{self, Witness};
use crate::bench::Run;
use crate::e2e::pressure::site::{greedy, is_evicted, requests};
use crate::e2e::support::eventually;
use crate::ensure;
use crate::harness::Failure;

/// Before it eats: the figures of quiet, and its start is over.
const REST: Duration = Duration::from_millis(200);
/// From its first byte to its death.
const LIMIT_S: u64 = 60;
/// After its death the node is watched a little longer, for what comes too late or too often.
const AFTER: Duration = Duration::from_millis(500);

/// # Errors
/// The pod does not begin, is not evicted, or nothing is said of it.
pub fn round(run: &Run<'_>, site: &mut Site<'_>, pace: u64, name: &str) -> Result<Round, Failure> {
    let context = run.context;
    let manifest = greedy(&site.program, name, requests(16), &[], json!({}));
    site.stage.put([manifest])?;
    let pod = site.stage.up(name)?;
    let process = Process::open(main_process(site, &site.stage.container_cgroup(&pod, "c")?)?)?;
    let bytes = site.ready()?;
    std::thread::sleep(REST);

    let (witness, sampler, begun) = (Witness::start()?, Sampler::start(context)?, Timestamp::now());
    site.program.hold(name, bytes, pace)?;
    let dead = process.dead(context.patiently(LIMIT_S));
    std::thread::sleep(AFTER);
    let (samples, stalls) = (sampler.stop(), witness.stop());
    // Whatever became of it, it is to eat no more.
    site.program.hold(name, 0, 0)?;
    let dead = dead?;
    ensure!(site.available()? > 0, "nothing is available");

    site.stage.until(name, "evicted", 20, is_evicted)?;
    let decided = eventually(context.patiently(20), &format!("no decision that chose {name}"), || {
        let decisions = site.decisions()?;
        let (own, others) = judge::evictions(&decisions, begun, name);
        Ok(own.map(|one| (judge::killed(one), one.clone(), others)))
    });
    let (killed, decision, others) = decided?;
    let killed =
        killed.ok_or_else(|| Failure::Unexpected(format!("no step `kill`: {:?}", decision.steps)))?;
    let seen = judge::passed(&samples, site.threshold, killed, dead).ok_or_else(|| {
        let lowest = samples.iter().map(|sample| sample.available).min();
        Failure::Unexpected(format!(
            "of {} readings the lowest is {lowest:?}, with a threshold of {}",
            samples.len(),
            site.threshold
        ))
    })?;
    let changed = site.changed()?;
    let round = Round {
        kill: judge::milliseconds(seen.crossing, killed),
        dead: judge::milliseconds(seen.crossing, dead),
        back: judge::milliseconds(seen.crossing, seen.back),
        below: site.threshold.saturating_sub(seen.lowest) as f64 / 1e6,
        others: others.max(changed),
        stood: witness::longest(&stalls, seen.crossing, dead),
    };
    run.progress(&format!(
        "{name}: woken by {}, kill {:.1} ms (woken {:.1} ms before it, readings here at most {:.1} ms apart until then), \
         dead {:.1} ms, back {:.1} ms, {:.0} MB below, {} others, a CPU stood still for {:.0} ms",
        decision.woken_by,
        round.kill,
        judge::milliseconds(decision.time, killed),
        judge::longest_gap(&samples, seen.crossing, killed),
        round.dead,
        round.back,
        round.below,
        round.others,
        round.stood
    ));
    site.stage.remove(name)?;
    site.stage.gone(&[name])?;
    Ok(round)
}

/// The only process of the container, by its cgroup.
fn main_process(site: &Site<'_>, cgroup: &str) -> Result<i32, Failure> {
    let layout = &site.stage.context().layout;
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

/// Somebody else's process, whose end is seen in the moment in which it comes.
struct Process(OwnedFd);

impl Process {
    fn open(pid: i32) -> Result<Self, Failure> {
        // SAFETY: integers only (pidfd_open(2), Linux 5.3).
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        match i32::try_from(fd) {
            // SAFETY: a descriptor that the kernel has just handed out, and nobody else's.
            Ok(fd) if fd >= 0 => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => Err(Failure::file("pidfd_open")(std::io::Error::last_os_error())),
        }
    }

    /// When it was dead: its memory has been given back by then (do_exit: exit_mm comes before exit_notify).
    fn dead(&self, limit: Duration) -> Result<Timestamp, Failure> {
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
