//! The end-to-end tests in every guest, side by side, and what they come to.

use std::path::PathBuf;
use std::time::Duration;

use super::Pace;
use super::boot::{Order, Outcome};
use super::error::VmError;
use super::guest::Guest;
use super::kernels::{Column, page};
use super::machine::Shape;
use super::matrix;
use super::site::Site;
use super::table::{Row, merged, table};
use super::verdict::{Reason, Verdict};
use nodewarden_guest_job::{Layout as CgroupLayout, Task};
use xtask_common::tally::Tally;

/// Where the table of features goes, below the workspace root.
const TABLE: &str = "docs/KERNELS.md";
/// From a guest's start to its end; the tests have limits of their own, so this is for machines that hang.
const LIMIT: Duration = Duration::from_secs(50 * 60);
/// Without a line for so long a guest hangs: every test prints one at its end, and none takes longer here.
const SILENCE: Duration = Duration::from_secs(15 * 60);
/// Memory of the guest with two NUMA nodes, in MiB.
const NUMA_MEMORY_MIB: u32 = 1536;
/// Factor on the time-outs there, on top of the others': eight emulated CPUs share the two or so that are real, and ending
/// the kernel's programs waits for each of the eight.
const NUMA_PATIENCE: u32 = 3;
/// Beginning of the names of tests that need several NUMA nodes.
const NUMA_TESTS: &str = "numa_";

/// How to run them.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Only tests whose name contains one of these.
    pub filters: Vec<String>,
    /// Factor on every time-out of the tests.
    pub patience: u32,
    /// How many guests run at a time.
    pub jobs: usize,
    /// Whether to ask what each feature does on each kernel.
    pub features: bool,
    /// Whether to write that down.
    pub write_table: bool,
    /// An agent other than the one that was built.
    pub agent: Option<PathBuf>,
}

impl Suite {
    /// All tests at this pace.
    pub fn of(pace: Pace) -> Self {
        Self {
            filters: Vec::new(),
            patience: pace.patience,
            jobs: pace.jobs,
            features: true,
            write_table: false,
            agent: None,
        }
    }

    /// Runs them in every guest of `site` and shows the table.
    ///
    /// # Errors
    /// When a guest can't be booted at all, or the table not be written.
    pub fn run(&self, site: &Site) -> Result<Tally, VmError> {
        let guests = &site.prepared.guests;
        println!("guests: {}, {} at a time; {}", guests.len(), self.jobs, site.prepared.description());
        let (numa, others): (Vec<_>, Vec<_>) =
            self.filters.iter().cloned().partition(|filter| filter.starts_with(NUMA_TESTS));
        let mut orders = Vec::new();
        if numa.is_empty() || !others.is_empty() {
            orders.extend(guests.iter().map(|guest| self.order(*guest, &others)));
        }
        let numa = if self.filters.is_empty() { vec![NUMA_TESTS.to_owned()] } else { numa };
        if !numa.is_empty() {
            orders.extend(guests.iter().find_map(|guest| self.numa(*guest, &numa)));
        }
        // The longest first, so that none runs on alone in the end.
        orders.sort_by_key(|order| order.guest.layout != CgroupLayout::Systemd);
        let mut outcomes = matrix::run(site, &orders, self.jobs)?;
        outcomes.sort_by_key(|outcome| guests.iter().position(|guest| *guest == outcome.guest));
        outcomes.iter().for_each(explain);
        let rows = outcomes.iter().map(row).collect::<Vec<_>>();
        println!("\n{}", table(&rows));
        if self.write_table {
            write_table(site, outcomes)?;
        }
        Ok(merged(&rows))
    }

    fn order(&self, guest: Guest, filters: &[String]) -> Order {
        Order {
            task: Task::Test,
            filters: filters.to_vec(),
            patience: self.patience,
            features: self.features,
            agent: self.agent.clone(),
            limit: LIMIT,
            silence: Some(SILENCE),
            ..Order::noop(guest)
        }
    }

    /// The tests that need several NUMA nodes, in a guest that has two; `None` if this guest has no container
    /// runtime.
    fn numa(&self, guest: Guest, tests: &[String]) -> Option<Order> {
        (guest.layout == CgroupLayout::Systemd).then(|| Order {
            name: format!("{guest} numa"),
            features: false,
            memory_mib: NUMA_MEMORY_MIB,
            shape: Shape::Numa,
            patience: self.patience * NUMA_PATIENCE,
            ..self.order(guest, tests)
        })
    }
}

fn row(outcome: &Outcome) -> Row {
    Row {
        guest: outcome.guest,
        release: outcome.release.clone(),
        tally: outcome.tally.clone(),
        took: outcome.took,
    }
}

/// What the lines of the tests do not show.
fn explain(outcome: &Outcome) {
    for warning in &outcome.warnings {
        println!("\n{}: the kernel warned: {warning}", outcome.name);
    }
    // A test that failed has said why.
    if let Verdict::Failed(reason) = &outcome.verdict
        && !matches!(reason, Reason::Tests(_))
    {
        println!("\n{} FAILED: {reason}\nthe end of its console:", outcome.name);
        outcome.console_end.iter().for_each(|line| println!("    {line}"));
    }
}

/// Writes docs/KERNELS.md from guests that reported all of their features.
fn write_table(site: &Site, outcomes: Vec<Outcome>) -> Result<(), VmError> {
    let columns = outcomes.into_iter().filter_map(|outcome| {
        let release = outcome.release.filter(|_| !outcome.features.is_empty())?;
        Some(Column { guest: outcome.guest, release, features: outcome.features })
    });
    let columns = columns.collect::<Vec<_>>();
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let path = site.layout.root.join(TABLE);
    std::fs::write(&path, page(&columns, &date, &site.prepared.description()))
        .map_err(VmError::file("write", &path))?;
    println!("wrote {TABLE}");
    Ok(())
}
