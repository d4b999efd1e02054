//! Collections while the disk is being written to and images come in: each brings the use from above the high threshold
//! to the low one, neither short of it nor past it, and pods do not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::NEEDS;
use super::judge;
use super::site::Site;
use crate::fixture::Space;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("gc_from_high_to_low", from_high_to_low).timeout(150).needs(NEEDS)];

const HIGH: u64 = 85;
const LOW: u64 = 80;
const WRITES_PER_SECOND: u64 = 2_000_000;
/// How long is written and imported.
const BUSY_S: u64 = 15;
/// Between two imports.
const IMPORT: Duration = Duration::from_millis(1200);
/// How long a collection may take for its next step: one that failed is followed by the next period's.
const PAUSE_S: u64 = 5;

fn from_high_to_low(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, [HIGH, LOW], "", "gc: {periodSeconds: 1}")?;
    let mut next = site.import_to(0, 76.0)?;
    ensure!(site.ground.proxy.removals().is_empty(), "images were removed below the threshold");
    let pods = site.pods(&[0, 4, next - 1])?;

    let watch = Watch::start(&site);
    let writer = site.ground.disk.writer("written", WRITES_PER_SECOND);
    let writer = writer.map_err(Failure::file(site.ground.disk.path()))?;
    let begun = Instant::now();
    while begun.elapsed() < context.patiently(BUSY_S) || site.ground.proxy.removals().is_empty() {
        ensure!(
            begun.elapsed() < context.patiently(4 * BUSY_S),
            "nothing is collected at {:?}",
            site.ground.space()
        );
        site.import(next)?;
        next += 1;
        std::thread::sleep(IMPORT * context.patience);
    }
    let written = writer.stop().map_err(Failure::file("the writer's file"))?;
    site.rests_below(HIGH, 30)?;
    let ended = Instant::now();
    let seen = watch.stop();

    let removals = site.ground.proxy.removals();
    let runs = judge::runs(&removals, HIGH, LOW).map_err(Failure::Unexpected)?;
    judge::all_ended(&removals, LOW, context.patiently(PAUSE_S), ended).map_err(Failure::Unexpected)?;
    let lowest = judge::lowest(&seen).unwrap_or_default();
    let largest = judge::largest(&removals);
    let past = -lowest.above(LOW);
    ensure!(
        past <= largest.cast_signed(),
        "the use fell to {:.2} %: {past} bytes past the threshold, where one image has {largest}",
        lowest.percent()
    );
    ensure!(lowest.above(LOW) <= 0, "the use was never seen at or below {LOW} %: {:.2} %", lowest.percent());
    site.all_well(&pods)?;
    counted(&site, removals.len())?;
    println!(
        "{REPORTED}{} bytes written and {next} images imported meanwhile, {} collections with {} removals, from {} to {} %",
        written,
        runs.len(),
        removals.len(),
        list(runs.iter().map(|run| run.from)),
        list(runs.iter().map(|run| run.to)),
    );
    site.stage.finish()
}

/// The agent's own figures.
fn counted(site: &Site<'_>, removals: usize) -> Result<(), Failure> {
    let space = site.metric("kubelet_image_garbage_collected_total", ("reason", "space"))?;
    ensure_eq!(space as usize, removals, "images collected for space by the agent's word");
    let freed = site.metric("nodewarden_gc_freed_bytes_total", ("", ""))?;
    ensure!(freed > 0.0, "no bytes were freed by the agent's word");
    let events = site.events()?;
    let failed: Vec<_> = events.lines().filter(|line| line.contains("FreeDiskSpaceFailed")).collect();
    ensure!(failed.is_empty(), "enough was freed each time, and yet: {}", failed.join("; "));
    Ok(())
}

fn list(percents: impl Iterator<Item = f64>) -> String {
    percents.map(|percent| format!("{percent:.1}")).collect::<Vec<_>>().join(", ")
}

/// A look at the disk every few milliseconds, from the first removal on.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Space>>,
}

impl Watch {
    fn start(site: &Site<'_>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let first = Arc::new(AtomicBool::new(false));
        let (stopped, begun) = (Arc::clone(&stop), Arc::clone(&first));
        site.ground.proxy.when_done(move |_| first.store(true, Ordering::Relaxed));
        let path = site.ground.disk.path().to_owned();
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

    fn stop(self) -> Vec<Space> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
