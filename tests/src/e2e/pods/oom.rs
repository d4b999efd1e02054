//! A process killed for memory below process 1 of a container: shown at once, by its name.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::manifest::one;
use super::stage::Stage;
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

/// From the kill in the kernel to the line on the screen, the command's own start included. Emulated machines are not
/// promised anything.
const BOUND: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(1500)];
const KILLS: usize = 5;

fn oom(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::with(context, "singleProcessOOMKill: true\n", "")?;
    if !stage
        .agent()?
        .client()?
        .status()?
        .topics
        .iter()
        .any(|topic| topic.topic == "oom" && topic.state == "on")
    {
        return Err(Failure::Skip("this kernel does not say who was killed".into()));
    }
    // A child of process 1 for each line of its input.
    let script = "trap 'exit 0' TERM; seen=0; while true; do \
        if [ \"`ls /hungry | wc -l`\" -gt $seen ]; then seen=$((seen + 1)); tail /dev/zero; echo ended=$?; fi; \
        sleep 0.05 & wait $!; done";
    let hungry = context.temp.join("hungry");
    std::fs::create_dir(&hungry).map_err(Failure::file(&hungry))?;
    let mut pod = one(
        "hungry",
        script,
        json!({
        "resources": { "limits": { "memory": "32Mi" } },
        "volumeMounts": [{ "name": "hungry", "mountPath": "/hungry" }] }),
    );
    pod["spec"]["volumes"] = json!([{ "name": "hungry", "hostPath": { "path": hungry } }]);
    stage.put([pod])?;
    let before = stage.up("hungry")?;
    let cgroup = stage.container_cgroup(&before, "c")?;
    let client = stage.agent()?.client()?;
    let events = client.watch_types(&["oom"])?;
    let mut slowest = Duration::ZERO;
    for kill in 0..KILLS {
        std::fs::write(hungry.join(kill.to_string()), "").map_err(Failure::file(&hungry))?;
        let wanted = |event: &nodewarden_proto::nodewarden::v1::Event| event.cgroup == cgroup;
        let received = known(events.find(context.patiently(15), wanted)?, "that a process was killed")?;
        let victim = known(oom_of(&received.event), "who was killed")?;
        ensure_eq!(victim.command, "tail", "who was killed");
        let pid = victim.pid.to_string();
        let shown =
            eventually(context.patiently(5), &format!("`pods describe` does not show victim {pid}"), || {
                let output = stage.command(&["pods", "describe", "hungry"])?;
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
    let after = stage.up("hungry")?;
    let (before, after) = (before.container("c")?, after.container("c")?);
    ensure_eq!(
        (after.id(), after.restarts()),
        (before.id(), 0),
        "the container, whose process 1 was not killed"
    );
    main_process(&mut stage)?;
    stage.finish()
}

/// Process 1 itself: the container ends as OOMKilled.
fn main_process(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let mut main =
        one("main", "exec tail /dev/zero", json!({ "resources": { "limits": { "memory": "32Mi" } } }));
    main["spec"]["restartPolicy"] = json!("Never");
    stage.put([main])?;
    let seen = stage.phase("main", "Failed")?;
    let ended = seen.container("c")?.ended().cloned().unwrap_or_default();
    ensure_eq!(
        (ended["reason"].as_str(), ended["exitCode"].as_i64()),
        (Some("OOMKilled"), Some(137)),
        "how it ended"
    );
    Ok(())
}
