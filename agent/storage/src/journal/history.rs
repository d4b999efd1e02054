//! Reads older events from the files, on a thread for blocking work, for a subscriber that wants more than
//! memory has.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::sync::mpsc;

use nodewarden_model::Event;

use super::files;

/// Events handed over at once, and how many such parcels may wait: bounds the memory of a reader.
const PARCEL: usize = 64;
const PARCELS: usize = 4;
/// A file is written some milliseconds after its last event happened, and its time stamp is of a coarser
/// clock.
const SLACK: Duration = Duration::from_secs(2);

/// Sends the events with numbers from `from` up to, not including, `to` that happened at `since` or later, in
/// order. What cannot be read is left out. Must be called within a tokio runtime.
pub fn read(
    dir: PathBuf,
    files: u32,
    from: u64,
    to: u64,
    since: Option<Timestamp>,
) -> mpsc::Receiver<Vec<Event>> {
    let (sender, receiver) = mpsc::channel(PARCELS);
    tokio::task::spawn_blocking(move || {
        let mut parcel = Vec::with_capacity(PARCEL);
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
                parcel.push(event);
                if parcel.len() == PARCEL && sender.blocking_send(std::mem::take(&mut parcel)).is_err() {
                    return;
                }
            }
        }
        // The receiver may be gone.
        let _ = sender.blocking_send(parcel);
    });
    receiver
}

/// The files that may hold events since then, oldest first, opened newest first: so a rotation in between can
/// show a file twice but never hide one.
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
