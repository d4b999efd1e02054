//! One round: objects are made and changed while something is killed; then everything is as the API says, and
//! the round's objects are removed.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::check::{agreement, restarts_without_cause};
use super::node::{MEMORY_MIB, Node, RESIDENT};
use super::objects::{CONFIG, KEY};
use super::plan::{App, Change, Fault, RoundPlan};
use crate::e2e::cluster::fixture::condition;
use crate::e2e::support::{MIB, eventually};
use crate::ensure;
use crate::harness::{Context, Failure};
use crate::soak::seeded::Counts;

/// How long a round's objects may take until they are as they should be.
const SETTLES_S: u64 = 150;
/// When the controllers are started again after the API server was away, if something is not as wanted.
/// Controllers of 1.20.2 were seen to miss changes then: a ReplicaSet stays whose Deployment was deleted, and
/// one that misses the result of its own change waits for 5 minutes (ExpectationsTimeout).
const RESTART_CONTROLLERS_S: u64 = 60;

/// A Deployment as it should be in the end.
struct Wanted {
    name: String,
    app: App,
    version: u64,
}

/// Runs one round.
///
/// # Errors
/// A requirement is violated, or a step fails.
pub fn run(context: &Context, node: &mut Node<'_>, plan: &RoundPlan) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let restarts = |node: &Node<'_>| node.history.restarted().map(|(.., count)| count).sum::<u64>();
    let restarts_before = restarts(node);
    let unready_before = node.history.of_node_controller;
    node.set_calm(false)?;
    let mut value = plan.seed;
    node.set_config(value)?;
    let mut apps = Vec::new();
    for (number, app) in plan.apps.iter().enumerate() {
        let name = format!("app-{number}");
        // What the containers of the round before wrote.
        let _first = fs::remove_file(node.evidence.join(&name));
        let version = node.create_app(&name, *app)?;
        apps.push(Wanted { name, app: *app, version });
    }
    for (number, job) in plan.jobs.iter().enumerate() {
        node.create_job(&format!("job-{number}"), *job)?;
        counts.one("jobs");
    }
    let mut away: Option<Instant> = None;
    for (number, step) in plan.steps.iter().enumerate() {
        std::thread::sleep(Duration::from_millis(step.pause_ms) * context.patience);
        if number == plan.fault_before {
            away = begin(context, node, plan, &mut counts)?;
        }
        if away.is_some_and(|until| Instant::now() >= until) {
            away = None;
            end(node, plan.fault)?;
        }
        change(node, &mut apps, step.change, &mut value, &mut counts)?;
        node.observe();
    }
    if let Some(until) = away {
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        end(node, plan.fault)?;
    }
    node.set_calm(true)?;
    settle(node, plan, &apps, value)?;
    for number in 0..plan.jobs.len() {
        node.delete("apis/batch/v1", "jobs", &format!("job-{number}"))?;
    }
    check(node, &apps)?;
    for wanted in &apps {
        node.delete("apis/apps/v1", "deployments", &wanted.name)?;
    }
    eventually(context.patiently(90), "the round's pods do not end", || {
        node.observe();
        Ok(node.pods()?.iter().all(|pod| pod["metadata"]["labels"]["app"] == RESIDENT).then_some(()))
    })?;
    check(node, &apps)?;
    let unready = node.history.of_node_controller - unready_before;
    ensure!(
        unready == 0 || plan.fault.stops_api_server(),
        "the node controller took the node for gone while the API server ran, and set pods to not ready {unready} times"
    );
    counts.add("restarts by probes", restarts(node).saturating_sub(restarts_before));
    Ok(counts)
}

