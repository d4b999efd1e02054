//! The same without an agent: a thread that reads the available memory each half millisecond and kills one
//! process that it knows beforehand. What this machine allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nodewarden_machine::ebpf::run_in_real_time;

use super::fixture::EvictionFixture;
use super::judge::Round;
use super::round::Eater;
use crate::bench::Run;
use crate::fixture::NodeMemory;
use crate::harness::{Context, Failure};

const PERIOD: Duration = Duration::from_micros(500);

/// One round, with the agent stopped meanwhile.
///
/// # Errors
/// The pod does not start or is not killed, or the agent does not start again.
pub fn round(
    run: &Run<'_>,
    fixture: &mut EvictionFixture<'_>,
    pace: u64,
    name: &str,
) -> Result<Round, Failure> {
    let eater = Eater::start(fixture, name)?;
    fixture.stage.stop_agent();
    let killer = Killer::start(run.context, fixture.threshold, Pid::from_raw(eater.pid))?;
    let eaten = eater.eat(fixture, pace);
    let killed = killer.stop();
    // An agent would start its container again.
    fixture.stage.remove(name)?;
    fixture.stage.start_agent()?;
    fixture.stage.wait_gone(&[name])?;
    let killed = killed.ok_or_else(|| {
        Failure::Unexpected(format!("{name} was not killed: the threshold was not crossed"))
    })?;
    let (round, _) = eaten?.round(fixture.threshold, killed, fixture.changed()?)?;
    run.progress(&format!("{name}, without an agent: kill {:.1} ms, dead {:.1} ms", round.kill, round.dead));
    Ok(round)
}

/// The thread, which ends when it has killed.
struct Killer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<Timestamp>>,
}

impl Killer {
    fn start(context: &Context, threshold: u64, victim: Pid) -> Result<Self, Failure> {
        let mut memory = NodeMemory::open(&context.layout)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // As the agent's thread. Refused: it is as fast as any thread.
            let _ = run_in_real_time();
            while !stopped.load(Ordering::Relaxed) {
                if memory.available().is_ok_and(|available| available < threshold) {
                    return kill(victim, Signal::SIGKILL).ok().map(|()| Timestamp::now());
                }
                std::thread::sleep(PERIOD);
            }
            None
        });
        Ok(Self { stop, thread })
    }

    /// Ends the thread. Returns when it has killed, if it has.
    fn stop(self) -> Option<Timestamp> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
