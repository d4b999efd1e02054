//! One round: pods take their share, one of them causes the pressure while something is disturbed, a pod is
//! evicted, and everything is as it has to be.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};

use super::meter::{HUNG, Meter, Sample, judge};
use super::node::{Node, TRANSITION_S, request};
use super::plan::{Disturbance, Place, PodPlan, Pressure, RoundPlan};
use super::victim::{Growth, Subject, certain};
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pressure::fixture::{RunningPod, chosen, decisions, is_evicted, metric};
use crate::e2e::support::{MIB, eventually};
use crate::ensure;
use crate::fixture::{Conduct, HungFuse};
use crate::harness::{Context, Failure};

/// By how many percent of the room the threshold is passed, and figures may be wrong.
const BEYOND: u64 = 10;
const MARGIN: u64 = 3;
/// How long a disturbance lasts if no pod is evicted.
const DISTURBED_S: u64 = 12;
/// The longest time until the eviction.
const EVICTED_S: u64 = 90;
/// How long containerd is stopped.
const STOPPED_S: u64 = 2;
/// The runtime has removed everything when a disk has gained no space for so many seconds.
const QUIET_S: u32 = 3;
/// Seconds of a day.
const DAY_S: i64 = 86_400;

/// How a round ended well.
#[derive(Debug)]
pub struct Done {
    pub victim: String,
    pub expected: BTreeSet<String>,
    /// What each pod used before the growth.
    used: Vec<Subject>,
    pressure: Pressure,
    grew: String,
    /// From the growth's beginning to the eviction; `None` without one.
    pub took: Option<Duration>,
    /// Why there is none.
    skipped: &'static str,
    note: String,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.pressure {
            Pressure::Memory | Pressure::Bytes(_) => MIB,
            Pressure::Processes | Pressure::Inodes(_) => 1,
        };
        let of = |one: &Subject| {
            let above = if one.request > 0 { format!("-{}", one.request / unit) } else { String::new() };
            let priority = if one.priority == 0 { String::new() } else { format!("@{}", one.priority) };
            format!("{} {}{above}{priority}", one.name, one.used / unit)
        };
        let used: Vec<_> = self.used.iter().map(of).collect();
        let Some(took) = self.took else {
            return write!(f, "skipped, {}: {}{}", self.skipped, used.join(", "), self.note);
        };
        let expected: Vec<_> = self.expected.iter().map(String::as_str).collect();
        write!(
            f,
            "{} evicted, expected {}, {:5.1} s; {} grew; {}{}",
            self.victim,
            expected.join(" or "),
            took.as_secs_f64(),
            self.grew,
            used.join(", "),
            self.note
        )
    }
}

