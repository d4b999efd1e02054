//! The ledger of writes: what stood in each place before, on disk before anything is written.
//!
//! A write has three steps: its entry is added to the file, which is synced; the value is written; it is read
//! back. Whatever happens between two steps, the file has every value that may stand in a place by us, so
//! that [`Ledger::withdraw`] by this agent or a later one, or by `nodewarden undo`, puts back what was there.
//! A cgroup or process that ended meanwhile is forgotten, also if another one has its name now; a value that
//! another program has written since is left alone.

mod entry;
pub mod machine;
#[cfg(test)]
mod tests;
pub mod units;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nodewarden_storage::state_file::{Format, StateFileError};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

pub use entry::{Back, Entry, Step};
use machine::Machine;

use crate::table::{self, Refusal};
use crate::wanted::{Companion, Place, Wanted};

/// The file in the state directory.
pub const FILE: &str = "augment.json";
/// Held while the ledger is in use.
const LOCK: &str = "augment.lock";
/// Differs after each boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
const FORMAT: Format = Format::new("ledger", 1);

/// Why the ledger cannot be used. Nothing is written then.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another process uses it.
    #[error("{} is locked: an agent in mode augment runs, and puts everything back when it ends", .0.display())]
    InUse(PathBuf),
    /// A call failed.
    #[error("{call} {}: {source}", path.display())]
    File {
        /// Its name.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file is damaged or cannot be written.
    #[error("ledger of writes: {0}")]
    State(#[from] StateFileError),
}

/// What the file contains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Content {
    boot: String,
    entries: Vec<Entry>,
}

/// What became of a value that was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It stands there now.
    Set {
        /// What stood there before this write.
        before: String,
    },
    /// It stood there already, or its cgroup or process is gone.
    Unchanged,
    /// Another program has written this since.
    LeftAlone {
        /// What stands there.
        found: String,
    },
    /// It is not to be written by us.
    Refused(Refusal),
    /// The kernel refused it.
    Failed(String),
}

/// What became of a value that was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// It stands there again.
    Restored,
    /// It stood there, or its cgroup or process is gone.
    Nothing,
    /// Another program has written this since, and it stays.
    LeftAlone {
        /// What stands there.
        found: String,
    },
    /// It could not be put back and stays in the ledger.
    Failed(String),
}

/// The ledger, which no other process uses while it is open.
#[derive(Debug)]
pub struct Ledger<M> {
    machine: M,
    path: PathBuf,
    boot: String,
    entries: BTreeMap<Place, Entry>,
    /// Where another program writes, with the identity of the cgroup or process: not written again.
    given_up: BTreeMap<Place, u64>,
    _lock: File,
}

impl<M: Machine> Ledger<M> {
    /// Opens the ledger in this state directory. After a boot it is empty: nothing that was written is left.
    ///
    /// # Errors
    /// Another process uses it, or it is damaged.
    pub fn open(state_dir: &Path, machine: M) -> Result<Self, LedgerError> {
        let boot = PathBuf::from(BOOT);
        let boot = fs::read_to_string(&boot).map_err(at("read", &boot))?.trim().to_owned();
        let lock = lock(&state_dir.join(LOCK))?;
        let path = state_dir.join(FILE);
        let content: Option<(Content, String)> = FORMAT.read(&path, |_| Ok(()))?;
        let content = content.map(|(content, _)| content).filter(|content| content.boot == boot);
        let entries = content.map(|content| content.entries).unwrap_or_default();
        let entries = entries.into_iter().map(|entry| (entry.place.clone(), entry)).collect();
        Ok(Self { machine, path, boot, entries, given_up: BTreeMap::new(), _lock: lock })
    }

