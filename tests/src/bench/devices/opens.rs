//! Measures what the kernel program adds to opening a device: one process opens /dev/null in a cgroup outside
//! the pods, in an unguarded pod and in a guarded pod, in turn. The kernel's own run-time statistics of the
//! program are shown too.

use std::path::PathBuf;

use serde_json::json;

use crate::bench::statistics::quantile;
use crate::bench::{Bound, Figure, Run};
use crate::e2e::devices::fixture::DeviceFixture;
use crate::e2e::pods::manifest::{STAY, one};
use crate::fixture::{Client, TestRoot, Worker};
use crate::harness::Failure;
use crate::worker::report::Opened;
use crate::{ensure, ensure_eq};

/// Rounds through the cgroups, on a full and on a quick run, and opens in each. Short and frequent visits, so
/// that changes on the machine affect all cgroups alike.
const ROUNDS: [u32; 2] = [2000, 400];
const OPENS: u32 = 2_000;
/// Bound in nanoseconds per open.
const BOUND: Bound = Bound::p50(200.0);

/// # Errors
/// The program is not attached, or a process cannot be moved.
pub fn measure(run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
    let context = run.context;
    let Some(unified) = context.layout.unified() else {
        run.progress("no cgroup v2 tree: no program is asked at an open");
        return Ok(Vec::new());
    };
    let section = "enforcement: Enforce\nprivilegedEnforcement: \"Off\"";
    let mut site = DeviceFixture::new(context, section)?;
    let client = site.pods.agent()?.client()?;
    let topic = client.status()?.topics.into_iter().find(|topic| topic.topic == "device");
    ensure!(
        topic.as_ref().is_some_and(|topic| topic.state != "off"),
        "opens are not checked on this kernel: {topic:?}"
    );
    let privileged = json!({ "securityContext": { "privileged": true } });
    site.pods.put([one("guarded", STAY, json!({})), one("free", STAY, privileged)])?;
    let mut cgroups = vec![];
    let outside =
        TestRoot::at(context.layout.clone(), format!("/{}-opens", context.prefix()), context.problems())?;
    cgroups.push(outside.child("opens")?.directory(unified));
    for name in ["free", "guarded"] {
        let pod = site.pods.wait_up(name)?;
        let path = site.pods.cgroup(&pod)?;
        let group = unified.mount.join(path.trim_start_matches('/')).join("opens");
        std::fs::create_dir(&group).map_err(Failure::file(&group))?;
        cgroups.push(group);
    }
    let figures = series(run, &client, &cgroups);
    for group in &cgroups[1..] {
        std::fs::remove_dir(group).map_err(Failure::file(group))?;
    }
    let figures = figures?;
    site.pods.finish()?;
    Ok(figures)
}

fn series(run: &Run<'_>, client: &Client, cgroups: &[PathBuf]) -> Result<Vec<Figure>, Failure> {
    let rounds = ROUNDS[usize::from(run.quick)];
    run.progress(&format!("{rounds} times {OPENS} opens of /dev/null in each of {} cgroups", cgroups.len()));
    let before = cost(client)?;
    // The worker ends in the cgroup outside the pods, so that these can be removed.
    let procs = |group: &PathBuf| group.join("cgroup.procs").display().to_string();
    let order = [procs(&cgroups[1]), procs(&cgroups[2]), procs(&cgroups[0])];
    let (rounds, opens) = (rounds.to_string(), OPENS.to_string());
    let arguments: Vec<&str> = ["opens", "--rounds", &rounds, "--opens", &opens]
        .into_iter()
        .chain(order.iter().map(String::as_str))
        .collect();
    let worker = Worker::start(run.context, None, &arguments)?;
    let Opened { nanoseconds } = worker.report(run.context.patiently(300))?;
    let after = cost(client)?;
    worker.finish(run.context.patiently(5))?;
    ensure_eq!(nanoseconds.len(), 3, "series of the worker");
    let [free, guarded, outside] = [0, 1, 2].map(|place: usize| nanoseconds[place].as_slice());
    // Differences within one round, so that slow changes affect both values.
    let added =
        |pod: &[f64]| -> Vec<f64> { pod.iter().zip(outside).map(|(pod, outside)| pod - outside).collect() };
    let figure = |name: &str, values: &[f64], bound| Figure::of("devices", name, "ns", values, bound);
    let mut figures = vec![
        figure("open of /dev/null outside the pods", outside, Bound::NONE),
        figure("open of /dev/null in a guarded pod", guarded, Bound::NONE),
        Figure::one(
            "devices",
            "added to an open in a guarded pod, p50",
            "ns",
            quantile(&added(guarded), 0.5),
            BOUND,
        ),
        Figure::one(
            "devices",
            "added to an open in a pod that is not guarded, p50",
            "ns",
            quantile(&added(free), 0.5),
            BOUND,
        ),
    ];
    // The kernel counts runs only while run-time statistics are enabled.
    let (runs, time) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    if runs > 0 {
        let each = time as f64 / runs as f64;
        figures.push(Figure::one("devices", "the program's own run time, by the kernel", "ns", each, BOUND));
    }
    Ok(figures)
}

/// Number of runs of the program and their total time in nanoseconds, as the kernel counts them.
fn cost(client: &Client) -> Result<(u64, u64), Failure> {
    let programs = client.status()?.programs;
    let of_devices = programs.iter().filter(|program| program.topic == "device");
    Ok(of_devices.fold((0, 0), |sum, program| (sum.0 + program.run_count, sum.1 + program.run_time_ns)))
}