/// Kills what the round kills. Returns until when it is away, or `None` if it is back already.
fn begin(
    context: &Context,
    node: &mut Node<'_>,
    plan: &RoundPlan,
    counts: &mut Counts,
) -> Result<Option<Instant>, Failure> {
    let away = Duration::from_millis(plan.away_ms) * context.patience;
    match plan.fault {
        Fault::Agent => node.kill_agent()?,
        Fault::Runtime => node.kill_runtime(),
        Fault::ApiServer => node.kill_api_server()?,
        Fault::AgentWithoutApiServer => {
            node.kill_api_server()?;
            node.kill_agent()?;
        }
        Fault::AgentWithoutRuntime => {
            node.kill_runtime();
            node.kill_agent()?;
        }
    }
    let of = |fault: &[Fault]| u64::from(fault.contains(&plan.fault));
    let of_agent = [Fault::Agent, Fault::AgentWithoutApiServer, Fault::AgentWithoutRuntime];
    counts.add("kills of the agent", of(&of_agent));
    counts.add("kills of the runtime", of(&[Fault::Runtime, Fault::AgentWithoutRuntime]));
    counts.add("kills of the API server", of(&[Fault::ApiServer, Fault::AgentWithoutApiServer]));
    match plan.fault {
        // Without it nothing can be changed.
        Fault::ApiServer => {
            std::thread::sleep(away);
            end(node, plan.fault)?;
            Ok(None)
        }
        Fault::AgentWithoutApiServer => {
            std::thread::sleep(away / 2);
            node.start_agent()?;
            std::thread::sleep(away / 2);
            end(node, plan.fault)?;
            Ok(None)
        }
        Fault::Agent | Fault::Runtime | Fault::AgentWithoutRuntime => Ok(Some(Instant::now() + away)),
    }
}

/// Starts again what was killed.
fn end(node: &mut Node<'_>, fault: Fault) -> Result<(), Failure> {
    match fault {
        Fault::Agent => node.start_agent(),
        Fault::Runtime => node.start_runtime(),
        Fault::ApiServer | Fault::AgentWithoutApiServer => node.start_api_server(),
        Fault::AgentWithoutRuntime => {
            node.start_runtime()?;
            node.start_agent()
        }
    }
}

fn change(
    node: &mut Node<'_>,
    apps: &mut [Wanted],
    change: Change,
    value: &mut u64,
    counts: &mut Counts,
) -> Result<(), Failure> {
    match change {
        Change::Scale { app, replicas } => {
            apps[app].app.replicas = replicas;
            counts.one("Deployments scaled");
            node.scale(&apps[app].name, replicas)
        }
        Change::Roll { app } => {
            counts.one("Deployments rolled");
            apps[app].version = node.roll(&apps[app].name, apps[app].app)?;
            Ok(())
        }
        Change::Replace { app } => {
            counts.one("Deployments replaced");
            node.delete("apis/apps/v1", "deployments", &apps[app].name)?;
            apps[app].version = node.create_app(&apps[app].name, apps[app].app)?;
            Ok(())
        }
        Change::DeletePod { app, pod } => match nth_pod(node, &apps[app].name, pod)? {
            Some(name) => {
                counts.one("pods deleted");
                node.delete_pod(&name)
            }
            None => Ok(()),
        },
        Change::EvictPod { app, pod } => match nth_pod(node, &apps[app].name, pod)? {
            Some(name) => {
                counts.one("pods evicted");
                node.evict_pod(&name)
            }
            None => Ok(()),
        },
        Change::SetConfig { value: new } => {
            counts.one("config maps changed");
            *value = new;
            node.set_config(new)
        }
    }
}

/// The name of one of a Deployment's pods, if it has any.
fn nth_pod(node: &mut Node<'_>, app: &str, nth: u64) -> Result<Option<String>, Failure> {
    let pods = node.pods()?;
    let own: Vec<_> = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == app).collect();
    let at = usize::try_from(nth).unwrap_or(0).checked_rem(own.len());
    Ok(at.and_then(|at| own[at]["metadata"]["name"].as_str().map(str::to_owned)))
}

/// Waits until the API shows what is wanted, and every pod has the newest config map.
fn settle(node: &mut Node<'_>, plan: &RoundPlan, apps: &[Wanted], value: u64) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let (begun, restart) = (Instant::now(), node.context.patiently(RESTART_CONTROLLERS_S));
    let mut restarted = !plan.fault.stops_api_server();
    let settled = eventually(node.context.patiently(SETTLES_S), "", || {
        node.observe();
        wrong = unsettled(node, plan, apps, value)?;
        if !wrong.is_empty() && !restarted && begun.elapsed() >= restart {
            restarted = true;
            println!("soak cluster: the controller manager is started again, since {}", wrong.join("; "));
            node.restart_controllers()?;
        }
        Ok(wrong.is_empty().then_some(()))
    });
    settled.map_err(|failure| {
        wrong.extend(node.list("apis/apps/v1", "replicasets").into_iter().flatten().map(|set| {
            let name = set["metadata"]["name"].as_str().unwrap_or_default();
            let owner = &set["metadata"]["ownerReferences"][0]["uid"];
            format!(
                "ReplicaSet {name}, owned by {owner}, of {} has {}",
                set["spec"]["replicas"], set["status"]
            )
        }));
        Failure::Unexpected(format!("not as wanted{failure}: {}", wrong.join("; ")))
    })
}

