//! The commands `nodewarden pods`, `pods describe`, `logs`, `exec` and `events --pod`.

use std::process::Output;
use std::time::SystemTime;

use serde_json::json;

use super::NEEDS;
use super::fixture::{PodFixture, SHORT_BACKOFF};
use super::manifest::{STAY, pod, shell};
use crate::e2e::support::{eventually, since};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_command_line", commands).timeout(120).needs(NEEDS)];

/// Output as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a command that must have succeeded.
fn printed(output: &Output, command: &[&str]) -> Result<String, Failure> {
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, text(&output.stderr));
    Ok(text(&output.stdout))
}

/// The commands list and describe pods, show logs of a run and of the one before, run a command inside a
/// container, and show one pod's events.
fn commands(context: &Context) -> Result<(), Failure> {
    let begin = SystemTime::now();
    let mut fixture = PodFixture::with_config(context, "", SHORT_BACKOFF)?;
    let chatty = format!("for i in 1 2 3 4 5; do echo line $i; done; echo wrong >&2; {STAY}");
    fixture.put([
        pod(
            "chatty",
            json!({ "containers": [
            shell("c", &chatty, json!({ "resources": { "limits": { "cpu": "100m", "memory": "32Mi" } } })),
            shell("other", STAY, json!({ "resources": { "limits": { "cpu": "100m", "memory": "32Mi" } } })),
        ] }),
        ),
        pod("fails", json!({ "containers": [shell("c", "echo run; sleep 1; exit 9", json!({}))] })),
    ])?;
    let chatty = fixture.wait_up("chatty")?;
    fixture
        .wait_until("fails", "restarted", 20, |pod| pod.container("c").is_ok_and(|c| c.restarts() >= 1))?;
    let run = |command: &[&str]| -> Result<String, Failure> { printed(&fixture.command(command)?, command) };

    let list = run(&["pods"])?;
    let line = list.lines().find(|line| line.contains("chatty")).unwrap_or_default().to_owned();
    for word in ["Running", "Guaranteed", "2/2"] {
        ensure!(line.contains(word), "{word} is not in {line:?} of\n{list}");
    }
    let described = run(&["pods", "describe", "fails"])?;
    for word in ["fails", "BestEffort", "exit code", "9", "fails.json"] {
        ensure!(described.contains(word), "{word:?} is not in\n{described}");
    }
    ensure!(run(&["pods", "describe", "chatty"])?.contains(chatty.uid()), "no uid");
    let unknown = fixture.command(&["pods", "describe", "missing"])?;
    ensure!(!unknown.status.success() && text(&unknown.stderr).contains("missing"), "{unknown:?}");

    ensure_eq!(run(&["logs", "-c", "c", "--tail", "2", "chatty"])?.contains("line 3"), false, "--tail 2");
    let all = run(&["logs", "-c", "c", "chatty"])?;
    // Standard output and standard error reach the runtime separately, so their order is not fixed.
    let lines: Vec<&str> = all.lines().filter(|line| *line != "wrong").collect();
    ensure_eq!(lines, ["line 1", "line 2", "line 3", "line 4", "line 5"], "logs: {all:?}");
    ensure!(all.contains("wrong\n"), "no stderr in the log: {all:?}");
    eventually(context.patiently(20), "no log of the previous run", || {
        let output = fixture.command(&["logs", "fails", "--previous"])?;
        Ok((text(&output.stdout) == "run\n").then_some(()))
    })?;

    let script = "echo out; echo err >&2; readlink /proc/self/ns/pid; exit 7";
    let output = fixture.command(&["exec", "-c", "c", "chatty", "--", "/bin/sh", "-c", script])?;
    let own = std::fs::read_link("/proc/self/ns/pid").map_err(Failure::file("/proc/self/ns/pid"))?;
    ensure_eq!(output.status.code(), Some(7), "exit code of exec: {}", text(&output.stderr));
    ensure!(text(&output.stdout).starts_with("out\npid:["), "stdout of exec: {:?}", text(&output.stdout));
    ensure!(
        !text(&output.stdout).contains(&own.display().to_string()),
        "the command did not run in the container"
    );
    ensure!(text(&output.stderr).contains("err"), "stderr of exec: {:?}", text(&output.stderr));

    // The pod's own events are in the journal, and `events --pod` finds them.
    let client = fixture.agent()?.client()?;
    let quiet = context.patiently(10);
    let events = client
        .watch(since(begin, &["pod"]))?
        .collect(quiet, quiet, |event| event.pod.as_ref().is_some_and(|pod| pod.name == "fails"))?;
    ensure!(events.len() >= 3, "only {} events of a pod whose container restarted", events.len());
    let shown = run(&["events", "--since", "5m", "--no-follow", "--pod", "fails"])?;
    ensure!(shown.contains("fails") && !shown.contains("chatty"), "events of one pod: {shown}");
    fixture.finish()
}
