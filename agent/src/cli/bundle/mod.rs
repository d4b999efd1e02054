//! `nodewarden bundle`: what a report of a problem needs, in one archive without secrets.
//!
//! What can't be had is listed in `problems` in the archive; an agent that does not run leads to a bundle
//! about the machine.

mod facts;
mod running;
mod secrets;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Parser};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nodewarden_config as config;

use super::output::print;
use super::{Cli, CliError, Command as Subcommand, SocketArg, arguments, version};

/// Collect what a report of a problem needs in one archive, without secrets
#[derive(Debug, Args)]
#[command(after_help = "\
The archive has the status, the effective settings, the journal, metrics, pods, the agent's log and facts about kernel and
machine. Values of environment variables, tokens, passwords and private keys are left out; look through it all the same
before you pass it on: names of pods, images and cgroups are in it.")]
pub struct BundleArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// The archive [default: nodewarden-bundle-TIME.tar.gz in this directory]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What this program itself prints, and its name in the archive.
const COMMANDS: [(&str, &[&str]); 10] = [
    ("status.txt", &["status"]),
    ("status.json", &["status", "--output", "json"]),
    ("tree.txt", &["tree"]),
    ("top.txt", &["top", "--iterations", "1"]),
    ("events.jsonl", &["events", "--no-follow", "--output", "json"]),
    ("pods.txt", &["pods", "--output", "wide"]),
    ("pods.json", &["pods", "--output", "json"]),
    ("devices.json", &["devices", "--output", "json"]),
    ("cpus.json", &["cpus", "--output", "json"]),
    ("images.json", &["images", "--output", "json"]),
];
/// Metrics, and their name in the archive.
const METRICS: [(&str, &str); 5] = [
    ("/metrics", "metrics/own"),
    ("/metrics/cadvisor", "metrics/cadvisor"),
    ("/metrics/resource", "metrics/resource"),
    ("/stats/summary", "metrics/summary.json"),
    ("/healthz?verbose", "metrics/health"),
];
/// How many lines of the agent's log are taken.
const LOG_LINES: &str = "5000";

/// What was collected: texts by name, and what could not be had.
#[derive(Debug, Default)]
struct Bundle {
    files: Vec<(String, String)>,
    problems: Vec<String>,
}

impl Bundle {
    /// Adds a text, without what looks like a secret.
    fn add(&mut self, name: &str, text: &str) {
        self.files.push((name.to_owned(), secrets::scrub(text)));
    }

    /// Adds a document of JSON without secrets, by its structure too.
    fn add_json(&mut self, name: &str, text: &str) {
        match serde_json::from_str(text) {
            Ok(mut value) => {
                secrets::mask(&mut value);
                self.files.push((name.to_owned(), format!("{value:#}\n")));
            }
            Err(error) => self.problem(name, &error),
        }
    }

    fn problem(&mut self, name: &str, why: &dyn std::fmt::Display) {
        self.problems.push(format!("{name}: {why}"));
    }

    /// The archive, in which everything is below a folder.
    fn pack(mut self, folder: &str, seconds: u64) -> std::io::Result<Vec<u8>> {
        let problems = if self.problems.is_empty() { "none".to_owned() } else { self.problems.join("\n") };
        self.add("problems", &format!("{problems}\n"));
        self.files.sort();
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        for (name, text) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(seconds);
            archive.append_data(&mut header, format!("{folder}/{name}"), text.as_bytes())?;
        }
        archive.into_inner()?.finish()
    }
}

/// Collects, writes the archive and says where it is.
pub fn run(args: &BundleArgs) -> Result<(), CliError> {
    let now = Timestamp::now();
    let stamp = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string();
    let folder = format!("nodewarden-bundle-{stamp}");
    let path = args.output.clone().unwrap_or_else(|| format!("{folder}.tar.gz").into());
    let mut bundle = Bundle::default();
    bundle.add("version", &format!("{}\n", version()));
    for (name, text) in facts::read() {
        bundle.add(&name, &text);
    }
    commands(&mut bundle, &args.socket.socket);
    agent(&mut bundle, &args.socket.socket);
    log(&mut bundle);
    let (files, problems) = (bundle.files.len() + 1, bundle.problems.len());
    let archive = bundle.pack(&folder, u64::try_from(now.as_second()).unwrap_or_default())?;
    // Only its owner may read it: names of pods and images are in it.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(&archive)?;
    let missing = match problems {
        0 => String::new(),
        n => format!(" ({n} could not be had: see the file `problems` in it)"),
    };
    print(&format!("{}: {files} files{missing}\n", path.display()))?;
    Ok(())
}

