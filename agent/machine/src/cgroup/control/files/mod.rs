//! Converts limits into the texts of cgroup files, and back.
//!
//! - [`Interface::writes`]: which files to write, in which order.
//! - [`Interface::read`]: the limits in the files.
//! - [`Interface::settled`]: the limits that will be read after others were written (rounded to pages,
//!   converted, left out where this machine has no such file), so that written and read limits compare equal.
//!
//! All are pure functions; [`super::GroupFiles`] opens the files. Sources: cgroup-v2.rst and cgroup-v1/ of
//! the kernel's documentation; what runc's library writes for a kubelet.

mod read;
mod settle;
mod write;

use std::fs;
use std::path::Path;
use strum::IntoEnumIterator;

pub use read::NoValue;
pub use write::{Absent, Write};
pub(super) use write::{shares, weight};

use super::PageSize;
use crate::cgroup::{Controller, Layout, Version};
use crate::page::page_bytes;

/// Range of `cpu.shares` that the kernel accepts (MIN_SHARES and MAX_SHARES of kernel/sched/sched.h).
const SHARES: std::ops::RangeInclusive<u64> = 2..=262_144;

/// Range of `cpu.weight` that the kernel accepts.
const WEIGHT: std::ops::RangeInclusive<u64> = 1..=10_000;

/// More than any number of processes: the greatest `pids.max` that is a number (PID_MAX_LIMIT on 64 bits).
const GREATEST_PIDS: u64 = 4 << 20;

/// The limit files that this machine has, and the units in which its kernel counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Version of each controller's hierarchy; none where the controller is missing.
    versions: Vec<(Controller, Version)>,
    /// Bytes of a page.
    page_bytes: u64,
    /// Sizes of huge pages that this machine has.
    huge_pages: Vec<PageSize>,
}

impl Interface {
    /// The interface of this machine.
    pub fn of(layout: &Layout) -> Self {
        Self::new(layout, page_bytes(), huge_pages(Path::new("/sys/kernel/mm/hugepages")))
    }

    /// The interface of a machine with this layout.
    pub fn new(layout: &Layout, page_bytes: u64, huge_pages: Vec<PageSize>) -> Self {
        let version = |c: Controller| layout.hierarchy(c).map(|h| (c, h.version));
        Self { versions: Controller::iter().filter_map(version).collect(), page_bytes, huge_pages }
    }

    /// The interface of a machine with every controller on one version.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn whole(version: Version) -> Self {
        let versions = Controller::iter().map(|controller| (controller, version)).collect();
        Self { versions, page_bytes: 4096, huge_pages: vec![PageSize(2 << 20)] }
    }

    /// Which version of cgroups a controller is on; `None` if this machine lacks it.
    pub fn version(&self, controller: Controller) -> Option<Version> {
        self.versions.iter().find(|(c, _)| *c == controller).map(|(_, version)| *version)
    }

    /// Sizes of huge pages that this machine has.
    pub fn huge_pages(&self) -> &[PageSize] {
        &self.huge_pages
    }

    /// The largest value in bytes of a page counter with pages of `unit` bytes; larger values mean no limit
    /// (PAGE_COUNTER_MAX of include/linux/page_counter.h, rounded down as mm/hugetlb_cgroup.c does).
    fn no_limit(&self, unit: u64) -> u64 {
        let greatest = i64::MAX as u64 / self.page_bytes * self.page_bytes;
        greatest / unit * unit
    }
}

/// Sizes from the names `hugepages-<n>kB` in `dir`; none if it cannot be read (a kernel without huge pages).
fn huge_pages(dir: &Path) -> Vec<PageSize> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut sizes: Vec<PageSize> =
        entries.filter_map(|entry| PageSize::of_directory(entry.file_name().to_str()?)).collect();
    sizes.sort_unstable();
    sizes
}

/// `cpu.weight` for `cpu.shares` by the linear formula (KEP-2254; the kubelet's `cpuSharesToCPUWeight`).
fn linear_weight(shares: u64) -> u64 {
    let shares = shares.clamp(*SHARES.start(), *SHARES.end());
    1 + (shares - 2) * 9_999 / 262_142
}

/// The smallest `cpu.shares` that the same formula converts to this weight.
fn linear_shares(weight: u64) -> u64 {
    let weight = weight.clamp(*WEIGHT.start(), *WEIGHT.end());
    2 + ((weight - 1) * 262_142).div_ceil(9_999)
}

#[cfg(test)]
mod tests;
