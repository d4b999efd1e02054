//! Another process rewrites limits; a reconcile puts them back and tells of each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use nodewarden_proto::nodewarden::v1::event::Detail;

use super::compare::{limits_now, place, plain};
use super::managed::{Driver, Managed, a_moment_ago};
use super::pods::{Dice, pod};
use crate::e2e::support::since;
use crate::fixture::Agent;
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("drift_is_put_right", cgroupfs)
        .needs(&[Capability::Root, Capability::MemoryCgroup, Capability::CpuCgroup, Capability::Loopback])
        .timeout(180),
    Test::new("drift_is_put_right_by_systemd", systemd)
        .needs(&[
            Capability::Root,
            Capability::MemoryV2,
            Capability::Systemd,
            Capability::OwnMachine,
            Capability::Loopback,
        ])
        .timeout(240),
];

const PODS: u64 = 8;
/// Rewrites on an ordinary and on an emulated machine, and how many between two reconciles.
const REWRITES: [usize; 2] = [1000, 200];
const ROUND: usize = 50;

fn cgroupfs(context: &Context) -> Result<(), Failure> {
    drift(context, Driver::Cgroupfs)
}

fn systemd(context: &Context) -> Result<(), Failure> {
    drift(context, Driver::Systemd)
}

/// The journal's events of the past come at once.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(20);

type Limits = BTreeMap<(String, String), String>;

fn drift(context: &Context, driver: Driver) -> Result<(), Failure> {
    let managed = Managed::new(context, driver, u64::from(context.patience).min(3), "")?;
    for i in 0..PODS {
        managed.write(&format!("p{i}"), &pod(i))?;
    }
    let agent = managed.start()?;
    managed.settled(&agent, PODS as usize)?;
    let top = managed.level("kubepods");
    let right = limits_now(&context.layout, &top);
    ensure!(right.len() > 50, "only {} limits below {top}", right.len());
    let mut dice = Dice::new(7);
    for _ in 0..context.scaled(REWRITES) / ROUND {
        round(context, &managed, &agent, &right, &mut dice)?;
    }
    Ok(())
}

/// Some rewrites, and what the next reconcile made of them.
fn round(
    context: &Context,
    managed: &Managed<'_>,
    agent: &Agent,
    right: &Limits,
    dice: &mut Dice,
) -> Result<(), Failure> {
    let begin = a_moment_ago();
    let files: Vec<_> = right.keys().collect();
    let mut touched = BTreeSet::new();
    let mut written = 0;
    while written < ROUND {
        let (path, file) = files[dice.roll(files.len() as u64) as usize];
        let Some(place) = place(&context.layout, path, file) else { continue };
        // Refused by the kernel (a quota above the parent's on v1): another try.
        if std::fs::write(&place, value(file, dice)).is_ok() {
            written += 1;
            touched.insert((path.clone(), file.clone()));
        }
    }
    managed.reconciled(agent)?;
    let now = limits_now(&context.layout, &managed.level("kubepods"));
    let wrong: Vec<_> = right.iter().filter(|(key, value)| now.get(key) != Some(value)).take(5).collect();
    ensure!(
        wrong.is_empty(),
        "not put right: {wrong:?}; they are {:?}",
        wrong.iter().map(|(k, _)| now.get(k)).collect::<Vec<_>>()
    );
    told(agent, right, &touched, begin)
}

/// Every correction names a limit that was touched, with the right value; nothing else was corrected. (Which of the
/// touched ones ended with another value than before is for dice and the kernel to say: those are all told, since the
/// values are right again and only the agent writes them back.)
fn told(
    agent: &Agent,
    right: &Limits,
    touched: &BTreeSet<(String, String)>,
    begin: SystemTime,
) -> Result<(), Failure> {
    let events = agent.client()?.watch(since(begin, &["limitCorrected"]))?.collect(SHORT, LONG, |_| true)?;
    ensure!(!events.is_empty(), "no correction in the journal after {} rewrites", touched.len());
    for received in events {
        let event = received.event;
        let Some(Detail::LimitCorrected(c)) = &event.detail else { continue };
        let same = |file: &String| {
            *file == c.limit || (c.limit == "cpu.cfs_quota_us" && file == "cpu.cfs_period_us")
        };
        ensure!(
            touched.iter().any(|(path, file)| *path == event.cgroup && same(file)),
            "{} of {} was corrected and nobody had touched it",
            c.limit,
            event.cgroup
        );
        ensure!(c.found != c.written, "{} of {} was {} and became the same", c.limit, event.cgroup, c.found);
        let truth = right.get(&(event.cgroup.clone(), c.limit.clone())).map(|v| plain(v));
        if !c.limit.contains("cfs")
            && !c.written.contains("max")
            && truth.as_deref() != Some("9223372036854771712")
        {
            ensure_eq!(Some(c.written.clone()), truth, "what was written to {} of {}", c.limit, event.cgroup);
        }
    }
    Ok(())
}

fn value(file: &str, dice: &mut Dice) -> String {
    let mib = |n: u64| (n << 20).to_string();
    match file {
        "cpu.shares" => (2 + dice.roll(4000)).to_string(),
        "cpu.weight" => (1 + dice.roll(9999)).to_string(),
        "cpu.cfs_quota_us" => (1000 + dice.roll(50_000)).to_string(),
        "cpu.cfs_period_us" => (50_000 + 1000 * dice.roll(100)).to_string(),
        "cpu.max" => format!("{} {}", 1000 + dice.roll(90_000), 50_000 + 1000 * dice.roll(100)),
        "memory.limit_in_bytes" | "memory.max" | "memory.high" => mib(8 + dice.roll(500)),
        "memory.min" | "memory.low" => mib(dice.roll(64)),
        "memory.swap.max" => mib(dice.roll(64)),
        "memory.oom.group" => dice.roll(2).to_string(),
        "cpu.idle" => "0".into(),
        "pids.max" => (10 + dice.roll(1000)).to_string(),
        _ => (dice.roll(16) * (2 << 20)).to_string(),
    }
}
