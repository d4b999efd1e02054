//! Measures the time to open a device in one cgroup after the other, which shows the cost of a BPF program
//! that checks each open.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Instant;

use super::report::Opened;
use super::{WorkError, storm};

const DEVICE: &str = "/dev/null";

/// One process moves from cgroup to cgroup and stays on one CPU, so that only the cgroup differs.
#[derive(clap::Args)]
pub struct Opens {
    /// How often to visit all cgroups
    #[arg(long)]
    rounds: u32,
    /// How often to open the device in each cgroup
    #[arg(long)]
    opens: u32,
    /// `cgroup.procs` of each cgroup; the process ends in the last one
    #[arg(required = true)]
    cgroups: Vec<PathBuf>,
}

impl Opens {
    pub fn run(&self) -> Result<Opened, WorkError> {
        storm::bind_to_first().map_err(WorkError::system("sched_setaffinity"))?;
        let mut nanoseconds = vec![Vec::new(); self.cgroups.len()];
        for round in 0..self.rounds as usize {
            // Each cgroup is first equally often.
            for step in 0..self.cgroups.len() {
                let index = (round + step) % self.cgroups.len();
                enter(&self.cgroups[index])?;
                // Warms up caches that the move has flushed.
                open(self.opens / 10)?;
                let begun = Instant::now();
                open(self.opens)?;
                nanoseconds[index].push(begun.elapsed().as_nanos() as f64 / f64::from(self.opens.max(1)));
            }
        }
        if let Some(last) = self.cgroups.last() {
            enter(last)?;
        }
        Ok(Opened { nanoseconds })
    }
}

fn enter(procs: &PathBuf) -> Result<(), WorkError> {
    // 0 stands for the writing process (Documentation/admin-guide/cgroup-v2.rst, cgroup.procs).
    fs::write(procs, "0").map_err(|source| WorkError::File { path: procs.clone(), source })
}

fn open(times: u32) -> Result<(), WorkError> {
    for _ in 0..times {
        File::open(DEVICE).map_err(|source| WorkError::File { path: DEVICE.into(), source })?;
    }
    Ok(())
}
