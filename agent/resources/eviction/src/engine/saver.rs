//! How the node stands, on disk: what thresholds are passed since when, and what conditions last.
//!
//! A thread of its own writes the newest state; whoever decides never waits for a disk.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tracing::warn;

use super::shared::Saved;
use crate::Pressure;
use nodewarden_storage::state_file::{Format, StateFile};

const NAME: &str = "eviction.json";
const FORMAT: Format = Format::new("eviction", 1);

/// See the module. The thread ends when this is dropped, with the newest state on disk.
pub struct Saver(Sender<Saved>);

/// What an earlier agent left, for the engine to go on with.
pub struct Remembered {
    pub(super) saver: Saver,
    pub(super) saved: Saved,
    /// Why it cannot be read, if it cannot.
    pub(super) problem: Option<String>,
}

impl Remembered {
    pub fn open(state_dir: &Path) -> Self {
        let (saver, saved, problem) = Saver::open(state_dir);
        Self { saver, saved, problem }
    }

    /// Conditions that were true when it was written: until they are looked at anew, nobody comes back.
    pub fn pressure(&self) -> Pressure {
        let mut pressure = self.saved.fast.pressure();
        pressure.0.extend(self.saved.disk.pressure().0);
        pressure
    }
}

impl Saver {
    /// What an earlier agent left, and why it cannot be read if it cannot.
    pub fn open(state_dir: &Path) -> (Self, Saved, Option<String>) {
        let (file, saved, problem) = StateFile::open::<Saved>(state_dir.join(NAME), FORMAT);
        let (save, saves) = channel();
        let started = thread::Builder::new().name("eviction-state".into()).spawn(move || run(&file, &saves));
        let problem = problem.map(|problem| problem.to_string());
        let problem =
            problem.or_else(|| started.err().map(|error| format!("the thread that saves: {error}")));
        (Self(save), saved.unwrap_or_default(), problem)
    }

    /// Has it on disk soon.
    pub fn save(&self, saved: Saved) {
        // Nobody listens where the thread could not be started, which was told.
        let _ = self.0.send(saved);
    }
}

fn run(file: &StateFile, saves: &Receiver<Saved>) {
    let mut failing = false;
    while let Ok(mut newest) = saves.recv() {
        while let Ok(newer) = saves.try_recv() {
            newest = newer;
        }
        match file.save(&newest) {
            Ok(_) => failing = false,
            Err(error) if !failing => {
                failing = true;
                warn!("{error}: after a restart thresholds count as passed from then on");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_newest_is_there_for_the_next_agent() {
        let dir = tempfile::tempdir().unwrap();
        let (saver, nothing, problem) = Saver::open(dir.path());
        assert_eq!((nothing, problem), (Saved::default(), None));
        saver.save(Saved::default());
        drop(saver);
        let begun = Instant::now();
        while !dir.path().join(NAME).exists() && begun.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(Saver::open(dir.path()).2, None);
        std::fs::write(dir.path().join(NAME), "{").unwrap();
        assert!(Saver::open(dir.path()).2.is_some());
    }
}
