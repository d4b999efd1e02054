//! Runs one fuzz target and reads what libFuzzer prints (LLVM's documentation, libFuzzer, "Output").

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xtask_common::process::{self, CommandError};

/// Longest time for one input.
const TIMEOUT: &str = "10";
/// Most memory of the program in MB, and of one allocation.
const MEMORY: [&str; 2] = ["-rss_limit_mb=512", "-malloc_limit_mb=64"];
/// The sanitizer keeps so much freed memory to recognise its use; its own amount is 256 MB.
const SANITIZER: &str = "quarantine_size_mb=16";
/// Longest input in bytes.
const LONGEST: &str = "8192";
/// How often a running target is shown.
const REMINDER: Duration = Duration::from_secs(20);
/// Number of the last lines that are kept for a crash.
const TAIL: usize = 60;

/// What is run, and where.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the target.
    pub name: String,
    pub program: PathBuf,
    /// The inputs in the repository, which are only read.
    pub seeds: PathBuf,
    /// Gets the inputs that reach new code.
    pub corpus: PathBuf,
    /// Gets the inputs that crash.
    pub artifacts: PathBuf,
    /// The working directory.
    pub folder: PathBuf,
    pub time: Duration,
}

/// What one target did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// Name of the target.
    pub name: String,
    /// Number of inputs that were run.
    pub runs: u64,
    /// The same a second.
    pub runs_per_second: u64,
    /// Number of inputs that reached new code.
    pub new_inputs: u64,
    /// Most memory in MB.
    pub memory_mb: u64,
    /// The input that crashed it.
    pub crash: Option<PathBuf>,
    /// How to run it with that input.
    pub command: String,
    /// The last lines that it printed, if it failed.
    pub tail: Vec<String>,
    /// Whether it ended with an error.
    pub failed: bool,
}

impl Run {
    /// Whether an input crashed it, or it failed in another way.
    pub fn is_bad(&self) -> bool {
        self.failed || self.crash.is_some()
    }

    /// Takes a line that libFuzzer printed.
    fn line(&mut self, line: &str) {
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.crash = Some(PathBuf::from(path.trim()));
        } else if let Some((name, value)) = line.strip_prefix("stat::").and_then(|stat| stat.split_once(':'))
        {
            let value = value.trim().parse().unwrap_or_default();
            match name {
                "number_of_executed_units" => self.runs = value,
                "average_exec_per_sec" => self.runs_per_second = value,
                "new_units_added" => self.new_inputs = value,
                "peak_rss_mb" => self.memory_mb = value,
                _ => {}
            }
        } else if let Some(number) = line.strip_prefix('#') {
            let number = number.split_ascii_whitespace().next().and_then(|number| number.parse().ok());
            self.runs = number.unwrap_or(self.runs);
            // Without a crash the final figures replace this.
            self.new_inputs += u64::from(line.split_ascii_whitespace().nth(1) == Some("NEW"));
        }
    }
}

/// Runs the target until its time is over or an input crashes it.
///
/// # Errors
/// When it can't be started or read.
pub fn run(settings: &Settings) -> Result<Run, CommandError> {
    let mut command = Command::new(&settings.program);
    let artifacts = format!("{}/", settings.artifacts.display());
    command.current_dir(&settings.folder).arg(&settings.corpus).arg(&settings.seeds);
    command.arg(format!("-max_total_time={}", settings.time.as_secs())).arg(format!("-timeout={TIMEOUT}"));
    command.args(MEMORY).arg(format!("-max_len={LONGEST}")).arg(format!("-artifact_prefix={artifacts}"));
    command.args(["-print_final_stats=1", "-reload=0"]).env("ASAN_OPTIONS", SANITIZER);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = |source| CommandError::Start { command: settings.program.display().to_string(), source };
    let mut child = command.spawn().map_err(start)?;
    let mut run = Run { name: settings.name.clone(), ..Run::default() };
    let mut tail = VecDeque::new();
    let (begun, mut shown) = (Instant::now(), Instant::now());
    println!("{}: begins", run.name);
    if let Some(output) = child.stderr.take() {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            run.line(&text);
            if tail.len() == TAIL {
                tail.pop_front();
            }
            tail.push_back(text);
            if shown.elapsed() >= REMINDER {
                shown = Instant::now();
                println!(
                    "{}: {} s, {} runs, {} new inputs",
                    run.name,
                    begun.elapsed().as_secs(),
                    run.runs,
                    run.new_inputs
                );
            }
        }
    }
    let wait = |source| CommandError::Watch { command: process::line(&command), source };
    run.failed = !child.wait().map_err(wait)?.success();
    let verdict = if run.is_bad() { "FAILED" } else { "ok" };
    println!("{}: {verdict}, {} runs, {} new inputs", run.name, run.runs, run.new_inputs);
    if run.is_bad() {
        run.tail = tail.into();
        let input = run.crash.as_ref().unwrap_or(&settings.seeds);
        run.command = format!("{} {}", settings.program.display(), input.display());
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Run {
        let mut run = Run::default();
        text.lines().for_each(|line| run.line(line));
        run
    }

    #[test]
    fn the_figures_of_a_run_are_read() {
        let text = "#2\tINITED cov: 5 ft: 6 corp: 1/1b exec/s: 0 rss: 40Mb\n\
            #17\tNEW    cov: 6 ft: 7 corp: 2/3b lim: 4 exec/s: 0 rss: 41Mb L: 2/2 MS: 1 InsertByte-\n\
            #1024\tpulse  cov: 6 ft: 7 corp: 2/3b lim: 11 exec/s: 512 rss: 41Mb\n";
        let running = read(text);
        assert_eq!((running.runs, running.new_inputs), (1024, 1));
        let text = format!(
            "{text}stat::number_of_executed_units: 2048\nstat::average_exec_per_sec:     682\n\
            stat::new_units_added:          3\nstat::slowest_unit_time_sec:    0\nstat::peak_rss_mb:              44\n"
        );
        let expected =
            Run { runs: 2048, runs_per_second: 682, new_inputs: 3, memory_mb: 44, ..Run::default() };
        assert_eq!(read(&text), expected);
        assert!(!expected.is_bad());
    }

    #[test]
    fn a_crash_has_its_input() {
        let text = "==1== ERROR: libFuzzer: deadly signal\n\
            artifact_prefix='/t/'; Test unit written to /t/crash-0a\nBase64: AA==\n";
        let run = read(text);
        assert_eq!(run.crash, Some("/t/crash-0a".into()));
        assert!(run.is_bad());
    }

    #[test]
    fn a_crashing_program_is_reported_with_its_command() {
        let temp = tempfile::tempdir().unwrap();
        let program = temp.path().join("target");
        let script = "#!/bin/sh\necho '#9 NEW' >&2\necho 'Test unit written to /t/crash-1' >&2\nexit 77\n";
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let folder = temp.path().to_owned();
        let settings = Settings {
            name: "t".into(),
            program: program.clone(),
            seeds: folder.clone(),
            corpus: folder.clone(),
            artifacts: folder.clone(),
            folder,
            time: Duration::from_secs(1),
        };
        let run = run(&settings).unwrap();
        assert!(run.is_bad() && run.failed);
        assert_eq!((run.runs, run.tail.len()), (9, 2));
        assert_eq!(run.command, format!("{} /t/crash-1", program.display()));
    }
}
