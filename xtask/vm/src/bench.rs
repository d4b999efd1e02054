//! `cargo xtask vm bench`: a bench in guests, one after the other, so that none disturbs another's figures.

use std::time::Duration;

use super::boot::Order;
use super::error::VmError;
use super::machine::Emulation;
use super::matrix;
use super::site::Site;
use super::verdict::Verdict;
use nodewarden_guest_job::Task;
use xtask_common::tally::Tally;

/// From a guest's start to its end.
const LIMIT: Duration = Duration::from_secs(120 * 60);
/// What a guest sees of memory, in MiB: one of the benches takes much of it within a moment.
const MEMORY_MIB: u32 = 2048;

/// Runs the bench `name` in every guest of `site`; its figures are shown as they come. `virtual_time` is
/// whether to emulate with [`Emulation::VirtualTime`].
///
/// # Errors
/// When a guest can't be booted at all.
pub fn run(site: &Site, name: &str, arguments: &[String], virtual_time: bool) -> Result<Tally, VmError> {
    let filters = std::iter::once(name.to_owned()).chain(arguments.iter().cloned()).collect::<Vec<_>>();
    let guests = site.prepared.guests.iter();
    let emulation = if virtual_time { Emulation::VirtualTime } else { Emulation::default() };
    let order = |guest| Order {
        task: Task::Bench,
        filters: filters.clone(),
        patience: super::PATIENCE,
        limit: LIMIT,
        memory_mib: MEMORY_MIB,
        emulation,
        ..Order::noop(guest)
    };
    let orders = guests.map(|guest| order(*guest)).collect::<Vec<_>>();
    let mut tally = Tally::default();
    for outcome in matrix::run(site, &orders, 1)? {
        if let Verdict::Failed(reason) = outcome.verdict {
            tally.fail(format!("{}: {reason}", outcome.name));
        }
    }
    Ok(tally)
}
