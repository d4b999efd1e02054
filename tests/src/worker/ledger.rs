//! Writes settings through the ledger of mode augment, as the agent does, and kills itself at a step.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nodewarden_augment::ledger::machine::{Files, Machine};
use nodewarden_augment::throttle::CpuFiles;
use nodewarden_augment::wanted::{Feature, Level, Place, Wanted};
use nodewarden_augment::{Ledger, LedgerError};
use nodewarden_machine::cgroup::Version;

use super::WorkError;
use super::report::{LedgerAct, LedgerValue};

/// One process does all the acts, if it lives so long.
#[derive(clap::Args)]
pub struct LedgerWriter {
    /// The state directory with the ledger
    #[arg(long)]
    state: PathBuf,
    /// How many steps it makes before it kills itself with SIGKILL
    #[arg(long)]
    steps: u64,
    /// What it does, as JSON
    #[arg(long)]
    acts: String,
}

impl LedgerWriter {
    pub fn run(&self) -> Result<(), WorkError> {
        let acts: Vec<LedgerAct> = serde_json::from_str(&self.acts)?;
        let machine = Mortal { steps_left: Cell::new(self.steps) };
        carry_out(&self.state, machine, &acts).map_err(|error| WorkError::Ledger(error.to_string()))
    }
}

fn carry_out(state: &std::path::Path, machine: Mortal, acts: &[LedgerAct]) -> Result<(), LedgerError> {
    let mut ledger = Ledger::open(state, machine)?;
    for act in acts {
        match act {
            LedgerAct::Write(values) => {
                let values: Vec<Wanted> = values.iter().filter_map(wanted).collect();
                ledger.write(&values)?;
            }
            LedgerAct::Withdraw { pod } => {
                ledger.withdraw(|entry| entry.pod == *pod)?;
            }
            LedgerAct::WithdrawAll => {
                ledger.withdraw(|_| true)?;
            }
        }
    }
    Ok(())
}

/// What the feature of this file wants; `None` for a file that no feature writes.
fn wanted(own: &LedgerValue) -> Option<Wanted> {
    let version = match own.directory.join("cpu.weight").exists() {
        true => Version::V2,
        false => Version::V1,
    };
    let (feature, level, instead_of, companion): (_, _, &'static [&'static str], _) = match &*own.file {
        "cpu.idle" => (Feature::CpuIdle, Level::Pod, &["0"], Some(CpuFiles::of(version).weight)),
        "cpu.max.burst" | "cpu.cfs_burst_us" => (Feature::CpuBurst, Level::Pod, &["0"], None),
        "memory.high" => (Feature::MemoryHigh, Level::Pod, &["max"], None),
        "memory.min" => (Feature::Protection, Level::Daemon, &["0"], None),
        "oom_score_adj" => (Feature::Protection, Level::Process, &[], None),
        _ => return None,
    };
    let place = Place::new(&own.directory, &own.file);
    let (value, pod) = (own.value.clone(), own.pod.clone());
    Some(Wanted { feature, level, place, value, instead_of, companion, pod })
}

/// The machine's files, until the steps are used up.
struct Mortal {
    steps_left: Cell<u64>,
}

impl Mortal {
    fn step(&self) {
        match self.steps_left.get() {
            // It does not return.
            0 => drop(kill(Pid::this(), Signal::SIGKILL)),
            left => self.steps_left.set(left - 1),
        }
    }
}

impl Machine for Mortal {
    fn read(&self, place: &Place) -> io::Result<Option<(String, u64)>> {
        self.step();
        Files.read(place)
    }

    fn write(&self, place: &Place, identity: u64, value: &str) -> io::Result<bool> {
        self.step();
        let written = Files.write(place, identity, value);
        self.step();
        written
    }

    fn recording(&self) {
        self.step();
    }
}
