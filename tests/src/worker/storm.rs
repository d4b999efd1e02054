//! Does a fixed amount of scheduler work and measures the time, which shows how much the agent slows it down.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::report::{End, Took};
use super::{WorkError, child};

/// Pairs of processes that send a byte to and fro (two context switches and two wake-ups per round), and a
/// loop of forks at the same time. Each pair is bound to a CPU, and the loop to the first CPU: where the
/// scheduler would place them differs between runs, and changes the time by several times the effect that is
/// measured.
#[derive(clap::Args)]
pub struct Storm {
    /// Number of pairs
    #[arg(long)]
    pairs: u32,
    /// Number of rounds of each pair
    #[arg(long)]
    rounds: u32,
    /// Number of processes that the worker forks and waits for meanwhile
    #[arg(long)]
    forks: u32,
}

impl Storm {
    pub fn run(&self) -> Result<Took, WorkError> {
        let cpus = cpus().map_err(WorkError::system("sched_getaffinity"))?;
        let begun = Instant::now();
        let mut children = Vec::new();
        for pair in 0..self.pairs as usize {
            let cpu = cpus[pair % cpus.len()];
            let (reader_a, writer_b) = std::io::pipe().map_err(WorkError::system("pipe"))?;
            let (reader_b, writer_a) = std::io::pipe().map_err(WorkError::system("pipe"))?;
            let rounds = self.rounds;
            children.push(child::spawn(|| bound(cpu, || play(reader_a, writer_a, rounds, true)))?);
            children.push(child::spawn(|| bound(cpu, || play(reader_b, writer_b, rounds, false)))?);
        }
        bind(cpus[0]).map_err(WorkError::system("sched_setaffinity"))?;
        for _ in 0..self.forks {
            expect_zero(child::wait(child::spawn(|| 0)?)?)?;
        }
        for pid in children {
            expect_zero(child::wait(pid)?)?;
        }
        Ok(Took { took_ns: begun.elapsed().as_nanos() as u64 })
    }
}

/// Binds this process to the first CPU that it may use.
pub(super) fn bind_to_first() -> nix::Result<()> {
    cpus()?.first().map_or(Ok(()), |cpu| bind(*cpu))
}

/// The CPUs that this process may use.
fn cpus() -> nix::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect())
}

fn bind(cpu: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

fn bound(cpu: usize, work: impl FnOnce() -> i32) -> i32 {
    if bind(cpu).is_ok() { work() } else { 2 }
}

fn expect_zero(end: End) -> Result<(), WorkError> {
    if end == End::Code(0) { Ok(()) } else { Err(WorkError::Child(end)) }
}

fn play(mut reader: PipeReader, mut writer: PipeWriter, rounds: u32, serves: bool) -> i32 {
    let mut byte = [0];
    for _ in 0..rounds {
        let done = if serves {
            writer.write_all(&byte).and_then(|()| reader.read_exact(&mut byte))
        } else {
            reader.read_exact(&mut byte).and_then(|()| writer.write_all(&byte))
        };
        if done.is_err() {
            return 1;
        }
    }
    0
}