/// Runs one round.
///
/// # Errors
/// A requirement is violated, or a step fails.
pub fn run(context: &Context, node: &mut Node<'_>, round: &RoundPlan) -> Result<Done, Failure> {
    let threshold = node.configure(round)?;
    // What pods request is a part of what is there before them.
    let empty = u64::try_from(freed(context, &node.meter(round, &[], threshold)?)?).unwrap_or(0);
    let pods = node.start_pods(round, empty)?;
    let meter = node.meter(round, &pods, threshold)?;
    let room = u64::try_from(meter.above()?).unwrap_or(0);
    ensure!(room > 0, "the threshold is passed before any pod takes anything");
    let last = node.last_decision()?;
    let share = |plan: &PodPlan| plan.first * room / 100;
    for plan in &round.pods {
        node.grow(round.pressure, plan, 1, 0, share(plan))?;
    }
    for plan in &round.pods {
        eventually(context.patiently(60), &format!("{} does not take its share", plan.name), || {
            Ok(node.has_grown(&plan.name, 1)?.then_some(()))
        })?;
    }
    let before: Vec<_> = pods.iter().map(RunningPod::of).collect::<Result<_, _>>()?;
    let subjects: Vec<_> = round
        .pods
        .iter()
        .zip(meter.used()?)
        .map(|(plan, used)| Subject {
            name: plan.name.clone(),
            priority: plan.priority,
            request: if round.pressure.requested().is_some() { request(plan, empty) } else { 0 },
            used,
        })
        .collect();
    let first = meter.above()?;
    let at_threshold = u64::try_from(first).unwrap_or(0);
    ensure!(at_threshold > room / 50, "only {first} of {room} are left above the threshold");
    let in_the_end = at_threshold + room * BEYOND / 100;
    let growth = |of| Growth { of, at_threshold, in_the_end, margin: room * MARGIN / 100 };
    let certain = round.triggers.iter().find_map(|&of| {
        certain(&subjects, round.pressure.ranks_requests(), growth(of)).map(|victim| (of, victim))
    });
    let mut done = Done {
        victim: String::new(),
        expected: BTreeSet::new(),
        used: subjects.clone(),
        pressure: round.pressure,
        grew: String::new(),
        took: None,
        skipped: "no victim is certain",
        note: String::new(),
    };
    // After a restart on an emulated machine containerd may take sandboxes for dead whose shims do not answer
    // in time; as by a kubelet, their containers are started again then.
    let may_restart = context.patience > 1 && round.disturbance == Disturbance::RuntimeRestarts;
    let mut days = 0;
    let fuse = if round.disturbance == Disturbance::FileSystemHangs {
        let mut hung = round.hung_pod;
        // The files of a volume that hangs cannot be removed, so that the end of its pod would free nothing.
        let in_volume =
            matches!(round.pressure, Pressure::Bytes(Place::Volume) | Pressure::Inodes(Place::Volume));
        if in_volume && certain.as_ref().is_some_and(|(_, victim)| *victim == round.pods[hung].name) {
            hung = (hung + 1) % round.pods.len();
        }
        match HungFuse::mount(&node.volume(&pods[hung])?.join(HUNG)) {
            Ok(fuse) => Some(fuse),
            Err(error) => {
                done.note = format!("; no FUSE here, so nothing hangs: {error}");
                None
            }
        }
    } else {
        None
    };
    if let Some((of, _)) = certain {
        done.grew = round.pods[of].name.clone();
        let growth = growth(of);
        let mut disturbed = Disturbed { round, fuse: fuse.as_ref(), days: &mut days };
        let ordered = share(&round.pods[of]);
        let growing = may_restart.then(|| &before[of]);
        let grown = grow(context, node, &meter, &mut disturbed, growth, ordered, growing);
        node.proxy.set_conduct(Conduct::Usual);
        let (victims, took, samples) = grown?;
        done.took = (!victims.is_empty()).then_some(took);
        done.skipped = "the runtime started the pod that grew again, without what it had taken";
        if done.took.is_some() {
            done.expected = judge(&samples, &subjects, of, first, round.pressure.ranks_requests());
            done.victim = victims.join(" and ");
            ensure!(
                victims.len() == 1 && done.expected.contains(&victims[0]),
                "evicted: {}; expected: {:?}; {} of {room} were above the threshold; {done}; the last readings: {:?}; {}",
                done.victim,
                done.expected,
                first,
                &samples[samples.len().saturating_sub(5)..],
                last_decisions(node)?
            );
            let restarted = settled(context, node, round, &done.victim, &before, last, may_restart)?;
            if !restarted.is_empty() {
                done.note = format!("; {} started again with the runtime", restarted.join(" and "));
            }
        }
    }
    if let Some(fuse) = &fuse {
        done.note = format!("; {} calls unanswered", fuse.unanswered());
    }
    drop(fuse);
    if days != 0 {
        set_clock(-days)?;
    }
    let violations = node.violations(may_restart)?;
    ensure!(violations.is_empty(), "{}; {done}", violations.join("; "));
    node.remove_pods(round)?;
    let violations = node.violations(may_restart)?;
    ensure!(violations.is_empty(), "after the pods' end: {}; {done}", violations.join("; "));
    Ok(done)
}

