//! 1,000 OOM kills in 100 cgroups that are removed as soon as their processes are dead. On an emulated
//! machine, where each kill takes as long as ten, 50 kills in 10 cgroups.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::support::{MIB, kill_victims, oom_of};
use crate::fixture::{Agent, AgentOptions, Client, Group, Received, TestRoot, parse_samples};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("workload_oom_storm", kernel_alone)
        .needs(&[Capability::Root, Capability::MemoryCgroup])
        .timeout(120)
        .without_agent(),
    Test::new("oom_storm", storm)
        .needs(&[
            Capability::Root,
            Capability::MemoryCgroup,
            Capability::Btf,
            Capability::OomVictims,
            Capability::Loopback,
        ])
        .timeout(180),
];

const CGROUPS: [usize; 2] = [100, 10];
const KILLS_EACH: [u32; 2] = [10, 5];
/// Cgroups with kills at the same time.
const AT_ONCE: usize = 4;
const LIMIT: u64 = 16 * MIB;

/// The kills in one cgroup: as the victims' parents saw them, and as the kernel counts them.
#[derive(Debug, Clone)]
struct Killed {
    path: String,
    pids: Vec<u32>,
    kernel_oom_kills: u64,
}

/// Without an agent, the kernel's counters agree with what the victims' parents saw.
fn kernel_alone(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let killed = kill_all(context, &root)?;
    ensure_eq!(killed.len(), context.scaled(CGROUPS), "cgroups");
    let each = context.scaled(KILLS_EACH);
    for one in &killed {
        ensure_eq!(one.pids.len(), each as usize, "victims seen by their parents in {}", one.path);
        ensure_eq!(one.kernel_oom_kills, u64::from(each), "the kernel's oom_kill of {}", one.path);
    }
    Ok(())
}

/// Every kill is reported exactly once, with the right cgroup and limit, and counted as the kernel counts it.
fn storm(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;

    let killed = kill_all(context, &root)?;
    let prefix = format!("{}/", root.group().path());
    let kills = killed.iter().map(|one| one.pids.len()).sum();
    let seen = events.expect(kills, context.patiently(5), |event| {
        oom_of(event).is_some_and(|oom| oom.limit_cgroup.starts_with(&prefix))
            || event.cgroup.starts_with(&prefix)
    })?;

    same_victims(&killed, &seen)?;
    same_counts(&killed, &client, &prefix)?;
    same_metrics(&killed, &agent)?;
    let status = client.status()?;
    if let Some(counts) = status.events.iter().find(|counts| counts.r#type == "oom") {
        ensure_eq!(counts.lost, 0, "OOM events the agent says it lost");
    }
    Ok(())
}

/// Makes all the kills, in several cgroups at a time.
fn kill_all(context: &Context, root: &TestRoot) -> Result<Vec<Killed>, Failure> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<Killed>, Failure> {
        let mut killed = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= context.scaled(CGROUPS) {
                return Ok(killed);
            }
            let group = root.child(&format!("c{i}"))?;
            killed.push(kill_in(context, &group)?);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let mut killed = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok(part) => killed.extend(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(killed)
    })
}

/// Makes the kills of one cgroup, then removes it at once.
fn kill_in(context: &Context, group: &Group) -> Result<Killed, Failure> {
    group.limit_memory(LIMIT)?;
    let victims = kill_victims(context, group, context.scaled(KILLS_EACH), 4 * LIMIT)?;
    let kernel_oom_kills = group.kernel_oom_kills()?;
    group.remove_when_empty(context.patiently(5))?;
    Ok(Killed {
        path: group.path().to_owned(),
        pids: victims.iter().map(|victim| victim.pid).collect(),
        kernel_oom_kills,
    })
}

/// Checks that every victim is reported once, in its cgroup, with that cgroup's limit.
fn same_victims(killed: &[Killed], seen: &[Received]) -> Result<(), Failure> {
    let mut expected: BTreeMap<(&str, u32), i64> = BTreeMap::new();
    for one in killed {
        for pid in &one.pids {
            *expected.entry((&one.path, *pid)).or_default() += 1;
        }
    }
    let mut unmatched = expected.clone();
    let mut wrong_limits = 0;
    for received in seen {
        let Some(oom) = oom_of(&received.event) else { continue };
        *unmatched.entry((&received.event.cgroup, oom.pid)).or_default() -= 1;
        if oom.limit_cgroup != received.event.cgroup || oom.limit_bytes != Some(LIMIT) {
            wrong_limits += 1;
        }
    }
    let missing: Vec<_> = unmatched.iter().filter(|(_, n)| **n > 0).map(|(key, _)| key).collect();
    let extra: Vec<_> = unmatched.iter().filter(|(_, n)| **n < 0).map(|(key, _)| key).collect();
    ensure!(
        missing.is_empty() && extra.is_empty(),
        "{} events for {} kills; {} missing, the first {:?}; {} too many or in the wrong cgroup, the first {:?}",
        seen.len(),
        expected.values().sum::<i64>(),
        missing.len(),
        missing.first(),
        extra.len(),
        extra.first()
    );
    ensure_eq!(wrong_limits, 0, "events that name the wrong limit");
    Ok(())
}

/// Checks that the counters of the removed cgroups, which the agent retains for a while, equal the kernel's.
fn same_counts(killed: &[Killed], client: &Client, prefix: &str) -> Result<(), Failure> {
    let listed = client.cgroups(prefix.trim_end_matches('/'))?;
    let counted: BTreeMap<&str, u64> =
        listed.iter().map(|group| (group.path.as_str(), group.oom_kills.unwrap_or(0))).collect();
    for one in killed {
        ensure_eq!(
            counted.get(one.path.as_str()),
            Some(&one.kernel_oom_kills),
            "counted kills of {}",
            one.path
        );
    }
    Ok(())
}

/// Checks that the metric of OOM kills equals the kernel's count for each cgroup.
fn same_metrics(killed: &[Killed], agent: &Agent) -> Result<(), Failure> {
    let samples = parse_samples(&agent.get("/metrics")?.text());
    let counted: BTreeMap<&str, f64> = samples
        .iter()
        .filter(|sample| sample.name == "nodewarden_cgroup_oom_kills_total")
        .filter_map(|sample| Some((sample.labels.get("id")?.as_str(), sample.value)))
        .collect();
    for one in killed {
        let expected = one.kernel_oom_kills as f64;
        ensure_eq!(counted.get(one.path.as_str()), Some(&expected), "metric of kills of {}", one.path);
    }
    Ok(())
}
