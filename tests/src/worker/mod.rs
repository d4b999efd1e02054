//! The processes that play the workload: `nodewarden-e2e worker …`, hidden from users. Each says `{"ready":pid}`,
//! waits for a line on standard input, does its work, and reports JSON lines on standard output.

mod balloon;
mod block;
mod child;
mod cpu;
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

/// What can end a worker early: the call and its error.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error("{call}: {source}")]
    System { call: &'static str, source: std::io::Error },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("report: {0}")]
    Report(#[from] serde_json::Error),
    #[error("a child ended as {0:?} instead of as it should")]
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
    /// Only there to be found on the command line when something stays behind.
    #[arg(long)]
    tag: String,
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// Does nothing until told to end.
    Sleep,
    /// Exits with a code.
    Exit { code: u8 },
    /// Dies by SIGSEGV, without a core file.
    Segv,
    /// Touches memory until done, then waits.
    EatMemory { bytes: u64 },
    /// Holds memory of each kind, reports it, and on the next line takes more until killed.
    Balloon(balloon::Balloon),
    /// Lets victims die by the memory limit and reports each.
    OomVictims(memory::Victims),
    /// Reads a file again and again through the page cache.
    ReadFile { path: PathBuf, passes: u32 },
    /// Keeps a CPU busy.
    Spin { milliseconds: u64 },
    /// Wakes again and again, works a little, and reports how long it waited for a CPU each time.
    Pulse { milliseconds: u64, every_us: u64, busy_us: u64 },
    /// Forks children of which some exec, some exit and some are killed.
    Processes(processes::Plan),
    /// Forks children that stay, until the kernel refuses one, and reports how many there are.
    ForkUntilRefused { at_most: u64 },
    /// Exits with a code as the first process of a pid namespace.
    ExitInNamespace { code: u8 },
    /// Forks short-lived children until killed.
    ForkForever,
    /// Forks children that fork until killed.
    ForkBomb,
    /// A fixed amount of switches and forks, timed.
    Storm(storm::Storm),
    /// Receives UDP datagrams and reports the port first.
    UdpReceive { packets: u64 },
    /// Sends UDP datagrams.
    UdpSend { port: u16, packets: u64, payload: usize },
    /// Receives one TCP stream and reports the port first.
    TcpReceive,
    /// Sends one TCP stream.
    TcpSend { port: u16, bytes: u64 },
    /// Writes blocks past the page cache.
    WriteDirect { path: PathBuf, blocks: u32, block_bytes: usize },
    /// Opens a device in one cgroup after the other, timed.
    Opens(opens::Opens),
    /// Asks the agent for its status as another user.
    Ask { socket: PathBuf, uid: u32 },
}

/// Runs a worker if the command line asks for one.
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
        Work::Processes(plan) => say(&plan.run()?)?,
        Work::ForkUntilRefused { at_most } => say(&processes::fork_until_refused(at_most)?)?,
        Work::ExitInNamespace { code } => say(&processes::exit_in_namespace(code)?)?,
        Work::ForkForever => processes::fork_forever()?,
        Work::ForkBomb => processes::fork_bomb(),
        Work::Storm(storm) => say(&storm.run()?)?,
        Work::UdpReceive { packets } => network::udp_receive(packets)?,
        Work::UdpSend { port, packets, payload } => say(&network::udp_send(port, packets, payload)?)?,
        Work::TcpReceive => network::tcp_receive()?,
        Work::TcpSend { port, bytes } => say(&network::tcp_send(port, bytes)?)?,
        Work::WriteDirect { path, blocks, block_bytes } => {
            say(&block::write_direct(&path, blocks, block_bytes)?)?;
        }
        Work::Opens(opens) => say(&opens.run()?)?,
        Work::Ask { socket, uid } => say(&probe::ask(&socket, uid)?)?,
    }
    // Lives on until its input closes, so that its cgroup can be read while it is still there.
    wait_for_line();
    Ok(ExitCode::SUCCESS)
}

/// Prints one report.
fn say<T: Serialize>(report: &T) -> Result<(), WorkError> {
    let mut line = serde_json::to_string(report)?;
    line.push('\n');
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).map_err(WorkError::system("write"))
}

/// False when the input is closed.
fn wait_for_line() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0)
}