    /// What is written now.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The entry of a place.
    pub fn get(&self, place: &Place) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// Writes each value that is not there yet, after all of them are on disk. The results have the order of
    /// `wanted`.
    ///
    /// # Errors
    /// The ledger cannot be written; no value was.
    pub fn write(&mut self, wanted: &[Wanted]) -> Result<Vec<Written>, LedgerError> {
        let before = self.entries.clone();
        let steps: Vec<Planned> = wanted.iter().map(|own| self.plan(own)).collect();
        for entry in steps.iter().filter_map(|step| step.as_ref().err()) {
            self.entries.insert(entry.place.clone(), (**entry).clone());
        }
        if self.entries != before
            && let Err(error) = self.save()
        {
            self.entries = before;
            return Err(error);
        }
        let mut results = Vec::with_capacity(steps.len());
        let mut failed = false;
        for step in steps {
            results.push(match step {
                Ok(written) => written,
                Err(entry) => {
                    let result = self.carry_out(&entry);
                    failed |= matches!(result, Written::Failed(_) | Written::Unchanged);
                    result
                }
            });
        }
        if failed {
            self.save()?;
        }
        Ok(results)
    }

    /// The entry of a write, or why there is none.
    fn plan(&mut self, wanted: &Wanted) -> Planned {
        if let Err(refusal) = table::permit(wanted.level, &wanted.place.file) {
            return Ok(Written::Refused(refusal));
        }
        let (found, identity) = match self.machine.read(&wanted.place) {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.entries.remove(&wanted.place);
                return Ok(Written::Unchanged);
            }
            Err(error) => {
                return Ok(Written::Failed(format!("read {}: {error}", wanted.place.path().display())));
            }
        };
        if self.given_up.get(&wanted.place) == Some(&identity) {
            return Ok(Written::LeftAlone { found });
        }
        let known = self.entries.get(&wanted.place).filter(|entry| entry.identity == identity);
        let is_somebodys = !wanted.instead_of.is_empty() && !wanted.instead_of.contains(&&*found);
        let step = match known {
            Some(entry) => entry.next(&found, &wanted.value),
            None if is_somebodys => Step::LeftAlone,
            None if found == wanted.value => Step::Nothing,
            None => match self.companion(wanted) {
                Ok(companion) => Step::Write(Box::new(Entry {
                    place: wanted.place.clone(),
                    identity,
                    feature: wanted.feature,
                    pod: wanted.pod.clone(),
                    old: found.clone(),
                    new: vec![wanted.value.clone()],
                    companion,
                })),
                Err(error) => return Ok(Written::Failed(error)),
            },
        };
        match step {
            Step::Write(entry) => Err(entry),
            Step::Nothing => Ok(Written::Unchanged),
            Step::LeftAlone => {
                self.entries.remove(&wanted.place);
                self.given_up.insert(wanted.place.clone(), identity);
                Ok(Written::LeftAlone { found })
            }
        }
    }

    /// Forgets where another program writes in cgroups and processes that are not there any more.
    pub fn forget_gone(&mut self) {
        let machine = &self.machine;
        self.given_up.retain(
            |place, identity| matches!(machine.read(place), Ok(Some((_, found))) if found == *identity),
        );
    }

    /// What stands in the file that the kernel changes with this one. It has to be known.
    fn companion(&self, wanted: &Wanted) -> Result<Option<Companion>, String> {
        let Some((file, left)) = wanted.companion else { return Ok(None) };
        let place = Place::new(&wanted.place.directory, file);
        match self.machine.read(&place) {
            Ok(Some((old, _))) => Ok(Some(Companion { file: file.to_owned(), old, left: left.to_owned() })),
            Ok(None) => Err(format!("there is no {}", place.path().display())),
            Err(error) => Err(format!("read {}: {error}", place.path().display())),
        }
    }

    /// Makes a write that is on disk. A write that failed, and one to what is gone, leaves no entry.
    fn carry_out(&mut self, entry: &Entry) -> Written {
        let (place, value) = (&entry.place, entry.value());
        let before = entry.new.first().filter(|_| entry.new.len() > 1).unwrap_or(&entry.old).clone();
        match self.machine.write(place, entry.identity, value) {
            Ok(true) => match self.machine.read(place) {
                Ok(Some((found, identity))) if identity == entry.identity && found != value => {
                    // In another form: known only now, so it is recorded now.
                    let mut new = entry.new.clone();
                    new.push(found);
                    self.entries.insert(place.clone(), Entry { new, ..entry.clone() });
                    match self.save() {
                        Ok(()) => Written::Set { before },
                        Err(error) => Written::Failed(error.to_string()),
                    }
                }
                _ => Written::Set { before },
            },
            Ok(false) => {
                self.entries.remove(place);
                Written::Unchanged
            }
            Err(error) => {
                let message = format!("write {value:?} to {}: {error}", place.path().display());
                // What stood there still does.
                if entry.new.len() > 1 {
                    let new = entry.new[..1].to_vec();
                    self.entries.insert(place.clone(), Entry { new, ..entry.clone() });
                } else {
                    self.entries.remove(place);
                }
                Written::Failed(message)
            }
        }
    }

    /// Puts back the values of these entries. What could not be put back stays in the ledger.
    ///
    /// # Errors
    /// The ledger cannot be written; the values are put back all the same.
    pub fn withdraw(&mut self, which: impl Fn(&Entry) -> bool) -> Result<Vec<(Entry, Undone)>, LedgerError> {
        let chosen: Vec<Entry> = self.entries.values().filter(|entry| which(entry)).cloned().collect();
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        // A directory before those in it: a parent's memory.min bounds its children's.
        let results: Vec<(Entry, Undone)> = chosen
            .into_iter()
            .map(|entry| {
                let undone = put_back(&self.machine, &entry);
                (entry, undone)
            })
            .collect();
        for (entry, _) in results.iter().filter(|(_, undone)| !matches!(undone, Undone::Failed(_))) {
            self.entries.remove(&entry.place);
        }
        self.save()?;
        Ok(results)
    }

    fn save(&self) -> Result<(), LedgerError> {
        let content = Content { boot: self.boot.clone(), entries: self.entries.values().cloned().collect() };
        FORMAT.write(&self.path, &content, None, || self.machine.recording())?;
        Ok(())
    }
}

