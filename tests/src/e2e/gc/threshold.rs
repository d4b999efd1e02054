//! Where collections start and stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::NEEDS;
use super::fixture::GcFixture;
use super::judge;
use crate::fixture::Space;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("gc_from_high_to_low", from_high_to_low).timeout(150).needs(NEEDS)];

const HIGH: u64 = 85;
const LOW: u64 = 80;
/// With the images some 3 MB a second: a collection begins up to five seconds after the high threshold was
/// crossed, with 18 MB left.
const WRITES_PER_SECOND: u64 = 1_000_000;
/// Seconds of writing and importing.
const BUSY_S: u64 = 20;
/// Time between two imports.
const IMPORT: Duration = Duration::from_millis(2400);
/// Seconds until a collection's next removal; a failed collection is continued in the next period.
const PAUSE_S: u64 = 5;

/// While the disk is written to and images are imported, each collection brings the use from above the high
/// threshold just below the low one; pods are unharmed.
fn from_high_to_low(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, [HIGH, LOW], "", "gc: {periodSeconds: 1}")?;
    let mut next = fixture.import_to(0, 76.0)?;
    ensure!(fixture.runtime.proxy.removals().is_empty(), "images were removed below the high threshold");
    let pods = fixture.start_pods(&[0, 4, next - 1])?;

    let watch = Watch::start(&fixture);
    let writer = fixture.runtime.disk.writer("written", WRITES_PER_SECOND);
    let writer = writer.map_err(Failure::file(fixture.runtime.disk.path()))?;
    let begun = Instant::now();
    while begun.elapsed() < context.patiently(BUSY_S) || fixture.runtime.proxy.removals().is_empty() {
        ensure!(
            begun.elapsed() < context.patiently(4 * BUSY_S),
            "nothing is collected at {:?}",
            fixture.runtime.space()
        );
        fixture.import(next)?;
        next += 1;
        std::thread::sleep(IMPORT * context.patience);
    }
    let written = writer.stop().map_err(Failure::file("the writer's file"))?;
    fixture.wait_settled_below(HIGH, 30)?;
    let ended = Instant::now();
    let seen = watch.stop();

    let removals = fixture.runtime.proxy.removals();
    let runs = judge::runs(&removals, HIGH, LOW).map_err(Failure::Unexpected)?;
    judge::all_ended(&removals, LOW, context.patiently(PAUSE_S), ended).map_err(Failure::Unexpected)?;
    let lowest = judge::lowest(&seen).unwrap_or_default();
    let largest = judge::largest(&removals);
    let past = -lowest.above(LOW);
    ensure!(
        past <= largest.cast_signed(),
        "the use fell to {:.2} %: {past} bytes past the threshold, where the largest removal freed {largest}",
        lowest.percent()
    );
    ensure!(lowest.above(LOW) <= 0, "the use never fell to {LOW} %: {:.2} %", lowest.percent());
    fixture.check_unharmed(&pods)?;
    counted(&fixture, removals.len())?;
    println!(
        "{REPORTED}{} bytes written and {next} images imported meanwhile, {} collections with {} removals, from {} to {} %",
        written,
        runs.len(),
        removals.len(),
        list(runs.iter().map(|run| run.from)),
        list(runs.iter().map(|run| run.to)),
    );
    fixture.pods.finish()
}

/// Checks the agent's own metrics and events.
fn counted(fixture: &GcFixture<'_>, removals: usize) -> Result<(), Failure> {
    let space = fixture.metric("kubelet_image_garbage_collected_total", ("reason", "space"))?;
    ensure_eq!(space as usize, removals, "images collected for space, by the agent's metric");
    let freed = fixture.metric("nodewarden_gc_freed_bytes_total", ("", ""))?;
    ensure!(freed > 0.0, "the agent's metric counts no freed bytes");
    let events = fixture.events()?;
    let failed: Vec<_> = events.lines().filter(|line| line.contains("FreeDiskSpaceFailed")).collect();
    ensure!(failed.is_empty(), "events of failure though enough was freed: {}", failed.join("; "));
    Ok(())
}

/// Percentages as text.
fn list(percents: impl Iterator<Item = f64>) -> String {
    percents.map(|percent| format!("{percent:.1}")).collect::<Vec<_>>().join(", ")
}

/// Reads the use of the disk every few milliseconds, from the first removal on.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Space>>,
}

impl Watch {
    fn start(fixture: &GcFixture<'_>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let first = Arc::new(AtomicBool::new(false));
        let (stopped, begun) = (Arc::clone(&stop), Arc::clone(&first));
        fixture.runtime.proxy.when_done(move |_| first.store(true, Ordering::Relaxed));
        let path = fixture.runtime.disk.path().to_owned();
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                if begun.load(Ordering::Relaxed) {
                    seen.extend(Space::of(&path));
                }
                std::thread::sleep(Duration::from_millis(4));
            }
            seen
        });
        Self { stop, thread }
    }

    /// Stops, and returns the readings.
    fn stop(self) -> Vec<Space> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
