//! Drift: another process changes limits of the hierarchy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use nodewarden_proto::nodewarden::v1::event::Detail;

use super::compare::{limits_now, place, plain};
use super::fixture::{Driver, HierarchyFixture, just_before_now};
use super::pods::{Dice, pod};
use crate::e2e::support::since;
use crate::fixture::Agent;
use crate::harness::{Capability, Context, Failure, Test};
use crate::page::whole_pages;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("drift_is_corrected", cgroupfs)
        .needs(&[Capability::Root, Capability::MemoryCgroup, Capability::CpuCgroup, Capability::Loopback])
        .timeout(180),
    Test::new("drift_is_corrected_by_systemd", systemd)
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
/// Number of changes on an ordinary and on an emulated machine.
const CHANGES: [usize; 2] = [1000, 100];
/// Number of changes between two reconciles.
const ROUND: usize = 50;

/// With the cgroupfs driver a reconcile corrects every changed limit, and reports exactly these corrections.
fn cgroupfs(context: &Context) -> Result<(), Failure> {
    drift(context, Driver::Cgroupfs)
}

/// The same with the systemd driver.
fn systemd(context: &Context) -> Result<(), Failure> {
    drift(context, Driver::Systemd)
}

/// Time without an event after which the journal's past events are complete.
const QUIET: Duration = Duration::from_secs(2);
/// Time after which reading the journal ends in any case.
const LIMIT: Duration = Duration::from_secs(20);

/// Values by (path, file).
type Limits = BTreeMap<(String, String), String>;

/// Makes the changes in rounds, on the cgroups of [`PODS`] pods.
fn drift(context: &Context, driver: Driver) -> Result<(), Failure> {
    let managed = HierarchyFixture::new(context, driver, u64::from(context.patience).min(3), "")?;
    for i in 0..PODS {
        managed.write(&format!("p{i}"), &pod(i))?;
    }
    let agent = managed.start()?;
    managed.wait_settled(&agent, PODS as usize)?;
    let top = managed.level("kubepods");
    let expected = limits_now(&context.layout, &top);
    ensure!(expected.len() > 50, "only {} limits below {top}", expected.len());
    let mut dice = Dice::new(7);
    for _ in 0..context.scaled(CHANGES) / ROUND {
        round(context, &managed, &agent, &expected, &mut dice)?;
    }
    Ok(())
}

/// Makes some changes, and checks values and reports after the next reconcile.
fn round(
    context: &Context,
    managed: &HierarchyFixture<'_>,
    agent: &Agent,
    expected: &Limits,
    dice: &mut Dice,
) -> Result<(), Failure> {
    let begin = just_before_now();
    let files: Vec<_> = expected.keys().collect();
    let mut changed = BTreeSet::new();
    let mut written = 0;
    while written < ROUND {
        let (path, file) = files[dice.roll(files.len() as u64) as usize];
        let Some(place) = place(&context.layout, path, file) else { continue };
        // If the kernel refuses (a quota above the parent's on v1), try another change.
        if std::fs::write(&place, value(file, dice)).is_ok() {
            written += 1;
            changed.insert((path.clone(), file.clone()));
        }
    }
    managed.wait_reconciled(agent)?;
    let now = limits_now(&context.layout, &managed.level("kubepods"));
    let wrong: Vec<_> = expected.iter().filter(|(key, value)| now.get(key) != Some(value)).take(5).collect();
    ensure!(
        wrong.is_empty(),
        "not corrected: {wrong:?}; they are {:?}",
        wrong.iter().map(|(k, _)| now.get(k)).collect::<Vec<_>>()
    );
    check_reports(agent, expected, &changed, begin)
}

/// Checks that every reported correction is of a changed limit and has its right value. (A random change may
/// leave the old value, so which changes need a correction is not known here. None that does is missing: the
/// values are right again, and only the agent corrects them.)
fn check_reports(
    agent: &Agent,
    expected: &Limits,
    changed: &BTreeSet<(String, String)>,
    begin: SystemTime,
) -> Result<(), Failure> {
    let events = agent.client()?.watch(since(begin, &["limitCorrected"]))?.collect(QUIET, LIMIT, |_| true)?;
    ensure!(!events.is_empty(), "no correction in the journal after {} changes", changed.len());
    for received in events {
        let event = received.event;
        let Some(Detail::LimitCorrected(c)) = &event.detail else { continue };
        let same = |file: &String| {
            *file == c.limit || (c.limit == "cpu.cfs_quota_us" && file == "cpu.cfs_period_us")
        };
        ensure!(
            changed.iter().any(|(path, file)| *path == event.cgroup && same(file)),
            "{} of {} was corrected though it was not changed",
            c.limit,
            event.cgroup
        );
        ensure!(
            c.found != c.written,
            "{} of {} was {} and was written again",
            c.limit,
            event.cgroup,
            c.found
        );
        let right_value = expected.get(&(event.cgroup.clone(), c.limit.clone())).map(|v| plain(v));
        if !c.limit.contains("cfs")
            && !c.written.contains("max")
            && right_value != Some(whole_pages(i64::MAX as u64).to_string())
        {
            ensure_eq!(
                Some(c.written.clone()),
                right_value,
                "what was written to {} of {}",
                c.limit,
                event.cgroup
            );
        }
    }
    Ok(())
}

/// A random value for a file.
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
