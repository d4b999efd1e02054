//! Reads older events from the files, on a thread for blocking work, for a subscriber that wants events that
//! memory has dropped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use nodewarden_model::Event;
use nodewarden_tasks::blocking;

use super::files;

/// Number of events sent at once, and how many such batches may wait: this bounds the memory of a reader.
const BATCH: usize = 64;
const BATCHES: usize = 4;
/// A file is written some milliseconds after its last event happened, and its time stamp is of a coarser
/// clock.
const SLACK: Duration = Duration::from_secs(2);

/// Sends the events with numbers from `from` up to, not including, `to` that happened at `since` or later, in
/// order. Files and lines that cannot be read are left out. Must be called within a tokio runtime.
pub fn read(
    dir: PathBuf,
    files: u32,
    from: u64,
    to: u64,
    since: Option<Timestamp>,
) -> mpsc::Receiver<Vec<Event>> {
    let (sender, receiver) = mpsc::channel(BATCHES);
    blocking::HISTORY.start(&Handle::current(), move || {
        let mut batch = Vec::with_capacity(BATCH);
        let mut next = from;
        for file in open(&dir, files, since) {
            let mut lines = BufReader::new(file);
            let mut line = Vec::new();
            loop {
                line.clear();
                match lines.read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                let Ok(event) = serde_json::from_slice::<Event>(&line) else { continue };
                if event.seq >= to {
                    break;
                }
                if event.seq < next || since.is_some_and(|since| event.time < since) {
                    continue;
                }
                next = event.seq + 1;
                batch.push(event);
                if batch.len() == BATCH && sender.blocking_send(std::mem::take(&mut batch)).is_err() {
                    return;
                }
            }
        }
        // The receiver may be gone.
        let _ = sender.blocking_send(batch);
    });
    receiver
}

/// The files that may hold events since then, oldest first. They are opened newest first, so that a rotation
/// in between can make a file occur twice but never hide one.
fn open(dir: &Path, files: u32, since: Option<Timestamp>) -> Vec<File> {
    let since = since.map(SystemTime::from).and_then(|t| t.checked_sub(SLACK));
    let mut found = Vec::new();
    for n in 0..files {
        let Ok(file) = File::open(dir.join(files::name(n))) else { break };
        let changed = file.metadata().and_then(|m| m.modified()).ok();
        if let (Some(since), Some(changed)) = (since, changed)
            && changed < since
        {
            break;
        }
        found.push(file);
    }
    found.reverse();
    found
}