/// Waits until the runtime has removed what the pods of earlier rounds wrote, which it does some time after
/// their end, and returns how much there is above the threshold.
fn freed(context: &Context, meter: &Meter) -> Result<i64, Failure> {
    let (mut last, mut quiet) = (meter.above()?, 0);
    eventually(context.patiently(120), "what earlier pods wrote is still being removed", || {
        if !meter.is_of_disk() || quiet == QUIET_S {
            return Ok(Some(last));
        }
        std::thread::sleep(Duration::from_secs(1));
        let now = meter.above()?;
        quiet = if now > last { 0 } else { quiet + 1 };
        last = now;
        Ok(None)
    })
}

/// What is disturbed in a round.
struct Disturbed<'a> {
    round: &'a RoundPlan,
    fuse: Option<&'a HungFuse>,
    /// By how many days the clock was set.
    days: &'a mut i64,
}

impl Disturbed<'_> {
    fn begin(&mut self, context: &Context, node: &mut Node<'_>) -> Result<(), Failure> {
        match self.round.disturbance {
            Disturbance::Nothing => {}
            Disturbance::AgentKilled => {
                node.end_agent(true)?;
                std::thread::sleep(Duration::from_millis(100) * context.patience);
                node.start_agent()?;
            }
            Disturbance::RuntimeSlow => {
                node.proxy.set_conduct(Conduct::Slow(Duration::from_millis(700) * context.patience));
            }
            Disturbance::RuntimeRefuses => node.proxy.set_conduct(Conduct::Refuses),
            Disturbance::RuntimeHangs => node.proxy.set_conduct(Conduct::Hangs),
            Disturbance::RuntimeRestarts => node.pods.without_containerd(|_| {
                std::thread::sleep(context.patiently(STOPPED_S));
                Ok(())
            })?,
            Disturbance::FileSystemHangs => self.fuse.iter().for_each(|fuse| fuse.hang()),
            Disturbance::ClockForward | Disturbance::ClockBack => {
                let days = self.round.disturbance.days();
                set_clock(days)?;
                *self.days = days;
            }
        }
        Ok(())
    }
}

/// Lets one pod, which was ordered to take `ordered`, grow beyond the threshold. Returns the names of the
/// evicted pods, the time until then, and what was read meanwhile. No pod is evicted if the one that grows is
/// no longer the `restartable` one that it was.
fn grow(
    context: &Context,
    node: &mut Node<'_>,
    meter: &Meter,
    disturbed: &mut Disturbed<'_>,
    growth: Growth,
    ordered: u64,
    restartable: Option<&RunningPod>,
) -> Result<(Vec<String>, Duration, Vec<Sample>), Failure> {
    let round = disturbed.round;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let follows = scope.spawn(|| meter.follow(&stop));
        let mut run = || {
            node.grow(round.pressure, &round.pods[growth.of], 2, ordered, growth.in_the_end)?;
            let begun = Instant::now();
            let after = Duration::from_millis(round.after_ms) * context.patience;
            let mut began = None;
            loop {
                if began.is_none() && begun.elapsed() >= after {
                    disturbed.begin(context, node)?;
                    began = Some(Instant::now());
                }
                let pods = node.pods.list_pods()?;
                let victims: Vec<_> = pods.iter().filter(|pod| is_evicted(pod)).map(name).collect();
                let same = |was: &RunningPod| {
                    let now = pods.iter().filter(|pod| pod.name() == was.name).map(RunningPod::of);
                    now.flatten().all(|now| now == *was)
                };
                if !victims.is_empty() || !restartable.is_none_or(same) {
                    return Ok((victims, begun.elapsed()));
                }
                if began.is_some_and(|at| at.elapsed() >= context.patiently(DISTURBED_S)) {
                    node.proxy.set_conduct(Conduct::Usual);
                }
                if begun.elapsed() >= context.patiently(EVICTED_S) {
                    let (above, decided) = (meter.above()?, last_decisions(node)?);
                    return Err(Failure::Unexpected(format!(
                        "no pod is evicted after {} s; above the threshold: {above}; used: {:?}; {decided}",
                        begun.elapsed().as_secs(),
                        meter.used()
                    )));
                }
                std::thread::sleep(Duration::from_millis(50) * context.patience);
            }
        };
        let done = run();
        stop.store(true, Ordering::Relaxed);
        let samples = follows.join().unwrap_or_default();
        let (victims, took) = done?;
        Ok((victims, took, samples))
    })
}

