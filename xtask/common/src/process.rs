//! Running other programs: what they print is kept for the error that shows why they failed.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use thiserror::Error;

/// How many of its last lines a failed command shows.
const TAIL_LINES: usize = 20;

/// Leaves the CPUs to everything else: this thread, and the threads and programs that it starts from now on,
/// run only when no other process wants to (`SCHED_IDLE`, sched(7)).
///
/// # Errors
/// When the kernel refuses it.
pub fn take_idle_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameters during the call only, and 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Another program failed.
#[derive(Debug, Error)]
pub enum CommandError {
    /// It could not be started.
    #[error("cannot start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// What it prints could not be read, or its end not awaited.
    #[error("cannot read from or wait for `{command}`")]
    Watch {
        /// The command line.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It ended with an error.
    #[error("`{command}` failed ({status}){}", indent(tail))]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines it printed; empty when the user saw them already.
        tail: String,
    },
}

fn indent(tail: &str) -> String {
    tail.lines().map(|line| format!("\n    {line}")).collect()
}

/// The command line as a user would type it, without quoting.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Runs `command` with this process's own input and output.
///
/// # Errors
/// When it can't be started or ends with an error.
pub fn show(command: &mut Command) -> Result<(), CommandError> {
    let status = command.status().map_err(|source| CommandError::Start { command: line(command), source })?;
    check(command, status, String::new())
}

/// Runs `command` and returns what it printed on its standard output.
///
/// # Errors
/// When it can't be started or ends with an error, which then has the last lines of its standard error.
pub fn capture(command: &mut Command) -> Result<String, CommandError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| CommandError::Start { command: line(command), source })?;
    let mut tail = Tail::default();
    String::from_utf8_lossy(&output.stderr).lines().for_each(|line| tail.push(line));
    check(command, output.status, tail.text())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `command` unseen; `tick` gets each line it prints, and `None` for each second without one.
///
/// # Errors
/// When it can't be started or ends with an error, which then has the last lines it printed.
pub fn follow(command: &mut Command, mut tick: impl FnMut(Option<&str>)) -> Result<(), CommandError> {
    let start = |command: &Command, source| CommandError::Start { command: line(command), source };
    let (reader, writer) = io::pipe().map_err(|source| start(command, source))?;
    let error_writer = writer.try_clone().map_err(|source| start(command, source))?;
    command.stdin(Stdio::null()).stdout(writer).stderr(error_writer);
    let child = command.spawn();
    // The command holds the write ends: the reader sees the end only when they are closed.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.map_err(|source| start(command, source))?;

    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        each_line(reader, |line| {
            // The receiver only goes when the other side has failed.
            let _ = send.send(line.to_owned());
        })
    });
    let mut tail = Tail::default();
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                tail.push(&line);
                tick(Some(&line));
            }
            Err(RecvTimeoutError::Timeout) => tick(None),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(|source| CommandError::Watch { command: line(command), source })?;
    check(command, status, tail.text())
}

/// Runs `command` and hands each line of its standard output to `each`; its standard error is shown.
/// A bad exit status is the caller's to judge.
///
/// # Errors
/// When it can't be started or read.
pub fn each_output_line(command: &mut Command, each: impl FnMut(&str)) -> Result<ExitStatus, CommandError> {
    let watch = |command: &Command, source| CommandError::Watch { command: line(command), source };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| CommandError::Start { command: line(command), source })?;
    if let Some(output) = child.stdout.take() {
        each_line(output, each).map_err(|source| watch(command, source))?;
    }
    child.wait().map_err(|source| watch(command, source))
}

/// Hands on each line, without its end, also when it is not UTF-8.
fn each_line(from: impl Read, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        each(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(())
}

fn check(command: &Command, status: ExitStatus, tail: String) -> Result<(), CommandError> {
    if status.success() { Ok(()) } else { Err(CommandError::Failed { command: line(command), status, tail }) }
}

/// The last lines of an output.
#[derive(Debug, Default)]
struct Tail(VecDeque<String>);

impl Tail {
    fn push(&mut self, line: &str) {
        if self.0.len() == TAIL_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    fn text(self) -> String {
        Vec::from(self.0).join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_inherits_the_priority_of_idle_time() {
        let seen = thread::spawn(|| {
            take_idle_time().unwrap();
            let mut shell = Command::new("sh");
            // Field 41, the policy, is 5 for SCHED_IDLE; the name in parentheses has no blank.
            capture(shell.args(["-c", "cut -d' ' -f41 /proc/self/stat"])).unwrap()
        });
        assert_eq!(seen.join().unwrap().trim(), "5");
    }

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn follow_sees_both_outputs_and_the_error_has_the_tail() {
        let mut seen = Vec::new();
        let error = follow(&mut sh("echo out; echo err >&2; exit 3"), |line| {
            seen.extend(line.map(str::to_owned));
        })
        .unwrap_err();
        seen.sort();
        assert_eq!(seen, ["err", "out"]);
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("\n    out"), "{text}");
    }

    #[test]
    fn the_tail_is_bounded() {
        let error = follow(&mut sh("seq 1 100; false"), |_| ()).unwrap_err();
        let CommandError::Failed { tail, .. } = error else { panic!("{error}") };
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.starts_with("81\n") && tail.ends_with("\n100"));
    }

    #[test]
    fn capture_returns_standard_output_only() {
        assert_eq!(capture(&mut sh("echo out; echo err >&2")).unwrap(), "out\n");
        assert!(capture(&mut sh("echo why >&2; false")).unwrap_err().to_string().contains("why"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = show(&mut Command::new("/no/such/program")).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"));
    }

    #[test]
    fn output_lines_come_with_the_status() {
        let mut lines = Vec::new();
        let status =
            each_output_line(&mut sh("printf 'a\\nb'; exit 1"), |l| lines.push(l.to_owned())).unwrap();
        assert_eq!(lines, ["a", "b"]);
        assert_eq!(status.code(), Some(1));
    }
}
