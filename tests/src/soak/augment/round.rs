//! One round: Deployments change while agent or kubelet are killed; then no setting of the kubelet may have
//! changed, and after the agent's end none at all.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::baseline::Baseline;
use super::kinds::{self, KINDS};
use super::node::Node;
use super::plan::{Change, Fault, RoundPlan};
use super::values::is_written;
use crate::e2e::cluster::fixture::condition;
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::ApiError;
use crate::harness::{Context, Failure};
use crate::soak::seeded::Counts;

/// How long a round's changes may take until everything is as it should be, in seconds.
const SETTLES: u64 = 120;
/// The kubelet gives a new pod some of its limits late; the agent acts once a second.
const WRITTEN: u64 = 30;
/// What the record of writes needs to be complete.
const RECORDED: Duration = Duration::from_millis(500);

/// Runs one round with the agent running before and after it.
///
/// # Errors
/// A requirement is violated, or a step fails.
pub fn run(
    context: &Context,
    node: &mut Node<'_>,
    plan: &RoundPlan,
    baseline: &Baseline,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut jobs = Vec::new();
    for (number, step) in plan.steps.iter().enumerate() {
        std::thread::sleep(Duration::from_millis(step.pause_ms) * context.patience);
        if number == plan.fault_before {
            strike(context, node, plan, &mut counts)?;
        }
        match step.change {
            Change::Scale { app, replicas } => {
                counts.one("Deployments scaled");
                node.scale(app, replicas)?;
            }
            Change::Roll { app } => {
                counts.one("Deployments rolled");
                node.roll(app)?;
            }
            Change::DeletePod { app, pod } => {
                if let Some(name) = nth_pod(node, app, pod)? {
                    counts.one("pods deleted");
                    node.delete_pod(&name)?;
                }
            }
            Change::EvictPod { app, pod } => {
                if let Some(name) = nth_pod(node, app, pod)? {
                    counts.one("pods evicted");
                    node.evict_pod(&name)?;
                }
            }
            Change::Job { seconds } => {
                let name = format!("job-{}-{number}", plan.seed);
                counts.one("jobs");
                node.create_job(&name, seconds)?;
                jobs.push(name);
            }
        }
        node.observe();
    }
    let pods = settle(context, node)?;
    compare_beside(context, node, &pods, baseline)?;
    if plan.ends_by_undo {
        counts.one("kills of the agent");
        counts.one("undone");
        node.end_agent(Signal::SIGKILL)?;
        node.undo()?;
    } else {
        counts.one("ends of the agent");
        node.end_agent(Signal::SIGTERM)?;
    }
    let mut left = baseline.differences(node, &pods, false)?;
    left.extend(baseline.differences_of_units(context)?);
    ensure!(left.is_empty(), "after the agent's end: {}", left.join("; "));
    for name in &jobs {
        node.delete_job(name)?;
    }
    std::thread::sleep(RECORDED);
    let wrong = node.wrong_writes();
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    node.observe();
    let broken = node.broken.iter().cloned().collect::<Vec<_>>().join("; ");
    ensure!(broken.is_empty(), "{broken}");
    node.start_agent()?;
    Ok(counts)
}

/// The round's fault.
fn strike(
    context: &Context,
    node: &mut Node<'_>,
    plan: &RoundPlan,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let away = Duration::from_millis(plan.away_ms) * context.patience;
    let kubelet = matches!(plan.fault, Fault::KubeletRestarted | Fault::KubeletKilled | Fault::BothKilled);
    match plan.fault {
        Fault::AgentKilled | Fault::BothKilled => {
            counts.one("kills of the agent");
            node.end_agent(Signal::SIGKILL)?;
        }
        Fault::AgentRestarted => {
            counts.one("ends of the agent");
            node.end_agent(Signal::SIGTERM)?;
        }
        Fault::KubeletRestarted | Fault::KubeletKilled => {}
    }
    if kubelet {
        let signal = if plan.fault == Fault::KubeletRestarted { Signal::SIGTERM } else { Signal::SIGKILL };
        match signal {
            Signal::SIGTERM => counts.one("ends of the kubelet"),
            _ => counts.one("kills of the kubelet"),
        }
        node.kubelet_ended = true;
        node.fixture.runs_by_mut().end_kubelet(signal)?;
        std::thread::sleep(away);
        node.fixture.runs_by_mut().start_kubelet()?;
    } else {
        std::thread::sleep(away);
    }
    if matches!(plan.fault, Fault::AgentKilled | Fault::AgentRestarted | Fault::BothKilled) {
        node.start_agent()?;
    }
    Ok(())
}

/// The name of one of a Deployment's pods, if it has any.
fn nth_pod(node: &mut Node<'_>, app: usize, nth: u64) -> Result<Option<String>, Failure> {
    let mut pods = node.pods()?;
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == kinds::name(app));
    let at = usize::try_from(nth).unwrap_or(0).checked_rem(pods.len());
    Ok(at.and_then(|at| pods[at]["metadata"]["name"].as_str().map(str::to_owned)))
}

/// Waits until every Deployment is as its spec says. Returns the pods.
///
/// # Errors
/// That takes too long.
pub fn settle(context: &Context, node: &mut Node<'_>) -> Result<Vec<Value>, Failure> {
    let mut last = Vec::new();
    let settled = eventually(context.patiently(SETTLES), "", || {
        node.observe();
        node.fixture.control_plane()?.keep()?;
        match settled_pods(node, &mut last) {
            // An API server that is slow for a while is no fault of what is tested here.
            Err(Failure::Api(ApiError::Io { .. })) => Ok(None),
            done => done,
        }
    });
    settled.map_err(|failure| {
        let seen: Vec<_> =
            last.iter().map(|pod| format!("{} {}", pod["metadata"]["name"], pod["status"])).collect();
        Failure::Unexpected(format!("the Deployments are not as wanted{failure}: {seen:#?}"))
    })
}

/// The pods if every Deployment is as its spec says and they are ready; else `last` is what there is.
fn settled_pods(node: &mut Node<'_>, last: &mut Vec<Value>) -> Result<Option<Vec<Value>>, Failure> {
    for kind in 0..KINDS {
        if !node.is_settled(kind)? {
            *last = node.pods()?;
            return Ok(None);
        }
    }
    let pods = node.pods()?;
    let are_ready = pods.iter().all(|pod| condition(pod, "Ready") == Some("True"));
    Ok(are_ready.then_some(pods))
}

/// Waits until the agent has written what it is for, and no other setting differs.
fn compare_beside(
    context: &Context,
    node: &mut Node<'_>,
    pods: &[Value],
    baseline: &Baseline,
) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let agreed = eventually(context.patiently(WRITTEN), "", || {
        wrong = baseline.differences(node, pods, true)?;
        for pod in pods {
            let app = &pod["metadata"]["labels"]["app"];
            let kind = (0..KINDS).find(|kind| *app == kinds::name(*kind)).unwrap_or(0);
            if !is_written(&node.values(pod)?, kinds::is_idle(kind), kinds::has_quota(kind)) {
                wrong.push(format!("{} does not have the agent's values", pod["metadata"]["name"]));
            }
        }
        Ok(wrong.is_empty().then_some(()))
    });
    agreed
        .map_err(|failure| Failure::Unexpected(format!("beside the kubelet{failure}: {}", wrong.join("; "))))
}
