//! kubectl logs, exec, cp and port-forward, through the API server to the node's server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use super::NEEDS;
use super::fixture::ClusterFixture;
use super::manifest::{WAIT, pod};
use crate::e2e::support::eventually;
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

const WITH_NETWORK: &[Capability] = &[
    Capability::Root,
    Capability::PrivateCri,
    Capability::ControlPlane,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
    Capability::FullSpeed,
    Capability::PodNetwork,
];

pub const TESTS: &[Test] = &[
    Test::new("cluster_logs_exec_cp", logs_exec_cp).timeout(240).needs(NEEDS),
    Test::new("cluster_port_forward", port_forward).timeout(240).needs(WITH_NETWORK),
];

fn exec<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "talker", "--"], words].concat()
}

fn logs_exec_cp(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    // kubectl cp runs tar in the container.
    let script = format!(
        "for n in 1 2 3; do echo line $n; done; echo bad >&2; busybox ln -s busybox /bin/tar; {WAIT}"
    );
    fixture.apply(&pod("talker", fixture.name(), &script))?;
    fixture.wait_ready("talker")?;
    let log = eventually(context.patiently(20), "the log stays empty", || {
        let log = fixture.run(&["logs", "talker"])?;
        Ok((log.lines().count() == 4).then_some(log))
    })?;
    // The runtime writes both streams at once: only the order within each is certain.
    let (bad, lines): (Vec<_>, Vec<_>) = log.lines().partition(|line| *line == "bad");
    ensure!(bad.len() == 1 && lines == ["line 1", "line 2", "line 3"], "log: {log:?}");
    ensure_eq!(fixture.run(&["logs", "talker", "--tail=1"])?.lines().count(), 1, "lines with --tail=1");
    let stamped = fixture.run(&["logs", "talker", "--timestamps", "--limit-bytes=20"])?;
    ensure!(stamped.len() <= 20 && stamped.starts_with("20"), "with --timestamps --limit-bytes: {stamped:?}");

    ensure_eq!(fixture.run(&exec(&["echo", "hello"]))?, "hello\n", "output of exec");
    let namespaced =
        [&["--namespace", fixture.name()], &exec(&["sh", "-c", "echo oops >&2; exit 7"])[..]].concat();
    let failed = fixture.kubectl().output(&namespaced, b"")?;
    ensure_eq!(failed.status.code(), Some(7), "exit status of exec");
    ensure!(String::from_utf8_lossy(&failed.stderr).contains("oops"), "standard error of exec");
    let input = ["--namespace", fixture.name(), "exec", "-i", "talker", "--", "cat"];
    ensure_eq!(fixture.kubectl().run_with(&input, b"through and back")?, "through and back", "exec -i");
    copied(context, &fixture)?;
    fixture.finish()
}

/// A file of a megabyte into the container and back.
fn copied(context: &Context, fixture: &ClusterFixture<'_>) -> Result<(), Failure> {
    let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
    let (there, back) = (context.temp.join("there"), context.temp.join("back"));
    std::fs::write(&there, &bytes).map_err(Failure::file(&there))?;
    fixture.run(&["cp", &there.to_string_lossy(), "talker:/tmp/copied"])?;
    fixture.run(&["cp", "talker:/tmp/copied", &back.to_string_lossy()])?;
    let returned = std::fs::read(&back).map_err(Failure::file(&back))?;
    ensure!(returned == bytes, "{} bytes came back of {}, or others", returned.len(), bytes.len());
    Ok(())
}

fn port_forward(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let script = "busybox mkdir /www; echo served > /www/page; busybox httpd -f -p 8080 -h /www & wait $!";
    fixture.apply(&pod("server", fixture.name(), script))?;
    fixture.wait_ready("server")?;
    let mut command =
        fixture.kubectl().command(&["--namespace", fixture.name(), "port-forward", "server", ":8080"]);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(Failure::file("kubectl"))?;
    // Open until the end: kubectl prints a line for each connection.
    let mut output = child.stdout.take().map(BufReader::new);
    let asked = output.as_mut().map_or_else(
        || Err(Failure::Unexpected("kubectl has no output".into())),
        |output| ask(context, output),
    );
    let _gone = child.kill();
    let _gone = child.wait();
    asked?;
    fixture.finish()
}

/// Reads the local port that kubectl prints, and asks there twice.
fn ask(context: &Context, output: &mut impl BufRead) -> Result<(), Failure> {
    let mut first = String::new();
    output.read_line(&mut first).map_err(Failure::file("kubectl port-forward"))?;
    let port = first.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    let port: u16 = port.ok_or_else(|| Failure::Unexpected(format!("port-forward printed {first:?}")))?;
    for _ in 0..2 {
        let answer = eventually(context.patiently(10), "no answer through the port", || {
            // The server in the container may not listen yet.
            Ok(get(port).ok().filter(|answer| answer.contains("served")))
        })?;
        ensure!(answer.starts_with("HTTP/1."), "answer: {answer:?}");
    }
    Ok(())
}

fn get(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /page HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