/// A result, or the entry of a write that is to be made.
type Planned = Result<Written, Box<Entry>>;

fn put_back(machine: &impl Machine, entry: &Entry) -> Undone {
    match try_put_back(machine, entry) {
        Ok(undone) => undone,
        Err(error) => Undone::Failed(format!("{}: {error}", entry.place.path().display())),
    }
}

fn try_put_back(machine: &impl Machine, entry: &Entry) -> io::Result<Undone> {
    let Some((found, identity)) = machine.read(&entry.place)? else { return Ok(Undone::Nothing) };
    if identity != entry.identity {
        return Ok(Undone::Nothing);
    }
    let companion = entry.companion.as_ref().map(|own| Place::new(&entry.place.directory, &own.file));
    let beside = match &companion {
        Some(place) => machine.read(place)?.map(|(text, _)| text),
        None => None,
    };
    let back = entry.back(&found, beside.as_deref());
    match back {
        Back::Nothing => return Ok(Undone::Nothing),
        Back::LeftAlone => return Ok(Undone::LeftAlone { found }),
        Back::Restore => {
            if !machine.write(&entry.place, identity, &entry.old)? {
                return Ok(Undone::Nothing);
            }
        }
        Back::RestoreCompanion => {}
    }
    if let (Some(own), Some(place)) = (&entry.companion, &companion) {
        machine.write(place, identity, &own.old)?;
    }
    Ok(Undone::Restored)
}

fn lock(path: &Path) -> Result<File, LedgerError> {
    let file =
        File::options().create(true).truncate(false).write(true).open(path).map_err(at("open", path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(LedgerError::InUse(path.to_owned())),
        Err(errno) => Err(at("flock", path)(errno.into())),
    }
}

fn at(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LedgerError + use<> {
    let path = path.to_owned();
    move |source| LedgerError::File { call, path, source }
}
