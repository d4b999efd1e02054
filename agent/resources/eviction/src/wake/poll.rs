//! The thread that polls the kernel's descriptors.

use std::sync::mpsc::SyncSender;

use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollTimeout};

use super::Woken;
use super::slots::{STOP, Slots};

/// Polls until [`Slots::stop`].
pub fn run(slots: &Slots, tell: &SyncSender<Woken>) {
    let mut events = [EpollEvent::empty(); 16];
    loop {
        let ready = match slots.epoll.wait(&mut events, EpollTimeout::NONE) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => continue,
            Err(error) => {
                tracing::error!(%error, "epoll_wait: the kernel's wake-ups are off, the timer still works");
                return;
            }
        };
        for event in events.iter().take(ready) {
            if event.data() == STOP {
                return;
            }
            if let Some(woken) = slots.take(event.data(), event.events()) {
                // Full: the reader has wake-ups pending and will read the node anyway.
                let _ = tell.try_send(woken);
            }
        }
    }
}
