//! The command line's output and exit codes when it writes to a pipe.

use std::process::Output;

use serde_json::Value;

use super::support::{MIB, die_of_memory, eventually};
use crate::fixture::{Agent, AgentOptions, TestRoot, command_line};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("command_line_without_agent", without_agent),
    Test::new("command_line_to_a_pipe", to_a_pipe).needs(&[
        Capability::Root,
        Capability::MemoryCgroup,
        Capability::Btf,
        Capability::Loopback,
    ]),
];

const READING: [&[&str]; 4] =
    [&["status"], &["tree"], &["events", "--no-follow"], &["top", "--iterations", "1"]];

/// Without a running agent every reading command prints an error that names the socket, and exits with 3.
fn without_agent(context: &Context) -> Result<(), Failure> {
    let absent = context.temp.join("absent.sock");
    // As left behind by a killed agent: a socket file that no process listens on.
    let dead = context.temp.join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).map_err(Failure::file(&dead))?);
    for (socket, arguments) in [&absent, &dead].into_iter().flat_map(|s| READING.map(|a| (s, a))) {
        let output = command_line(&context.agent, socket, arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure_eq!(output.status.code(), Some(3), "exit code of {arguments:?} without an agent ({errors})");
        ensure!(output.stdout.is_empty(), "{arguments:?} without an agent prints to standard output");
        let named = errors.contains(&socket.display().to_string());
        ensure!(named, "{arguments:?} does not name the socket: {errors}");
        ensure!(!errors.contains('\u{1b}'), "{arguments:?} writes escape codes to a pipe");
        ensure!(!errors.contains("panicked"), "{arguments:?} panicked: {errors}");
    }
    Ok(())
}

/// Reading commands print plain text and valid JSON to a pipe, with every field of an OOM kill.
fn to_a_pipe(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let group = root.child("victim")?;
    group.limit_memory(16 * MIB)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let (pid, _) = die_of_memory(context, &group, 64 * MIB)?;

    for arguments in READING {
        let output = succeed(&agent, arguments)?;
        ensure!(!output.contains('\u{1b}'), "{arguments:?} writes escape codes to a pipe");
        ensure!(!output.trim().is_empty(), "{arguments:?} prints nothing");
    }
    ensure!(succeed(&agent, &["tree"])?.contains("victim"), "`tree` does not show the cgroup");

    let arguments = ["events", "--no-follow", "--since", "5m", "--output", "json"];
    let found = eventually(context.patiently(3), "`events --output json` does not show the kill", || {
        for line in succeed(&agent, &arguments)?.lines() {
            let event: Value = serde_json::from_str(line)
                .map_err(|error| Failure::Unexpected(format!("not a line of JSON: {error}: {line}")))?;
            if event["type"] == "oom" && event["pid"] == pid {
                return Ok(Some(event));
            }
        }
        Ok(None)
    })?;
    ensure_eq!(found["cgroup"], group.path(), "cgroup in JSON");
    ensure_eq!(found["limitBytes"], 16 * MIB, "limit in JSON");
    ensure_eq!(found["scope"], "cgroup", "scope in JSON");
    ensure!(found["seq"].is_u64() && found["time"].is_string(), "seq or time is missing in JSON");

    let text = succeed(&agent, &["events", "--no-follow", "--since", "5m"])?;
    ensure!(
        text.lines().any(|line| line.contains("nw-eater") && line.contains(group.path())),
        "`events` does not show the killed command and its cgroup:\n{text}"
    );
    Ok(())
}

/// Standard output of a command that must exit with 0.
fn succeed(agent: &Agent, arguments: &[&str]) -> Result<String, Failure> {
    let Output { status, stdout, stderr } = agent.command(arguments)?;
    ensure!(
        status.success(),
        "{arguments:?} ended with {status}: {}",
        String::from_utf8_lossy(&stderr).trim()
    );
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}
