//! What people do with kubectl on a node: follow logs, use a terminal, attach, describe, drain and debug.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::ClusterFixture;
use super::manifest::{WAIT, deployment, pod};
use crate::e2e::support::eventually;
use crate::fixture::BUSYBOX_IMAGE;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_kubectl_logs", logs).timeout(240).needs(NEEDS),
    Test::new("cluster_kubectl_terminal", terminal).timeout(240).needs(NEEDS),
    Test::new("cluster_kubectl_describe", describe).timeout(240).needs(NEEDS),
    Test::new("cluster_kubectl_drain", drain).timeout(300).needs(NEEDS),
    Test::new("cluster_kubectl_debug", debug).timeout(240).needs(NEEDS),
];

/// A log is followed to its end; that of the run before, the newest lines, and those since a time can be
/// asked for.
fn logs(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let mut writer = pod("writer", fixture.name(), "for n in 1 2 3 4 5 6; do echo line $n; sleep 1; done");
    writer["spec"]["restartPolicy"] = "Never".into();
    fixture.apply(&writer)?;
    fixture.wait_ready("writer")?;
    let begun = Instant::now();
    let followed = fixture.run(&["logs", "--follow", "writer"])?;
    let lines: Vec<&str> = followed.lines().collect();
    ensure_eq!(lines, ["line 1", "line 2", "line 3", "line 4", "line 5", "line 6"], "followed log");
    ensure!(begun.elapsed() > Duration::from_secs(2), "the log ended after {:?}", begun.elapsed());
    fixture.wait_pod("writer", "at its end", 20, |pod| pod["status"]["phase"] == "Succeeded")?;
    let begun = Instant::now();
    ensure_eq!(
        fixture.run(&["logs", "--follow", "writer"])?.lines().count(),
        6,
        "lines of one that has ended"
    );
    ensure!(begun.elapsed() < Duration::from_secs(5), "a log that has ended took {:?}", begun.elapsed());
    ensure_eq!(fixture.run(&["logs", "writer", "--tail=2"])?, "line 5\nline 6\n", "--tail=2");
    ensure_eq!(fixture.run(&["logs", "writer", "--tail=0"])?, "", "--tail=0");
    ensure_eq!(fixture.run(&["logs", "writer", "--limit-bytes=9"])?, "line 1\nli", "--limit-bytes=9");

    let stamped = fixture.run(&["logs", "writer", "--timestamps"])?;
    let fourth = stamped.lines().nth(3).and_then(|line| line.split(' ').next()).unwrap_or_default();
    let since = fixture.run(&["logs", "writer", &format!("--since-time={fourth}")])?;
    // Kubernetes sends whole seconds; the lines are a second apart.
    ensure!(since.ends_with("line 4\nline 5\nline 6\n"), "--since-time={fourth} of {stamped}: {since:?}");
    ensure!(!since.contains("line 2"), "--since-time={fourth} of {stamped}: {since:?}");
    ensure_eq!(fixture.run(&["logs", "writer", "--since=1h"])?.lines().count(), 6, "lines with --since=1h");
    std::thread::sleep(Duration::from_secs(2));
    ensure_eq!(fixture.run(&["logs", "writer", "--since=1s"])?, "", "--since=1s");
    previous(&fixture)?;
    fixture.finish()
}

/// The run before the present one; that of a container that has none is an error.
fn previous(fixture: &ClusterFixture<'_>) -> Result<(), Failure> {
    let script =
        format!("if [ -e /keep/was ]; then echo second; {WAIT}; fi; echo > /keep/was; echo first; exit 1");
    let mut again = pod("again", fixture.name(), &script);
    again["spec"]["volumes"] = json!([{ "name": "keep", "emptyDir": {} }]);
    again["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "keep", "mountPath": "/keep" }]);
    fixture.apply(&again)?;
    fixture.wait_pod("again", "running for the second time", 60, |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        status["restartCount"] == 1 && !status["state"]["running"].is_null()
    })?;
    ensure_eq!(fixture.run(&["logs", "again", "--previous"])?, "first\n", "log of the run before");
    eventually(fixture.context().patiently(10), "the log of the second run is missing", || {
        Ok((fixture.run(&["logs", "again"])? == "second\n").then_some(()))
    })?;
    let none = fixture.run(&["logs", "writer", "--previous"]);
    let says = none.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(says.contains("previous terminated container"), "--previous without a run before: {says:?}");
    Ok(())
}

