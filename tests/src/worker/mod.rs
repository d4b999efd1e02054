//! The worker processes that play the workload: `nodewarden-e2e worker …`, hidden from users. Each reports
//! `{"ready":pid}`, waits for a line on standard input, does its work, and reports JSON lines on standard
//! output.

mod balloon;
mod block;
mod child;
mod cpu;
mod ledger;
mod memory;
mod network;
mod opens;
mod probe;
mod processes;
pub mod report;
mod storm;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;

/// Why a worker ended early.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error("{call}: {source}")]
    System { call: &'static str, source: std::io::Error },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("ledger of mode augment: {0}")]
    Ledger(String),
    #[error("report: {0}")]
    Report(#[from] serde_json::Error),
    #[error("a child ended unexpectedly: {0:?}")]
    Child(report::End),
}

impl WorkError {
    /// For `map_err` on a system call.
    fn system<E: Into<std::io::Error>>(call: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { call, source: error.into() }
    }
}

#[derive(Parser)]
struct Arguments {
    /// Identifies the test, so that leftover processes are found by their command line
    #[arg(long)]
    tag: String,
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// Does nothing until its standard input closes
    Sleep,
    /// Exits with a code
    Exit { code: u8 },
    /// Dies by SIGSEGV, without a core file
    Segv,
    /// Touches the memory, then waits
    EatMemory { bytes: u64 },
    /// Holds memory of each kind, reports that, and on the next line uses more until killed
    Balloon(balloon::Balloon),
    /// Forks victims that die by the memory limit and reports each
    OomVictims(memory::Victims),
    /// Reads a file repeatedly through the page cache
    ReadFile { path: PathBuf, passes: u32 },
    /// Keeps a CPU busy
    Spin { milliseconds: u64 },
    /// Wakes up repeatedly, works a little, and reports how long it waited for a CPU each time
    Pulse { milliseconds: u64, every_us: u64, busy_us: u64 },
    /// Looks at the clock without a pause, and reports how long it did not run
    Pauses { milliseconds: u64 },
    /// Forks children of which some exec, some exit and some are killed
    Processes(processes::Plan),
    /// Forks children with many threads, of which some exit, some are killed, and some end thread by thread
    ThreadedProcesses { rounds: u64, threads: usize },
    /// Forks children that keep running, until the kernel refuses one, and reports how many there are
    ForkUntilRefused { at_most: u64 },
    /// Exits with a code as the first process of a pid namespace
    ExitInNamespace { code: u8 },
    /// Forks short-lived children until killed
    ForkForever,
    /// Forks children that fork too, until killed
    ForkBomb,
    /// Does a fixed amount of context switches and forks and reports the time
    Storm(storm::Storm),
    /// Reports its port, then receives UDP datagrams
    UdpReceive { packets: u64 },
    /// Sends UDP datagrams
    UdpSend { port: u16, packets: u64, payload: usize },
    /// Makes a socket, reports its port, and on the next line sends UDP datagrams through it
    UdpSendLater { port: u16, packets: u64, payload: usize },
    /// Reports its port, then receives one TCP stream
    TcpReceive,
    /// Sends one TCP stream
    TcpSend { port: u16, bytes: u64 },
    /// Writes blocks without the page cache
    WriteDirect { path: PathBuf, blocks: u32, block_bytes: usize },
    /// Writes a text to a file and ends at once
    WriteText { path: PathBuf, text: String },
    /// Writes settings through the ledger of mode augment and kills itself at a step
    Ledger(ledger::LedgerWriter),
    /// Opens a device in one cgroup after the other and reports the times
    Opens(opens::Opens),
    /// Asks the agent for its status as another user
    Ask { socket: PathBuf, uid: u32 },
}

/// Runs a worker if the first argument is `worker`; otherwise returns `None`.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = arguments.next()?;
    if arguments.next()? != "worker" {
        return None;
    }
    let arguments = Arguments::parse_from(std::iter::once(name).chain(arguments));
    Some(match work(arguments.work) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("worker: {error}");
            ExitCode::from(99)
        }
    })
}

fn work(work: Work) -> Result<ExitCode, WorkError> {
    say(&report::Ready { ready: std::process::id() })?;
    if !wait_for_line() {
        return Ok(ExitCode::SUCCESS);
    }
    match work {
        Work::Sleep => {}
        Work::Ledger(writer) => {
            writer.run()?;
            return Ok(ExitCode::SUCCESS);
        }
        Work::WriteText { path, text } => {
            std::fs::write(&path, text).map_err(|source| WorkError::File { path, source })?;
            return Ok(ExitCode::SUCCESS);
        }
        Work::Exit { code } => return Ok(ExitCode::from(code)),
        Work::Segv => processes::segv(),
        Work::EatMemory { bytes } => memory::eat(bytes)?,
        Work::Balloon(balloon) => balloon.run()?,
        Work::OomVictims(victims) => victims.run()?,
        Work::ReadFile { path, passes } => say(&memory::read_file(&path, passes)?)?,
        Work::Spin { milliseconds } => say(&cpu::spin(milliseconds)?)?,
        Work::Pulse { milliseconds, every_us, busy_us } => {
            say(&cpu::pulse(milliseconds, every_us, busy_us)?)?;
        }
        Work::Pauses { milliseconds } => say(&cpu::pauses(milliseconds))?,
        Work::Processes(plan) => say(&plan.run()?)?,
        Work::ThreadedProcesses { rounds, threads } => say(&processes::threaded(rounds, threads)?)?,
        Work::ForkUntilRefused { at_most } => say(&processes::fork_until_refused(at_most)?)?,
        Work::ExitInNamespace { code } => say(&processes::exit_in_namespace(code)?)?,
        Work::ForkForever => processes::fork_forever()?,
        Work::ForkBomb => processes::fork_bomb(),
        Work::Storm(storm) => say(&storm.run()?)?,
        Work::UdpReceive { packets } => network::udp_receive(packets)?,
        Work::UdpSend { port, packets, payload } => say(&network::udp_send(port, packets, payload)?)?,
        Work::UdpSendLater { port, packets, payload } => network::udp_send_later(port, packets, payload)?,
        Work::TcpReceive => network::tcp_receive()?,
        Work::TcpSend { port, bytes } => say(&network::tcp_send(port, bytes)?)?,
        Work::WriteDirect { path, blocks, block_bytes } => {
            say(&block::write_direct(&path, blocks, block_bytes)?)?;
        }
        Work::Opens(opens) => say(&opens.run()?)?,
        Work::Ask { socket, uid } => say(&probe::ask(&socket, uid)?)?,
    }
    // Stays alive until its input closes, so that its cgroup can be read while it exists.
    wait_for_line();
    Ok(ExitCode::SUCCESS)
}

/// Prints one report as a line of JSON.
fn say<T: Serialize>(report: &T) -> Result<(), WorkError> {
    let mut line = serde_json::to_string(report)?;
    line.push('\n');
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).map_err(WorkError::system("write"))
}

/// Waits for a line on standard input. Returns false if the input is closed.
fn wait_for_line() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0)
}