/// What this program prints about the agent.
fn commands(bundle: &mut Bundle, socket: &Path) {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return bundle.problem("the path of this program", &error),
    };
    for (name, words) in COMMANDS {
        let mut command = Command::new(&own);
        command.args(words).arg("--socket").arg(socket).stdin(Stdio::null());
        match output(&mut command) {
            Ok(text) if name.ends_with(".json") => bundle.add_json(name, &text),
            Ok(text) => bundle.add(name, &text),
            Err(why) => bundle.problem(name, &why),
        }
    }
}

/// What a command prints on its standard output, or why it failed.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{}: {}", output.status, secrets::scrub(String::from_utf8_lossy(&output.stderr).trim())))
}

/// The running agent: its process, settings and metrics.
fn agent(bundle: &mut Bundle, socket: &Path) {
    let found = running::process(socket).and_then(|pid| Ok((pid, running::arguments(pid)?)));
    let (pid, (words, directory)) = match found {
        Ok(found) => found,
        Err(error) => return bundle.problem(&socket.display().to_string(), &error),
    };
    let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    bundle.add("agent/command-line", &format!("{}\n", line.join(" ")));
    match running::variables(pid) {
        Ok(names) => bundle.add("agent/variables", &names),
        Err(error) => bundle.problem("agent/variables", &error),
    }
    for (name, text) in running::about(pid) {
        bundle.add(&name, &text);
    }
    let config = match settings(words, &directory) {
        Ok(config) => config,
        Err(why) => return bundle.problem("agent/settings.yaml", &why),
    };
    match masked_yaml(&config.to_yaml()) {
        Ok(text) => bundle.add("agent/settings.yaml", &text),
        Err(error) => bundle.problem("agent/settings.yaml", &error),
    }
    for (path, name) in METRICS {
        match running::get(&config, path) {
            Ok(text) if name.ends_with(".json") => bundle.add_json(name, &text),
            Ok(text) => bundle.add(name, &text),
            Err(error) => bundle.problem(name, &error),
        }
    }
}

/// The settings that these arguments of an agent lead to, as its files are now.
fn settings(words: Vec<OsString>, directory: &Path) -> Result<config::Config, String> {
    let arguments = arguments::arguments(words.into_iter());
    let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string())?;
    let Subcommand::Agent(args) = cli.command else { return Err("it is no agent".to_owned()) };
    args.load(directory).map_err(|error| error.to_string())
}

/// The YAML document without secrets.
fn masked_yaml(text: &str) -> Result<String, serde_yaml_ng::Error> {
    let mut value: serde_json::Value = serde_yaml_ng::from_str(text)?;
    secrets::mask(&mut value);
    serde_yaml_ng::to_string(&value)
}

/// The agent's log, where systemd keeps it.
fn log(bundle: &mut Bundle) {
    if fs::metadata("/run/systemd/system").is_err() {
        return bundle.problem("log", &"systemd does not keep it here");
    }
    let mut command = Command::new("journalctl");
    command.args(["--no-pager", "--output=short-iso", "--lines", LOG_LINES, "--unit=nodewarden*"]);
    match output(command.stdin(Stdio::null())) {
        Ok(text) => bundle.add("log", &text),
        Err(why) => bundle.problem("log", &why),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_archive_holds_what_was_added_without_secrets() {
        let mut bundle = Bundle::default();
        bundle.add("a/log", "PASSWORD=hunter2 was read\n");
        bundle.add_json("pods.json", r#"{"env": [{"name": "A", "value": "hunter2"}]}"#);
        bundle.add_json("broken.json", "{");
        let packed = bundle.pack("folder", 7).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let mut texts = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            assert_eq!(entry.header().mode().unwrap(), 0o600);
            texts.push((entry.path().unwrap().display().to_string(), text));
        }
        let names: Vec<_> = texts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["folder/a/log", "folder/pods.json", "folder/problems"]);
        assert!(texts.iter().all(|(_, text)| !text.contains("hunter2")), "{texts:?}");
        assert!(texts[2].1.starts_with("broken.json: "));
    }

    #[test]
    fn settings_are_those_of_the_agents_arguments() {
        let temp = tempfile::tempdir().unwrap();
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n\
                    staticPodURL: http://127.0.0.1/x\nstaticPodURLHeader: {X-Key: [hunter2]}\n";
        fs::write(temp.path().join("c.yaml"), text).unwrap();
        let words = ["nodewarden", "agent", "--config", "c.yaml"].map(OsString::from).to_vec();
        let config = settings(words, temp.path()).unwrap();
        let shown = masked_yaml(&config.to_yaml()).unwrap();
        assert!(shown.contains("maxPods: 7"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
        settings(["nodewarden", "top"].map(OsString::from).to_vec(), temp.path()).unwrap_err();
    }

    #[test]
    fn a_failed_command_says_why() {
        let why = output(Command::new("sh").args(["-c", "echo token=hunter2 >&2; exit 3"])).unwrap_err();
        assert_eq!(why, "exit status: 3: token=<left out>");
    }
}