/// A shell with a terminal, and a container to which one attaches.
fn terminal(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let mut echo = pod("echo", fixture.name(), "while read line; do echo heard $line; done; sleep 1");
    echo["spec"]["containers"][0]["stdin"] = true.into();
    fixture.apply(&echo)?;
    fixture.wait_ready("echo")?;

    let script = "if [ -t 0 ]; then echo is a terminal; fi; read line; echo heard $line; exit 5";
    let arguments = ["exec", "-i", "-t", "echo", "--", "/bin/sh", "-c", script];
    let command = fixture.kubectl().command(&[&["--namespace", fixture.name()], &arguments[..]].concat());
    let (status, output) = in_terminal(context, command, "is a terminal", "hello\r")?;
    ensure_eq!(status, Some(5), "exit status of exec -it, {output:?}");
    ensure!(output.contains("heard hello\r\n"), "output of exec -it: {output:?}");

    let mut command = fixture.kubectl().command(&["--namespace", fixture.name(), "attach", "-i", "echo"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut attached = Ended(command.spawn().map_err(Failure::file("kubectl attach"))?);
    let output = talk(context, &mut attached.0)?;
    ensure_eq!(output, "heard through attach", "the answer to what was attached");
    drop(attached);
    let log = fixture.run(&["logs", "echo"])?;
    ensure!(log.contains("heard through attach"), "log: {log:?}");
    fixture.finish()
}

/// Writes a line to `kubectl attach` and reads the answer.
fn talk(context: &Context, attached: &mut Child) -> Result<String, Failure> {
    let missing = || Failure::Unexpected("kubectl attach has no streams".into());
    let mut input = attached.stdin.take().ok_or_else(missing)?;
    let output = attached.stdout.take().ok_or_else(missing)?;
    let lines = super::pty::lines(output);
    // What is written before the streams are joined is lost in no case: it waits in the pipe.
    input.write_all(b"through attach\n").map_err(Failure::file("kubectl attach"))?;
    lines
        .recv_timeout(context.patiently(20))
        .map_err(|_| Failure::Unexpected("kubectl attach gives no answer".into()))
}

/// A child that is killed when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Runs a command in a terminal of its own: waits for `first`, types `answer`, and waits for the end. Returns
/// the exit code and all that was shown.
fn in_terminal(
    context: &Context,
    mut command: Command,
    first: &str,
    answer: &str,
) -> Result<(Option<i32>, String), Failure> {
    let terminal = super::pty::Terminal::new(&mut command).map_err(Failure::file("a terminal"))?;
    let mut child = Ended(command.spawn().map_err(Failure::file("kubectl exec"))?);
    // The command has descriptors of the terminal, which would keep it open.
    drop(command);
    let (mut typed, mut shown) = (terminal.input, terminal.output);
    let (to, from) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 1024];
        // A terminal whose other side is closed ends with an error.
        while let Ok(count @ 1..) = shown.read(&mut bytes) {
            if to.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut output = String::new();
    let mut answered = false;
    let deadline = Instant::now() + context.patiently(30);
    loop {
        while let Ok(bytes) = from.recv_timeout(Duration::from_millis(50)) {
            output.push_str(&String::from_utf8_lossy(&bytes));
        }
        if !answered && output.contains(first) {
            typed.write_all(answer.as_bytes()).map_err(Failure::file("the terminal"))?;
            answered = true;
        }
        if let Some(status) = child.0.try_wait().map_err(Failure::file("kubectl exec"))? {
            return Ok((status.code(), output));
        }
        ensure!(Instant::now() < deadline, "kubectl exec -it does not end: {output:?}");
    }
}

/// `describe` of pod and node shows what they are and their events.
fn describe(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    fixture.apply(&pod("shown", fixture.name(), WAIT))?;
    fixture.wait_ready("shown")?;
    let mut text = String::new();
    let all =
        ["Scheduled", "Pulled", "Created", "Started", "Status:       Running", "QoS Class:       BestEffort"];
    let found = eventually(context.patiently(20), "", || {
        text = fixture.run(&["describe", "pod", "shown"])?;
        Ok(all.iter().all(|part| text.contains(part)).then_some(()))
    });
    found.map_err(|_| Failure::Unexpected(format!("describe pod lacks one of {all:?}: {text}")))?;
    let all = ["Starting", "NodeReady", "KubeletReady", "shown", "Allocated resources:"];
    let found = eventually(context.patiently(20), "", || {
        text = fixture.run(&["describe", "node", fixture.name()])?;
        Ok(all.iter().all(|part| text.contains(part)).then_some(()))
    });
    found.map_err(|_| Failure::Unexpected(format!("describe node lacks one of {all:?}: {text}")))?;
    let wide = fixture.run(&["get", "pods", "-o", "wide"])?;
    ensure!(wide.contains("1/1") && wide.contains(fixture.name()), "get pods: {wide}");
    fixture.finish()
}

/// A drained node's pod is evicted, its successor waits, and runs when the node is there again.
fn drain(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    fixture.apply(&deployment("web", fixture.name(), 1, WAIT))?;
    let only = |ready: bool| -> Result<Option<Value>, Failure> {
        let list = fixture.get(&["pods", "--selector", "app=web"])?;
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        let is_ready = |pod: &Value| super::fixture::condition(pod, "Ready") == Some("True");
        Ok(pods.first().filter(|pod| pods.len() == 1 && is_ready(pod) == ready).cloned())
    };
    let first = eventually(context.patiently(60), "the pod is not ready", || only(true))?;
    let begun = Instant::now();
    fixture.kubectl().run(&["drain", fixture.name(), "--timeout=60s"])?;
    println!("{REPORTED}drained after {:.1} s", begun.elapsed().as_secs_f64());
    ensure_eq!(fixture.node()?["spec"]["unschedulable"], true, "unschedulable");
    let waits = eventually(context.patiently(30), "there is no other pod", || only(false))?;
    ensure!(waits["metadata"]["uid"] != first["metadata"]["uid"], "the pod was not evicted");
    ensure!(waits["spec"]["nodeName"].is_null(), "a pod is placed on a node that is drained");
    fixture.kubectl().run(&["uncordon", fixture.name()])?;
    let begun = Instant::now();
    let runs = eventually(context.patiently(90), "the pod is not ready again", || only(true))?;
    println!("{REPORTED}uncordoned to pod ready: {:.1} s", begun.elapsed().as_secs_f64());
    ensure_eq!(runs["metadata"]["uid"], waits["metadata"]["uid"], "the pod that waited");
    fixture.finish()
}

/// An ephemeral container is added to a pod that runs, and sees what it is for.
fn debug(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    // A kubelet of 1.20 needs a feature gate for it, which later ones and nodewarden do not have.
    fixture.agent()?;
    fixture.apply(&pod("watched", fixture.name(), WAIT))?;
    let before = fixture.wait_ready("watched")?;
    let begun = Instant::now();
    let image = format!("--image={BUSYBOX_IMAGE}");
    let policy = "--image-pull-policy=Never";
    let script = "echo debugging; trap 'exit 0' TERM; while true; do sleep 1000 & wait $!; done";
    let words = ["debug", "watched", &image, policy, "--container=looks", "--", "/bin/sh", "-c", script];
    fixture.run(&words)?;
    let after = fixture.wait_pod("watched", "with a debugger", 60, |pod| {
        let status = &pod["status"]["ephemeralContainerStatuses"][0];
        status["name"] == "looks" && !status["state"]["running"].is_null()
    })?;
    println!("{REPORTED}kubectl debug to running: {:.1} s", begun.elapsed().as_secs_f64());
    super::fixture::ensure_no_restart(&after)?;
    ensure_eq!(
        super::fixture::container_id(&after),
        super::fixture::container_id(&before),
        "the container that was there before"
    );
    eventually(context.patiently(10), "the debugger's log is empty", || {
        Ok((fixture.run(&["logs", "watched", "-c", "looks"])? == "debugging\n").then_some(()))
    })?;
    let inside = ["exec", "watched", "-c", "looks", "--", "echo", "there"];
    ensure_eq!(fixture.run(&inside)?, "there\n", "output of exec in the debugger");
    fixture.finish()
}
