//! Reads the available memory every half millisecond, independently of the agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_machine::ebpf::run_in_real_time;

use crate::fixture::NodeMemory;
use crate::harness::{Context, Failure};

const PERIOD: Duration = Duration::from_micros(500);

/// The time of a reading, and the available memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub at: Timestamp,
    pub available: u64,
}

/// A thread that reads until it is stopped.
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    /// # Errors
    /// The kernel's files cannot be opened.
    pub fn start(context: &Context) -> Result<Self, Failure> {
        let mut memory = NodeMemory::open(&context.layout)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // Refused: a sample that comes late makes the time since the crossing longer.
            let _ = run_in_real_time();
            let mut samples = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let at = Timestamp::now();
                // A failed reading is left out; the next one follows soon.
                samples.extend(memory.available().ok().map(|available| Sample { at, available }));
                std::thread::sleep(PERIOD);
            }
            samples
        });
        Ok(Self { stop, thread })
    }

    /// Stops the thread. Returns all readings.
    pub fn stop(self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
