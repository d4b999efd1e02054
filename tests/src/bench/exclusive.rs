//! What a CPU of its own is worth: a loop that always wants to run, in a Guaranteed pod that asks for one
//! CPU, beside BestEffort pods that use every CPU they get; with the CPU manager's policies none and static
//! in turn, and without these neighbours, which shows what the machine itself takes.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Bench, Bound, Figure, Run};
use crate::e2e::pods::fixture::{PodFixture, SHORT_BACKOFF};
use crate::e2e::pods::manifest::{one, pod, shell};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure};
use crate::worker::report::Pauses;

pub struct Exclusive;

/// How long the loop runs in each round.
const LOOP: Duration = Duration::from_secs(10);
/// Uses all of a CPU.
const SPIN: &str = "trap 'exit 0' TERM; while true; do :; done";
/// BestEffort pods for each CPU.
const NEIGHBOURS: usize = 2;
/// What is compared: a policy, and whether there are neighbours.
const CASES: [(&str, bool); 3] = [("none", true), ("static", true), ("static", false)];

impl Bench for Exclusive {
    fn name(&self) -> &'static str {
        "exclusive"
    }

    fn about(&self) -> &'static str {
        "worst pause of a loop on a CPU of its own beside BestEffort spinners, and without the CPU manager"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let context = run.context;
        let kubelet_dir = context.temp.join("k");
        std::fs::create_dir_all(&kubelet_dir).map_err(Failure::file(&kubelet_dir))?;
        let section = format!("{SHORT_BACKOFF}\ndevices:\n  kubeletDir: {}\n", kubelet_dir.display());
        let lines = |policy: &str| format!("cpuManagerPolicy: {policy}\nreservedSystemCPUs: \"0\"\n");
        let mut fixture = PodFixture::with_config(context, &lines("none"), &section)?;
        let mut seen: [Vec<Pauses>; CASES.len()] = Default::default();
        let mut number = 0;
        for round in 0..if run.quick { 2 } else { 5 } {
            for (at, (policy, neighbours)) in CASES.into_iter().enumerate() {
                let beside = if neighbours { "beside neighbours" } else { "alone" };
                run.progress(&format!("policy {policy}, {beside}, round {}", round + 1));
                fixture.stop_agent();
                fixture.set_kubelet(&lines(policy));
                fixture.start_agent()?;
                number += 1;
                seen[at].push(measure(context, &mut fixture, number, neighbours)?);
            }
        }
        fixture.finish()?;
        let of = |at: usize, value: fn(&Pauses) -> f64| seen[at].iter().map(value).collect::<Vec<f64>>();
        let worst = |pauses: &Pauses| pauses.worst_ns as f64 / 1e6;
        let lost = |pauses: &Pauses| pauses.total_ns as f64 / pauses.in_ns.max(1) as f64 * 100.0;
        let figure = |name: &str, unit: &'static str, values: &[f64], bound| {
            Figure::of("exclusive", name.to_owned(), unit, values, bound)
        };
        let ratios: Vec<f64> =
            of(1, worst).iter().zip(of(0, worst)).map(|(own, shared)| own / shared).collect();
        Ok(vec![
            figure("worst pause with policy none", "ms", &of(0, worst), Bound::NONE),
            figure("worst pause with a CPU of its own", "ms", &of(1, worst), Bound::NONE),
            figure("worst pause with a CPU of its own and no neighbours", "ms", &of(2, worst), Bound::NONE),
            figure("worst pause with a CPU of its own, of that without", "", &ratios, Bound::p50(1.0)),
            figure("time lost with policy none", "%", &of(0, lost), Bound::NONE),
            figure("time lost with a CPU of its own", "%", &of(1, lost), Bound::NONE),
            figure("time lost with a CPU of its own and no neighbours", "%", &of(2, lost), Bound::NONE),
        ])
    }
}

/// One round: spinners if there are to be `neighbours`, then the loop, then everything ends.
fn measure(
    context: &Context,
    fixture: &mut PodFixture<'_>,
    number: usize,
    neighbours: bool,
) -> Result<Pauses, Failure> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let count = if neighbours { cpus * NEIGHBOURS } else { 0 };
    let neighbours: Vec<String> = (0..count).map(|at| format!("spin-{number}-{at}")).collect();
    for name in &neighbours {
        fixture.put([one(name, SPIN, json!({}))])?;
    }
    for name in &neighbours {
        fixture.wait_up(name)?;
    }
    let name = format!("loop-{number}");
    fixture.put([looping(context, &name)])?;
    let done = fixture.wait_until(&name, "done", LOOP.as_secs() + 60, |pod| pod.phase() == "Succeeded")?;
    let log = fixture.log_until(&done, "c", 0, "worstNs")?;
    let line = log.lines().find(|line| line.contains("worstNs")).unwrap_or_default();
    let pauses =
        serde_json::from_str(line).map_err(|error| Failure::Unexpected(format!("{line}: {error}")))?;
    let names: Vec<&str> = neighbours.iter().map(String::as_str).chain([name.as_str()]).collect();
    for name in &names {
        fixture.remove(name)?;
    }
    eventually(context.patiently(60), "the pods of a round are still there", || {
        let left = fixture.list_pods()?;
        Ok(left.is_empty().then_some(()))
    })?;
    Ok(pauses)
}

/// A Guaranteed pod with one CPU that runs our loop once; its file system is the machine's.
fn looping(context: &Context, name: &str) -> Value {
    let script = format!(
        "echo | chroot /host {} worker --tag {} pauses {}",
        context.own.display(),
        context.prefix(),
        LOOP.as_millis()
    );
    let limits = json!({ "limits": { "cpu": "1", "memory": "64Mi" } });
    let mounts = json!([{ "name": "host", "mountPath": "/host", "readOnly": true }]);
    let container = shell("c", &script, json!({ "resources": limits, "volumeMounts": mounts }));
    let host = json!([{ "name": "host", "hostPath": { "path": "/", "type": "Directory" } }]);
    pod(name, json!({ "restartPolicy": "Never", "containers": [container], "volumes": host }))
}