fn evicted(node: &Node<'_>) -> Result<Vec<String>, Failure> {
    let pods = node.pods.list_pods()?;
    Ok(pods.iter().filter(|pod| is_evicted(pod)).map(name).collect())
}

fn name(pod: &ListedPod) -> String {
    pod.name().to_owned()
}

/// Waits until the pressure is over, and checks that no second pod was chosen and that the others run
/// unchanged. Returns the pods whose container was started again, where that may be.
fn settled(
    context: &Context,
    node: &Node<'_>,
    round: &RoundPlan,
    victim: &str,
    before: &[RunningPod],
    last: u64,
    may_restart: bool,
) -> Result<Vec<String>, Failure> {
    let condition = round.pressure.condition();
    eventually(context.patiently(90), &format!("{condition} does not end"), || {
        let pressed =
            metric(node.pods.agent()?, "nodewarden_node_condition", ("condition", condition))? > 0.0;
        Ok((!pressed).then_some(()))
    })?;
    std::thread::sleep(context.patiently(TRANSITION_S));
    let all = decisions(node.pods.agent()?)?;
    let carried_out = all.iter().filter(|one| one.number > last && one.kind == "eviction" && !one.would);
    let names: Vec<_> = carried_out.flat_map(chosen).collect();
    ensure!(names == [victim], "chosen in this round: {names:?}; {}", last_decisions(node)?);
    let evicted = evicted(node)?;
    ensure!(evicted == [victim], "evicted for one pressure: {evicted:?}; {}", last_decisions(node)?);
    let mut restarted = Vec::new();
    for alive in before.iter().filter(|alive| alive.name != victim) {
        let listed = node.pods.wait_up(&alive.name)?;
        let now = RunningPod::of(&listed)?;
        if may_restart && now != *alive && now.uid == alive.uid {
            restarted.push(now.name);
            continue;
        }
        ensure!(now == *alive, "{} was {alive:?} and is {}", alive.name, listed.0["status"]);
    }
    Ok(restarted)
}

/// The last decisions, for the report of a failure.
fn last_decisions(node: &Node<'_>) -> Result<String, Failure> {
    let all = decisions(node.pods.agent()?)?;
    let lines = all.iter().filter(|one| one.kind == "eviction").take(2).map(|one| {
        let passed: Vec<_> = one.signals.iter().filter(|seen| seen.passed).map(|seen| &seen.signal).collect();
        let candidates: Vec<_> = one
            .candidates
            .iter()
            .map(|seen| format!("{} {}{}", seen.name, seen.usage, if seen.incomplete { "+" } else { "" }))
            .collect();
        format!("decision {}: {passed:?}: {}: {}", one.number, candidates.join(", "), one.outcome)
    });
    Ok(lines.collect::<Vec<_>>().join("; "))
}

/// Sets the wall clock by so many days.
fn set_clock(days: i64) -> Result<(), Failure> {
    let failed = |error: nix::Error| Failure::file("CLOCK_REALTIME")(error.into());
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map_err(failed)?;
    let then = TimeSpec::new(now.tv_sec() + days * DAY_S, now.tv_nsec());
    clock_settime(ClockId::CLOCK_REALTIME, then).map_err(failed)
}
