//! `systemctl daemon-reload` once a minute, after which systemd sets the properties of its units again.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::harness::Problems;

const PERIOD: Duration = Duration::from_secs(60);

/// Reloads from its start until it is dropped. A reload that fails is a problem of the test.
pub struct Reloads {
    count: Arc<AtomicU64>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reloads {
    pub fn start(problems: Problems) -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let (end, ends) = channel();
        let of_thread = Arc::clone(&count);
        let thread = std::thread::spawn(move || {
            while ends.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let mut command = Command::new("systemctl");
                match command.arg("daemon-reload").stdin(Stdio::null()).status() {
                    Ok(status) if status.success() => {
                        of_thread.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(status) => problems.add(format!("systemctl daemon-reload: {status}")),
                    Err(error) => problems.add(format!("systemctl daemon-reload: {error}")),
                }
            }
        });
        Self { count, end: Some(end), thread: Some(thread) }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Reloads {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
