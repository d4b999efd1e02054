//! Lifecycle hooks, grace periods and termination messages.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{PodFixture, SHORT_BACKOFF};
use super::manifest::{STAY, merged, pod, shell};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_hooks_and_grace", hooks).timeout(150).needs(NEEDS),
    Test::new("pod_termination_messages", messages).timeout(120).needs(NEEDS),
];

/// A server that answers requests with 200. Returns its port and a channel with each request's first line.
fn listen() -> Result<(u16, std::sync::mpsc::Receiver<String>), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Failure::file("127.0.0.1"))?;
    let port = listener.local_addr().map_err(Failure::file("127.0.0.1"))?.port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let mut text = [0; 1024];
            let read = stream.read(&mut text).unwrap_or(0);
            let line = String::from_utf8_lossy(&text[..read]).lines().next().unwrap_or_default().to_owned();
            let answered =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if answered.is_err() || sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok((port, receiver))
}

/// `postStart` and `preStop` run at the right moments, within the grace period; a failed `postStart` restarts
/// the container.
fn hooks(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::with_config(context, "", SHORT_BACKOFF)?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let noted = |name: &str| fs::read_to_string(notes.join(name)).unwrap_or_default().replace('\n', " ");
    let with = |name: &str, script: &str, hooks: Value, spec: Value| {
        let mount = json!([{ "name": "notes", "mountPath": "/notes" }]);
        let container = shell("c", script, json!({ "lifecycle": hooks, "volumeMounts": mount }));
        let volumes = json!({ "volumes": [{ "name": "notes", "hostPath": { "path": notes } }] });
        pod(name, merged(merged(volumes, json!({ "containers": [container] })), spec))
    };
    let exec = |script: String| json!({ "exec": { "command": ["/bin/sh", "-c", script] } });
    let on_term = |name: &str| {
        format!(
            "echo began >> /notes/{name}; trap 'echo term >> /notes/{name}; exit 0' TERM; while true; do sleep 600 & wait $!; done"
        )
    };
    let (port, requests) = listen()?;
    let get = json!({ "httpGet": { "host": "127.0.0.1", "port": port, "path": "/before/the/end", "scheme": "HTTP" } });
    let grace = |seconds: u32| json!({ "terminationGracePeriodSeconds": seconds });
    fixture.put([
        with("exec", &on_term("exec"), json!({
            "postStart": exec("while ! grep -q began /notes/exec; do sleep 0.05; done; echo poststart >> /notes/exec".into()),
            "preStop": exec("echo prestop >> /notes/exec".into()) }), grace(20)),
        with("get", &on_term("get"), json!({ "preStop": get }), grace(20)),
        with("sleep", &on_term("sleep"), json!({ "preStop": { "sleep": { "seconds": 2 } } }), grace(20)),
        // The time of the hook counts towards the grace period.
        with("endless", &on_term("endless"), json!({ "preStop": exec("sleep 600".into()) }), grace(2)),
        // Ignores SIGTERM.
        with("deaf", "trap '' TERM; while true; do sleep 1; done", json!({}), grace(2)),
        // A failing hook ends its container, which restarts.
        with("failing", STAY, json!({ "postStart": exec("echo no >&2; exit 7".into()) }), grace(1)),
        // Not ready before its hook has ended.
        with("slow", STAY, json!({ "postStart": exec("sleep 2".into()) }), grace(1)),
    ])?;
    let begun = Instant::now();
    for name in ["exec", "get", "sleep", "endless", "deaf"] {
        fixture.wait_up(name)?;
    }
    eventually(context.patiently(10), "the postStart hook did not run", || {
        Ok((noted("exec") == "began poststart ").then_some(()))
    })?;
    let slow = fixture.wait_up("slow")?;
    ensure!(
        begun.elapsed() >= Duration::from_secs(2),
        "a container was ready {:?} after its manifest, before its postStart of 2 s",
        begun.elapsed()
    );
    ensure_eq!(slow.container("c")?.restarts(), 0, "restarts of a container with a slow hook");
    let failing = fixture.wait_until("failing", "restarted after its hook failed", 20, |pod| {
        pod.container("c").is_ok_and(|c| c.restarts() >= 1)
    })?;
    ensure!(failing.container("c")?.last_terminated().is_some(), "no last state: {}", failing.0["status"]);

    for (name, from, to, notes) in [
        ("exec", 0, 5, "began poststart prestop term "),
        ("get", 0, 5, "began term "),
        ("sleep", 2, 7, "began term "),
        ("endless", 2, 8, ""),
        ("deaf", 2, 8, ""),
    ] {
        let begun = Instant::now();
        fixture.remove(name)?;
        fixture.wait_gone(&[name])?;
        let took = begun.elapsed();
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to) * context.patience);
        ensure!((from..=to).contains(&took), "pod {name} took {took:?} to end, not {from:?} to {to:?}");
        if !notes.is_empty() {
            ensure_eq!(noted(name), notes, "what happened in {name}");
        }
        if name == "get" {
            let line = requests.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
            ensure_eq!(line, "GET /before/the/end HTTP/1.1", "the hook's request");
        }
    }
    fixture.finish()
}

