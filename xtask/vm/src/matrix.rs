//! Runs several guests, some at the same time; each line that they print begins with the name of its guest.

use std::collections::VecDeque;
use std::path::Path;
use std::thread;

use super::boot::{Order, Outcome, boot};
use super::error::VmError;
use super::site::Site;
use super::verdict::{Reason, Verdict};
use parking_lot::Mutex;

/// Boots every one of `orders`, `jobs` at a time, in their order. The outcomes come in the same order.
///
/// # Errors
/// The first guest that could not be booted at all; no further one is begun then.
pub fn run(site: &Site, orders: &[Order], jobs: usize) -> Result<Vec<Outcome>, VmError> {
    let width = orders.iter().map(|order| order.name.len()).max().unwrap_or(0);
    let waiting = Mutex::new(orders.iter().enumerate().collect::<VecDeque<_>>());
    let done = Mutex::new(Vec::new());
    let take = || waiting.lock().pop_front();
    thread::scope(|scope| {
        for _ in 0..jobs.max(1).min(orders.len()) {
            scope.spawn(|| {
                while let Some((index, order)) = take() {
                    let outcome = boot_with_right_clock(site, order, &|line| {
                        println!("{:<width$} | {line}", order.name);
                    });
                    if let Ok(outcome) = &outcome {
                        println!("{:<width$} | {}", order.name, closing(outcome));
                    } else {
                        waiting.lock().clear();
                    }
                    done.lock().push((index, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Boots a guest, and once more if tests failed in it while its clock went wrong: they say nothing then.
fn boot_with_right_clock(site: &Site, order: &Order, show: &dyn Fn(&str)) -> Result<Outcome, VmError> {
    let outcome = boot(site, order, show)?;
    let Verdict::Failed(reason @ Reason::Clock(_)) = &outcome.verdict else { return Ok(outcome) };
    show(&format!("{reason}; booting it again"));
    boot(site, order, show)
}

/// A guest's last line while others still run.
fn closing(outcome: &Outcome) -> String {
    let seconds = outcome.took.as_secs_f64();
    match &outcome.verdict {
        Verdict::Passed => format!("ended well after {seconds:.1} s"),
        Verdict::Failed(reason) => format!("failed after {seconds:.1} s: {reason}"),
    }
}

/// A folder for temporary files in `parent`, removed when dropped. What a run that was killed left there goes
/// first.
///
/// # Errors
/// When it can't be made.
pub fn temporary_folder(parent: &Path) -> Result<tempfile::TempDir, VmError> {
    std::fs::create_dir_all(parent).map_err(VmError::file("make", parent))?;
    for entry in std::fs::read_dir(parent).map_err(VmError::file("read", parent))?.flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(owner).is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another run may be removing it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(parent)
        .map_err(VmError::file("make a folder in", parent))
}

const PREFIX: &str = "run-";

/// The process that a temporary folder belongs to.
fn owner(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.split('-').next().filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_runs_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let own = format!("run-{}-x", std::process::id());
        for name in ["run-4294967294-dead", &own, "kernels"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let folder = temporary_folder(temp.path()).unwrap();
        assert!(!at("run-4294967294-dead").exists());
        assert!(at(&own).exists() && at("kernels").exists() && folder.path().exists());
    }
}