fn unsettled(
    node: &mut Node<'_>,
    plan: &RoundPlan,
    apps: &[Wanted],
    value: u64,
) -> Result<Vec<String>, Failure> {
    let mut wrong = Vec::new();
    let pods = node.pods()?;
    let deployments = by_name(node.list("apis/apps/v1", "deployments")?);
    for Wanted { name, app, version } in apps {
        let status = deployments.get(name).map_or(&Value::Null, |deployment| &deployment["status"]);
        let count = |field: &str| status[field].as_u64().unwrap_or(0);
        let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"].map(count);
        let version = version.to_string();
        let own: Vec<_> = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == **name).collect();
        let as_wanted = own.iter().filter(|pod| {
            pod["metadata"]["annotations"]["version"] == *version && condition(pod, "Ready") == Some("True")
        });
        let as_wanted = as_wanted.count() as u64;
        if counts != [app.replicas; 4] || own.len() as u64 != app.replicas || as_wanted != app.replicas {
            let seen: Vec<_> = own.iter().map(|pod| describe(pod)).collect();
            wrong.push(format!("{name} should have {} pods of version {version}: {seen:?}", app.replicas));
        }
    }
    let jobs = by_name(node.list("apis/batch/v1", "jobs")?);
    for (number, job) in plan.jobs.iter().enumerate() {
        let name = format!("job-{number}");
        let wanted = if job.exit_code == 0 { "Complete" } else { "Failed" };
        let status = jobs.get(&name).cloned().unwrap_or_default();
        if condition(&status, wanted) != Some("True") {
            let own = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == *name);
            let seen: Vec<_> = own.map(describe).collect();
            wrong.push(format!("{name} should be {wanted}: {} {seen:?}", status["status"]));
        }
    }
    let folder = node.agent()?.kubelet_dir().join("pods");
    for pod in pods.iter().filter(|pod| condition(pod, "Ready") == Some("True")) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let path = folder.join(uid).join("volumes/kubernetes.io~configmap").join(CONFIG).join(KEY);
        let text = fs::read_to_string(&path).unwrap_or_default();
        if text != value.to_string() {
            wrong.push(format!("{} has the value {text:?}, not {value}", describe(pod)));
        }
    }
    Ok(wrong)
}

fn by_name(items: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    items.into_iter().map(|item| (name(&item), item)).collect()
}

/// A pod in a few words.
fn describe(pod: &Value) -> String {
    let state = &pod["status"]["containerStatuses"][0]["state"];
    format!(
        "{} version {} {} ready {:?} deleted {} {state}",
        pod["metadata"]["name"].as_str().unwrap_or_default(),
        pod["metadata"]["annotations"]["version"].as_str().unwrap_or_default(),
        pod["status"]["phase"].as_str().unwrap_or_default(),
        condition(pod, "Ready").unwrap_or_default(),
        pod["metadata"]["deletionTimestamp"].as_str().unwrap_or("no"),
    )
}

/// What must hold whenever nothing changes.
fn check(node: &mut Node<'_>, apps: &[Wanted]) -> Result<(), Failure> {
    agreement(node)?;
    node.read_causes()?;
    node.observe();
    let names: Vec<_> = apps.iter().map(|wanted| wanted.name.clone()).chain([RESIDENT.to_owned()]).collect();
    let mut found = node.history.violations();
    found.extend(restarts_without_cause(node, &names));
    let peak = node.note_memory()?;
    if peak > MEMORY_MIB * MIB {
        found.push(format!("the agent has used {} MiB, more than {MEMORY_MIB}", peak / MIB));
    }
    ensure!(found.is_empty(), "{}", found.join("; "));
    Ok(())
}