/// A termination message comes from its file, or from the log on an error where the policy says so, of at
/// most 4096 bytes.
fn messages(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let with = |name: &str, script: &str, more: Value| {
        pod(name, json!({ "restartPolicy": "Never", "containers": [shell("c", script, more)] }))
    };
    let fallback = json!({ "terminationMessagePolicy": "FallbackToLogsOnError" });
    fixture.put([
        with("said", "echo -n last words > /dev/termination-log; exit 3", json!({})),
        with(
            "elsewhere",
            "echo -n from elsewhere > /tmp/end",
            json!({ "terminationMessagePath": "/tmp/end" }),
        ),
        with("silent", "echo in the log; exit 1", json!({})),
        with("log", "echo one; echo two; exit 1", fallback.clone()),
        with("log-0", "echo one; echo two", fallback),
        // The kubelet's maximum: 4096 bytes.
        with("long", "yes x | head -c 9000 > /dev/termination-log; exit 1", json!({})),
    ])?;
    for (name, phase, code, message) in [
        ("said", "Failed", 3, "last words"),
        ("elsewhere", "Succeeded", 0, "from elsewhere"),
        ("silent", "Failed", 1, ""),
        ("log", "Failed", 1, "one\ntwo\n"),
        ("log-0", "Succeeded", 0, ""),
    ] {
        let seen = fixture.wait_phase(name, phase)?;
        let ended = seen.container("c")?.terminated().cloned().unwrap_or_default();
        let reason = if code == 0 { "Completed" } else { "Error" };
        ensure_eq!(
            (
                ended["exitCode"].as_i64(),
                ended["message"].as_str().unwrap_or_default(),
                ended["reason"].as_str()
            ),
            (Some(code), message, Some(reason)),
            "how {name} ended"
        );
    }
    let long = fixture.wait_phase("long", "Failed")?;
    let length = long.container("c")?.terminated().and_then(|e| e["message"].as_str().map(str::len));
    ensure_eq!(length, Some(4096), "bytes of a long message");
    logs(&fixture, &long)?;
    fixture.finish()
}

/// Checks that the logs have the kubelet's layout. Links in /var/log/containers are not made for another log
/// directory.
fn logs(fixture: &PodFixture<'_>, pod: &super::listed::ListedPod) -> Result<(), Failure> {
    let folder = fixture.log_dir(pod);
    let expected = format!("default_long_{}", pod.uid());
    ensure!(folder.ends_with(&expected), "{}", folder.display());
    ensure!(Path::new(&folder).join("c/0.log").is_file(), "no {}/c/0.log", folder.display());
    Ok(())
}
