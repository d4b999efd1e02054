//! Ctrl-C outside the tests (benches, the feature report): what was made goes with it.

use nix::sys::signal::{SigSet, Signal};

use super::Sweep;
use crate::fixture::Layout;

/// From now on SIGINT and SIGTERM remove every cgroup, process and directory of this process, then end it. Call
/// it before any thread is started: they inherit the blocked signals.
pub fn clean_up_when_interrupted() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    if signals.thread_block().is_err() {
        return;
    }
    std::thread::spawn(move || {
        if signals.wait().is_ok() {
            if let Ok(layout) = Layout::detect() {
                Sweep::new(&layout, std::process::id()).clean();
            }
            std::process::exit(130);
        }
    });
}
