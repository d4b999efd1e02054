//! The commands of the documents that only read, run against an agent in mode observe. That all others are
//! understood is a unit test of the agent (`agent/src/cli/documents.rs`).

use std::path::Path;
use std::process::{Command, Stdio};

use nodewarden_testing::documents::{self, Document};

use crate::fixture::{Agent, AgentOptions};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("documents_commands", commands)
    .timeout(180)
    .in_parallel()
    .needs(&[Capability::Root, Capability::Loopback])];

/// The address of Prometheus that the documents have; the agent of the test has another port.
const ADDRESS: &str = "http://127.0.0.1:10350";

/// What is done with a command.
enum Plan {
    /// It is run with these arguments; `true`: it asks the agent.
    Run(Vec<String>, bool),
    /// This path is got over HTTP.
    Get(String),
    /// Why it is not run.
    Leave(&'static str),
}

/// Every one exits with 0, or is answered with 200.
fn commands(context: &Context) -> Result<(), Failure> {
    let root = documents::repository();
    let Ok(documents) = documents::read(&root) else {
        return Err(Failure::Skip(format!("the documents are not at {}", root.display())));
    };
    let agent = Agent::start(context, &AgentOptions::default())?;
    let bundle = context.temp.join("bundle.tar.gz").display().to_string();
    let (mut run, mut got, mut left) = (0, 0, Vec::new());
    for found in documents.iter().flat_map(Document::shell_lines) {
        let Some(plan) = plan(&documents::words(&found.text), &root, &bundle) else { continue };
        let name = format!("{}: {}", found.place, found.text);
        match plan {
            Plan::Run(arguments, asks) => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let output = if asks {
                    agent.command(&arguments)?
                } else {
                    let mut command = Command::new(&context.agent);
                    command.args(&arguments).current_dir(&root).stdin(Stdio::null());
                    command.output().map_err(Failure::file(&context.agent))?
                };
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                ensure!(output.status.success(), "{name}: {}: {}", output.status, errors.trim());
                run += 1;
                let _again = std::fs::remove_file(&bundle);
            }
            Plan::Get(path) => {
                ensure_eq!(agent.get(&path)?.status, 200, "status of {name}");
                got += 1;
            }
            Plan::Leave(why) => left.push(format!("{name} ({why})")),
        }
    }
    println!("{run} commands run, {got} paths got; {} left: {}", left.len(), left.join("; "));
    ensure!(run >= 50 && got >= 5, "only {run} commands were run and {got} paths got");
    Ok(())
}

/// What is done with a line of a document; `None` if it is of another program.
fn plan(words: &[String], root: &Path, bundle: &str) -> Option<Plan> {
    let (program, arguments) = words.split_first()?;
    if program == "curl" {
        let path = arguments.iter().find_map(|word| word.strip_prefix(ADDRESS))?;
        return Some(Plan::Get(path.to_owned()));
    }
    if program != "nodewarden" && program != "target/debug/nodewarden" {
        return None;
    }
    let mut arguments: Vec<String> = arguments.iter().map(|word| shipped(word)).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let first = arguments.first().map(String::as_str).unwrap_or_default();
    let plan = match first {
        "agent" | "" => Plan::Leave("starts an agent"),
        flag if flag.starts_with('-') => Plan::Leave("starts an agent"),
        "logs" | "exec" => Plan::Leave("needs a pod"),
        "pods" if has("describe") => Plan::Leave("needs a pod"),
        "explain" if !has("node") => Plan::Leave("needs a pod"),
        "images" | "gc" => Plan::Leave("needs a container runtime"),
        "undo" => Plan::Leave("is about the state of another agent"),
        "config" | "plan" => {
            let missing = arguments.iter().any(|word| word.contains('/') && !root.join(word).exists());
            if missing { Plan::Leave("names a file of an installation") } else { Plan::Run(arguments, false) }
        }
        "bundle" => Plan::Run(vec!["bundle".into(), "--output".into(), bundle.into()], true),
        "events" if !has("--no-follow") => {
            arguments.push("--no-follow".into());
            Plan::Run(arguments, true)
        }
        _ => Plan::Run(arguments, true),
    };
    Some(plan)
}

/// The file of the repository that packages install as `word`, if it is one of the configuration.
fn shipped(word: &str) -> String {
    match word.strip_prefix("/etc/nodewarden/") {
        Some(name) if name.ends_with(".yaml") => format!("deploy/packages/{name}"),
        _ => word.to_owned(),
    }
}
