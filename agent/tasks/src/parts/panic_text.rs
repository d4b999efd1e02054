//! What threads panicked with, for the message about the part that they ran.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

use crate::faults::text;

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on the text of a panic is kept until its thread has unwound. The text is still written to
/// standard error.
pub fn keep_panic_texts() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Fails only while the thread ends.
            let _ = LAST.try_with(|last| *last.borrow_mut() = Some(text(info)));
            before(info);
        }));
    });
}

/// The text of the last panic of this thread.
pub fn last() -> String {
    let last = LAST.try_with(|last| last.borrow_mut().take()).ok().flatten();
    last.unwrap_or_else(|| "the text was not kept".to_owned())
}
