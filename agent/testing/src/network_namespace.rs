//! A network namespace for a test that changes addresses or routes.

use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, unshare};

/// Runs `test` on a thread with a network namespace of its own, in which the program `ip` can be used. Where
/// that is not possible, the test counts as skipped.
///
/// # Panics
/// When `test` does.
pub fn in_network_namespace(test: impl FnOnce() + Send + 'static) {
    let runs = thread::spawn(|| {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            crate::skip(format_args!("no network namespace of its own: {error}"));
        } else if Command::new("ip").arg("-V").output().is_err() {
            crate::skip("no program `ip`");
        } else {
            test();
        }
    });
    if let Err(panic) = runs.join() {
        std::panic::resume_unwind(panic);
    }
}
