//! Clean-up after Ctrl-C outside the test runner: for benches and the feature report.

use nix::sys::signal::{SigSet, Signal};

use super::Sweep;
use crate::fixture::{Layout, restore_console};

/// From now on SIGINT and SIGTERM remove every cgroup, process and directory of this process, give the
/// console its level back, then end it with code 130. Call it before any thread is started, because threads
/// inherit the blocked signals.
pub fn clean_up_when_interrupted() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    if signals.thread_block().is_err() {
        return;
    }
    std::thread::spawn(move || {
        if signals.wait().is_ok() {
            restore_console();
            if let Ok(layout) = Layout::detect() {
                Sweep::new(&layout, std::process::id()).clean();
            }
            std::process::exit(130);
        }
    });
}
