//! The commands in the documents: those of `cargo xtask` are read with its own definition, those of
//! `nodewarden` by a test of the agent (`agent/src/cli/documents.rs`) and, where they only read, run by the
//! end-to-end test `documents`. All blocks are read by a shell, without running them.

use std::process::Command;

use clap::Parser;
use clap::error::ErrorKind;
use nodewarden_testing::documents::{self, Document, Found};

use crate::Cli;

/// Programs whose lines no test checks, with the reason.
const UNCHECKED: [(&str, &str); 17] = [
    ("curl", "the end-to-end test `documents` asks the agent for the same paths"),
    ("df", "a program of the system that only shows"),
    ("journalctl", "needs a systemd that runs the agent"),
    (
        "systemctl",
        "changes the services of the machine; the tests of packages do it in a machine of their own",
    ),
    ("xdg-open", "needs a desktop; the end-to-end tests of the page open it in a browser"),
    ("kubectl", "needs a cluster with the agent as DaemonSet; files that it names are looked for"),
    // The block that makes an OOM kill in first-ten-minutes.md. The end-to-end tests `oom` make others.
    ("if", SCRIPT),
    ("else", SCRIPT),
    ("fi", SCRIPT),
    ("mkdir", SCRIPT),
    ("echo", SCRIPT),
    ("rmdir", SCRIPT),
    ("sh", SCRIPT),
    ("group=/sys/fs/cgroup/memory/nodewarden-demo", SCRIPT),
    ("group=/sys/fs/cgroup/nodewarden-demo", SCRIPT),
    // Read by the test of the agent.
    ("nodewarden", "see above"),
    ("target/debug/nodewarden", "see above"),
];
const SCRIPT: &str = "writes to cgroups of the machine";
/// Where files that commands name are.
const FOLDERS: [&str; 2] = ["deploy/", "docs/"];

fn documents() -> Vec<Document> {
    documents::read(&documents::repository()).unwrap()
}

fn is_own(words: &[String]) -> bool {
    words.starts_with(&["cargo".to_owned(), "xtask".to_owned()])
}

fn parse(words: &[String]) -> Result<(), clap::Error> {
    Cli::try_parse_from(words.iter().skip(1)).map(|_| ())
}

fn failed(found: &Found, error: &clap::Error) -> String {
    format!("{}: {}\n{error}", found.place, found.text)
}

#[test]
fn commands_in_blocks_are_complete_or_listed() {
    let mut problems = Vec::new();
    let (mut read, mut listed) = (0, 0);
    let root = documents::repository();
    for found in documents().iter().flat_map(Document::shell_lines) {
        let words = documents::words(&found.text);
        for file in words.iter().filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder))) {
            if !root.join(file).exists() {
                problems.push(format!("{}: {file} does not exist", found.place));
            }
        }
        if is_own(&words) {
            read += 1;
            problems.extend(parse(&words).err().map(|error| failed(&found, &error)));
        } else if UNCHECKED.iter().any(|(program, _)| words.first().is_some_and(|first| first == program)) {
            listed += 1;
        } else {
            problems.push(format!("{}: no test knows this command: {}", found.place, found.text));
        }
    }
    println!("{read} commands of cargo xtask in blocks; {listed} of others");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(read >= 4, "only {read} commands were found");
}

#[test]
fn programs_that_are_not_checked_are_used() {
    let lines: Vec<Found> = documents().iter().flat_map(Document::shell_lines).collect();
    for (program, _) in UNCHECKED {
        let used =
            lines.iter().any(|found| documents::words(&found.text).first().is_some_and(|w| w == program));
        assert!(used, "{program} is in no block");
    }
}

/// Within a sentence arguments may be missing, and in capitals stand for something.
#[test]
fn commands_in_sentences_exist() {
    let mut problems = Vec::new();
    let mut read = 0;
    for found in documents().iter().filter(|d| d.path != "CHANGELOG.md").flat_map(Document::inline_code) {
        let words = documents::usage_words(&found.text);
        if !is_own(&words) || words.len() < 3 {
            continue;
        }
        read += 1;
        let Err(error) = parse(&words) else { continue };
        let stands_for = |word: &String| word.chars().any(|c| c.is_ascii_uppercase());
        let tolerated = match error.kind() {
            ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => true,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => words.iter().any(stands_for),
            _ => false,
        };
        if !tolerated {
            problems.push(failed(&found, &error));
        }
    }
    println!("{read} commands of cargo xtask in sentences");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(read >= 30, "only {read} commands were found");
}

#[test]
fn a_shell_reads_every_block() {
    let mut read = 0;
    for script in documents().iter().flat_map(Document::scripts) {
        read += 1;
        let output = Command::new("sh").args(["-n", "-c", &script.text]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}\n{}", script.place, script.text);
    }
    assert!(read >= 20, "only {read} blocks were found");
}
