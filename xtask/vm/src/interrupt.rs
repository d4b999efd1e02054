//! Ctrl-C: it sets a flag that is checked while a guest is waited for, so that the guest is killed and its
//! files are removed.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static CAUGHT: Once = Once::new();

extern "C" fn note(_: i32) {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// From now on Ctrl-C and SIGTERM only raise the flag. (Calls that wait are restarted: other parts of xtask
/// do not expect to be interrupted, and the programs they started end by the same Ctrl-C.)
pub fn catch() {
    CAUGHT.call_once(|| {
        let action = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESTART, SigSet::empty());
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
            let caught = unsafe { sigaction(signal, &action) };
            debug_assert!(caught.is_ok(), "both signals can be caught");
        }
    });
}

/// Whether the user wants to stop.
pub fn is_set() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
