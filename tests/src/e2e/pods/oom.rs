//! OOM kills in a pod's container.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::fixture::PodFixture;
use super::manifest::one;
use crate::e2e::support::{eventually, known, oom_of};
use crate::harness::{Capability, Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_oom_kill_is_shown_at_once", oom).timeout(150).needs(&[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Btf,
    Capability::Loopback,
])];

/// Time from the kill in the kernel to the command's output, its start included. Much longer on an emulated
/// machine, for which there is no promise.
const BOUND: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
const KILLS: usize = 5;

/// An OOM kill of a child process is shown by `pods describe` within 100 ms, and does not end the container.
fn oom(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::with_config(context, "singleProcessOOMKill: true\n", "")?;
    if !fixture
        .agent()?
        .client()?
        .status()?
        .topics
        .iter()
        .any(|topic| topic.topic == "oom" && topic.state == "on")
    {
        return Err(Failure::Skip("this kernel does not report OOM kills".into()));
    }
    // Process 1 starts a child that uses up the memory for each file in /hungry.
    let pause = 0.05 * f64::from(context.patience);
    let script = format!(
        "trap 'exit 0' TERM; seen=0; while true; do \
        if [ \"`ls /hungry | wc -l`\" -gt $seen ]; then seen=$((seen + 1)); tail /dev/zero; echo ended=$?; fi; \
        sleep {pause:.2} & wait $!; done"
    );
    let hungry = context.temp.join("hungry");
    std::fs::create_dir(&hungry).map_err(Failure::file(&hungry))?;
    let mut pod = one(
        "hungry",
        &script,
        json!({
        "resources": { "limits": { "memory": "32Mi" } },
        "volumeMounts": [{ "name": "hungry", "mountPath": "/hungry" }] }),
    );
    pod["spec"]["volumes"] = json!([{ "name": "hungry", "hostPath": { "path": hungry } }]);
    fixture.put([pod])?;
    let before = fixture.wait_up("hungry")?;
    let cgroup = fixture.container_cgroup(&before, "c")?;
    let client = fixture.agent()?.client()?;
    let events = client.watch_types(&["oom"])?;
    let mut slowest = Duration::ZERO;
    for kill in 0..KILLS {
        std::fs::write(hungry.join(kill.to_string()), "").map_err(Failure::file(&hungry))?;
        let wanted = |event: &nodewarden_proto::nodewarden::v1::Event| event.cgroup == cgroup;
        let received = known(events.find(context.patiently(15), wanted)?, "an OOM kill")?;
        let victim = known(oom_of(&received.event), "the killed process")?;
        ensure_eq!(victim.command, "tail", "command of the killed process");
        let pid = victim.pid.to_string();
        let shown =
            eventually(context.patiently(5), &format!("`pods describe` does not show victim {pid}"), || {
                let output = fixture.command(&["pods", "describe", "hungry"])?;
                let at = SystemTime::now();
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                ensure!(
                    output.status.success(),
                    "pods describe: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                let line = text.lines().find(|line| line.contains(&pid) && line.contains("tail"));
                Ok(line.map(|_| at))
            })?;
        let took = shown.duration_since(received.time()?).unwrap_or_default();
        println!(
            "kill {kill}: {:.1} ms, event after {:.1} ms",
            took.as_secs_f64() * 1e3,
            received.at.duration_since(received.time()?).unwrap_or_default().as_secs_f64() * 1e3
        );
        slowest = slowest.max(took);
    }
    println!(
        "{REPORTED}slowest of {KILLS} kills from the kernel to `pods describe`: {:.1} ms",
        slowest.as_secs_f64() * 1e3
    );
    let bound = context.scaled(BOUND);
    ensure!(slowest < bound, "a kill was shown after {slowest:?}, not within {bound:?}");
    let after = fixture.wait_up("hungry")?;
    let (before, after) = (before.container("c")?, after.container("c")?);
    ensure_eq!(
        (after.id(), after.restarts()),
        (before.id(), 0),
        "the container, whose process 1 was not killed"
    );
    main_process(&mut fixture)?;
    fixture.finish()
}

/// Checks that a container whose process 1 is killed ends with the reason OOMKilled.
fn main_process(fixture: &mut PodFixture<'_>) -> Result<(), Failure> {
    let mut main =
        one("main", "exec tail /dev/zero", json!({ "resources": { "limits": { "memory": "32Mi" } } }));
    main["spec"]["restartPolicy"] = json!("Never");
    fixture.put([main])?;
    let seen = fixture.wait_phase("main", "Failed")?;
    let ended = seen.container("c")?.terminated().cloned().unwrap_or_default();
    ensure_eq!(
        (ended["reason"].as_str(), ended["exitCode"].as_i64()),
        (Some("OOMKilled"), Some(137)),
        "reason and exit code"
    );
    Ok(())
}
