//! The end-to-end tests in every guest, side by side, and what they come to.

use std::path::PathBuf;
use std::time::Duration;

use super::Pace;
use super::assets::Family;
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
/// Factor on the time-outs there, on top of the others': eight emulated CPUs share the two or so that are
/// real, and ending the kernel's programs waits for each of the eight.
const NUMA_PATIENCE: u32 = 3;
/// Beginning of the names of tests that need several NUMA nodes.
const NUMA_TESTS: &str = "numa_";

/// How to run them.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Only tests whose name contains one of these; in guests with cgroup v2 and without systemd.
    pub filters: Vec<String>,
    /// The same for guests with cgroup v1.
    pub with_v1: Vec<String>,
    /// The same for guests with systemd.
    pub with_systemd: Vec<String>,
    /// More for the guests with cgroup v2 and neither systemd nor a kernel of the middle.
    pub with_extremes: Vec<String>,
    /// The same for a second guest of each with systemd; there is none if this is empty.
    pub with_runtime: Vec<String>,
    /// Factor on every time-out of the tests.
    pub patience: u32,
    /// How many tests that fail are run a second time, in each guest.
    pub second_attempts: u32,
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
            with_v1: Vec::new(),
            with_systemd: Vec::new(),
            with_extremes: Vec::new(),
            with_runtime: Vec::new(),
            patience: pace.patience,
            second_attempts: 0,
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
        let asked = |guest: &Guest| Some(self.order(*guest, &self.filters_of(*guest)?));
        let mut orders = guests.iter().filter_map(asked).collect::<Vec<_>>();
        orders.extend(guests.iter().filter_map(|guest| self.runtime(*guest)));
        let numa = match self.with_systemd.is_empty() {
            true => vec![NUMA_TESTS.to_owned()],
            false => {
                self.with_systemd.iter().filter(|filter| filter.starts_with(NUMA_TESTS)).cloned().collect()
            }
        };
        if !numa.is_empty() {
            orders.extend(guests.iter().find_map(|guest| self.numa(*guest, &numa)));
        }
        // The longest first, so that none runs on alone in the end: the oldest kernel lacks much, and few
        // tests need NUMA nodes.
        orders.sort_by_key(|order| match (order.guest.layout, order.shape, order.guest.family) {
            (CgroupLayout::Systemd, Shape::Small, _) => 0,
            (CgroupLayout::Systemd, ..) => 3,
            (_, _, Family::V5_10) => 2,
            _ => 1,
        });
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

    /// What this guest runs, without what needs several NUMA nodes; `None` if nothing else is asked for.
    fn filters_of(&self, guest: Guest) -> Option<Vec<String>> {
        let asked = match guest.layout {
            CgroupLayout::V2 => &self.filters,
            CgroupLayout::V1 => &self.with_v1,
            CgroupLayout::Systemd => &self.with_systemd,
        };
        let extreme = guest.layout == CgroupLayout::V2 && guest.family.is_extreme();
        let more = self.with_extremes.iter().filter(|filter| extreme && !asked.contains(filter));
        let others = asked.iter().chain(more).filter(|filter| !filter.starts_with(NUMA_TESTS)).cloned();
        let others = others.collect::<Vec<_>>();
        (asked.is_empty() || !others.is_empty()).then_some(others)
    }

    fn order(&self, guest: Guest, filters: &[String]) -> Order {
        Order {
            task: Task::Test,
            filters: filters.to_vec(),
            patience: self.patience,
            second_attempts: self.second_attempts,
            features: self.features,
            agent: self.agent.clone(),
            limit: LIMIT,
            silence: Some(SILENCE),
            ..Order::noop(guest)
        }
    }

    /// The tests of the container runtime in a guest that has one.
    fn runtime(&self, guest: Guest) -> Option<Order> {
        let asked = guest.layout == CgroupLayout::Systemd && !self.with_runtime.is_empty();
        asked.then(|| Order {
            name: format!("{guest} runtime"),
            features: false,
            ..self.order(guest, &self.with_runtime)
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assets::Family;

    const PLAIN: Guest = Guest { family: Family::V6_12, layout: CgroupLayout::V2 };
    const NEWEST: Guest = Guest { family: Family::V7, layout: CgroupLayout::V2 };
    const V1: Guest = Guest { family: Family::V6_1, layout: CgroupLayout::V1 };
    const SYSTEMD: Guest = Guest { family: Family::V6_12, layout: CgroupLayout::Systemd };

    #[test]
    fn each_kind_of_guest_has_its_tests() {
        let suite = |plain: &[&str], extremes: &[&str], v1: &[&str], systemd: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            let suite = Suite {
                filters: owned(plain),
                with_extremes: owned(extremes),
                with_v1: owned(v1),
                with_systemd: owned(systemd),
                ..Suite::of(Pace { patience: 1, jobs: 1 })
            };
            [PLAIN, NEWEST, V1, SYSTEMD].map(|guest| suite.filters_of(guest).map(|all| all.join(" ")))
        };
        let some = |text: &str| Some(text.to_owned());
        let each = suite(&["a", "b"], &["a", "f"], &["a"], &["c", "numa_x"]);
        assert_eq!(each, [some("a b"), some("a b f"), some("a"), some("c")]);
        assert_eq!(suite(&[], &[], &[], &[]), [some(""), some(""), some(""), some("")], "all tests");
        let numa = &["numa_x"];
        assert_eq!(suite(numa, numa, numa, numa), [None, None, None, None], "the guest with two nodes alone");
    }
}
