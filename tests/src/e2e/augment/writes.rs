//! What is written in Audit and in Enforce, and what is put back.

use nix::sys::signal::Signal;

use super::fixture::{Augmented, NEEDS, burst_file, features, is_possible, read, read_memory, write};
use crate::e2e::pressure::fixture::metric;
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{Group, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("augment_audit", audit).timeout(90).needs(NEEDS),
    Test::new("augment_enforce", enforce).timeout(90).needs(NEEDS),
    Test::new("augment_memory_high", memory_high).timeout(120).needs(&[
        Capability::Root,
        Capability::MemoryV2,
        Capability::CpuQuota,
        Capability::Loopback,
    ]),
    Test::new("augment_left_alone", left_alone).timeout(90).needs(NEEDS),
];

/// In Audit, which is the default, nothing is written and everything is said.
fn audit(context: &Context) -> Result<(), Failure> {
    is_possible(context)?;
    let node = Augmented::new(context)?;
    let before = node.settings()?;
    let state = context.temp.join("state");
    let agent = node.start("cpuBurstPercent: 50", &state)?;
    let would = |feature| metric_of(&agent, feature, "would_set");
    eventually(node.wait(20), "not every value that would be set is said", || {
        let all = would("cpuIdle")? == 1.0 && would("cpuBurst")? == 2.0 && would("protection")? >= 1.0;
        Ok(all.then_some(()))
    })?;
    std::thread::sleep(node.wait(1));
    ensure_eq!(would("cpuIdle")?, 1.0, "said once");
    ensure_eq!(Augmented::differences(&before, &node.settings()?), [""; 0], "changed files");
    ensure!(agent.log().contains("cpu.idle would be set to 1, for cpuIdle; it is 0"), "{}", agent.log());
    Ok(())
}

/// In Enforce the values are written, of no other pod or level, and are put back when the agent ends.
fn enforce(context: &Context) -> Result<(), Failure> {
    is_possible(context)?;
    let node = Augmented::new(context)?;
    let before = node.settings()?;
    let state = context.temp.join("state");
    let mut agent = node.start(&features("Enforce"), &state)?;
    node.wait_written()?;
    for (group, what) in [
        (&node.opted_out, "a pod that has opted out"),
        (&node.of_manifest, "a static pod"),
        (&node.besteffort, "a level"),
    ] {
        ensure_eq!(read(group, "cpu.idle")?, "0", "cpu.idle of {what}");
    }
    ensure_eq!(metric(&agent, "nodewarden_augment_values", ("feature", "cpuBurst"))?, 2.0, "bursts");
    let refused = node.undo(&state)?;
    ensure!(!refused.status.success(), "undo while the agent runs");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(text.contains("an agent in mode augment runs"), "{text}");
    node.wait_written()?;

    // A limit that the spec lowers: the kernel would refuse the kubelet's new quota below the burst.
    node.api.change_spec("limited", |spec| {
        spec["containers"][0]["resources"]["limits"]["cpu"] = "200m".into();
    });
    eventually(node.wait(10), "the burst is in the kubelet's way", || {
        Ok((read(&node.limited, burst_file(&node.limited)?)? == "0").then_some(()))
    })?;
    let status = agent.end(Signal::SIGTERM, node.wait(10))?;
    ensure!(status.success(), "the agent ended with {status}");
    ensure_eq!(Augmented::differences(&before, &node.settings()?), [""; 0], "files that were not put back");
    Ok(())
}

/// While memory is short, a pod above its requests gets `memory.high`, and one that has opted out does not;
/// it is taken back at the end.
fn memory_high(context: &Context) -> Result<(), Failure> {
    let node = Augmented::new(context)?;
    let eat = |group: &Group| Worker::start(context, Some(group), &["eat-memory", &(64 * MIB).to_string()]);
    let (asked, opted_out) = (node.idle.child("c")?, node.opted_out.child("c")?);
    let mut workers = [eat(&asked)?, eat(&opted_out)?];
    for worker in &mut workers {
        worker.go()?;
    }
    let before = node.settings()?;
    // There is never so much memory.
    let settings = "events: Off, protection: Off, cpuIdle: Off, cpuBurst: Off, memoryHigh: Enforce, memoryDistance: 1024Gi";
    let mut agent = node.start(settings, &context.temp.join("state"))?;
    let high = |group: &Group| read_memory(group, "memory.high");
    eventually(node.wait(20), "memory.high is not set", || {
        Ok((high(&node.idle)? == (32 * MIB).to_string()).then_some(()))
    })?;
    ensure_eq!(high(&node.opted_out)?, "max", "memory.high of a pod that has opted out");
    ensure_eq!(high(&node.of_manifest)?, "max", "memory.high of a static pod");
    ensure_eq!(high(&node.besteffort)?, "max", "memory.high of the level");
    let status = agent.end(Signal::SIGTERM, node.wait(10))?;
    ensure!(status.success(), "the agent ended with {status}");
    ensure_eq!(Augmented::differences(&before, &node.settings()?), [""; 0], "files that were not put back");
    Ok(())
}

/// What another program has written is neither written again nor put back.
fn left_alone(context: &Context) -> Result<(), Failure> {
    is_possible(context)?;
    let node = Augmented::new(context)?;
    let (mut expected, state) = (node.settings()?, context.temp.join("state"));
    let burst = burst_file(&node.limited)?;
    // One that is there before the agent.
    write(&node.container, burst, "1000")?;
    let mut agent = node.start(&features("Enforce"), &state)?;
    eventually(node.wait(20), "the pod's burst is not set", || {
        Ok((read(&node.limited, burst)? == "25000").then_some(()))
    })?;
    write(&node.limited, burst, "2000")?;
    eventually(node.wait(20), "it is not said that another program writes", || {
        Ok((metric_of(&agent, "cpuBurst", "left_alone")? >= 2.0).then_some(()))
    })?;
    std::thread::sleep(node.wait(6));
    let both = (read(&node.container, burst)?, read(&node.limited, burst)?);
    ensure_eq!(both, ("1000".to_owned(), "2000".to_owned()), "the values of another program");
    agent.end(Signal::SIGTERM, node.wait(10))?;
    for (path, text) in &mut expected {
        if path.ends_with(burst) {
            let is_container = path.ends_with(format!("{}/{burst}", "a".repeat(64)));
            let is_pod = path.ends_with(format!("pod{}/{burst}", super::fixture::limited_uid()));
            *text = if is_container {
                "1000"
            } else if is_pod {
                "2000"
            } else {
                text.as_str()
            }
            .to_owned();
        }
    }
    ensure_eq!(
        Augmented::differences(&expected, &node.settings()?),
        [""; 0],
        "files that are not as expected"
    );
    Ok(())
}

fn metric_of(agent: &crate::fixture::Agent, feature: &str, result: &str) -> Result<f64, Failure> {
    let text = agent.get("/metrics")?.text();
    let samples = crate::fixture::parse_samples(&text);
    let mine = samples.iter().filter(|sample| {
        sample.name == "nodewarden_augment_writes_total"
            && sample.labels.get("feature").is_some_and(|own| own == feature)
            && sample.labels.get("result").is_some_and(|own| own == result)
    });
    Ok(mine.map(|sample| sample.value).sum())
}
