//! What `kubectl top` shows of a node and its pods, by metrics-server's view of `/metrics/resource`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::NEEDS;
use super::fixture::ClusterFixture;
use super::manifest::{WAIT, pod};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{ContainerName, MetricsApi, Scrape, Usage, total_memory};
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_top", top).timeout(240).needs(NEEDS)];

/// The least time between two scrapes. metrics-server takes at least 10 s; less is harder.
const APART: Duration = Duration::from_secs(6);
/// CPUs that a pod may use, and MiB that it holds.
const CPU: f64 = 0.2;
const HELD: u64 = 20;
/// Containers of the test.
const CONTAINERS: usize = 3;

/// Two scrapes have every container, and what they say is what is used. (Who may scrape is tested in
/// [`super::endpoints`].)
fn top(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let script = format!("dd if=/dev/zero of=/dev/shm/held bs=1048576 count={HELD}; while :; do :; done");
    let mut burns = pod("burns", fixture.name(), &script);
    burns["spec"]["containers"][0]["resources"] =
        json!({ "limits": { "cpu": format!("{:.0}m", CPU * 1000.0), "memory": "64Mi" } });
    let mut idle = pod("idle", fixture.name(), WAIT);
    let second = idle["spec"]["containers"][0].clone();
    if let Some(all) = idle["spec"]["containers"].as_array_mut() {
        all.push(second);
        all[1]["name"] = json!("second");
    }
    fixture.apply(&burns)?;
    fixture.apply(&idle)?;
    fixture.wait_ready("burns")?;
    fixture.wait_ready("idle")?;
    // What is held is held.
    std::thread::sleep(Duration::from_secs(2));
    let path = format!("/api/v1/nodes/{}/proxy/metrics/resource", fixture.name());
    let scrape = || -> Result<Scrape, Failure> {
        let now = Timestamp::now().as_millisecond();
        let text = fixture.kubectl().run(&["get", "--raw", &path])?;
        let mut scrape = Scrape::read(&text, now).map_err(Failure::Unexpected)?;
        // Containers of tests that run beside this one have cgroups on the same machine.
        scrape.containers.retain(|name, _| name[0] == fixture.namespace());
        Ok(scrape)
    };
    // A kubelet measures only now and then.
    let before = eventually(context.patiently(30), "a scrape does not have all containers", || {
        Ok(Some(scrape()?).filter(|own| own.containers.len() >= CONTAINERS))
    })?;
    std::thread::sleep(APART);
    let mut wrong = Vec::new();
    let now = eventually(context.patiently(30), "", || {
        let own = scrape()?;
        let usages = own.containers.keys().map(|name| (name, own.usage(&before, name)));
        wrong = usages.filter_map(|(name, used)| Some(format!("{name:?}: {}", used.err()?))).collect();
        Ok(wrong.is_empty().then_some(own))
    });
    let now =
        now.map_err(|failure| Failure::Unexpected(format!("not all is measured again{failure}: {wrong:?}")))?;
    let used = check(&fixture, &before, &now)?;
    let node = now.node_usage(&before).map_err(Failure::Unexpected)?;
    shown(&fixture, node, &used)?;
    fixture.finish()
}

/// `kubectl top` shows these usages of the node, its pods and their containers.
fn shown(
    fixture: &ClusterFixture<'_>,
    node: Usage,
    used: &BTreeMap<ContainerName, Usage>,
) -> Result<(), Failure> {
    let signed = fixture.cluster().signer()?.server("metrics-server", &["localhost"], &[])?;
    let serving = MetricsApi::start(fixture.kubectl(), &signed, (fixture.name(), node), used)?;
    let words = |text: &str| -> Vec<Vec<String>> {
        let lines = text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect());
        lines.collect()
    };
    let all = words(&fixture.run(&["top", "node", fixture.name(), "--no-headers"])?);
    let percent =
        |index: usize| all[0].get(index).and_then(|text| text.strip_suffix('%')?.parse::<f64>().ok());
    let [cpu, memory] = columns([node]);
    ensure!(all.len() == 1 && all[0].first().map(String::as_str) == Some(fixture.name()), "nodes: {all:?}");
    ensure!(all[0].get(1) == Some(&cpu) && all[0].get(3) == Some(&memory), "node {cpu} {memory}: {all:?}");
    ensure!([2, 4].iter().all(|&of| percent(of).is_some_and(|of| of < 110.0)), "parts: {all:?}");
    let expected = used.iter().map(|([_, pod, container], &usage)| {
        let [cpu, memory] = columns([usage]);
        vec![pod.clone(), container.clone(), cpu, memory]
    });
    let containers = words(&fixture.run(&["top", "pod", "--containers", "--no-headers"])?);
    ensure_eq!(containers, expected.collect::<Vec<_>>(), "kubectl top pod --containers");
    let expected = ["burns", "idle"].map(|pod| {
        let own = used.iter().filter(|(name, _)| name[1] == pod).map(|(_, &usage)| usage);
        let [cpu, memory] = columns(own);
        vec![pod.to_owned(), cpu, memory]
    });
    let pods = words(&fixture.run(&["top", "pod", "--no-headers"])?);
    ensure_eq!(pods, expected.to_vec(), "kubectl top pod");
    drop(serving);
    Ok(())
}

/// How kubectl shows the sum of usages: thousandths of a CPU upwards, MiB downwards.
fn columns(usages: impl IntoIterator<Item = Usage>) -> [String; 2] {
    let (mut nanos, mut kib) = (0.0, 0.0);
    for usage in usages {
        nanos += (usage.cpu * 1e9).round();
        kib += (usage.memory / 1024.0).round();
    }
    [format!("{:.0}m", (nanos / 1e6).ceil()), format!("{:.0}Mi", (kib / 1024.0).floor())]
}

/// Returns what the containers use, after it was held against what is expected of them.
fn check(
    fixture: &ClusterFixture<'_>,
    before: &Scrape,
    now: &Scrape,
) -> Result<BTreeMap<ContainerName, Usage>, Failure> {
    let mut memory = 0.0;
    let mut used = BTreeMap::new();
    for (pod, container) in [("burns", "main"), ("idle", "main"), ("idle", "second")] {
        let name: ContainerName = [fixture.namespace(), pod, container].map(str::to_owned);
        let usage = now.usage(before, &name).map_err(Failure::Unexpected)?;
        println!(
            "{REPORTED}{pod}/{container}: {:.0}m CPU, {:.1} MiB",
            usage.cpu * 1000.0,
            usage.memory / MIB as f64
        );
        let (least, most) = if pod == "burns" { (CPU * 0.6, CPU * 1.2) } else { (0.0, 0.05) };
        ensure!((least..=most).contains(&usage.cpu), "{name:?} uses {} CPUs", usage.cpu);
        let held = if pod == "burns" { HELD * MIB } else { 0 } as f64;
        ensure!(
            (held..held + (20 * MIB) as f64).contains(&usage.memory),
            "{name:?} uses {} bytes",
            usage.memory
        );
        memory += usage.memory;
        used.insert(name.clone(), usage);
        let object = fixture.pod(pod)?.unwrap_or_default();
        let statuses = object["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        let own = statuses.iter().find(|own| own["name"] == container);
        let time = |text: Option<&str>| Some(text?.parse::<Timestamp>().ok()?.as_second() as f64);
        let started = time(own.and_then(|own| own["state"]["running"]["startedAt"].as_str()));
        let created = time(object["metadata"]["creationTimestamp"].as_str());
        let shown = now.containers[&name].started;
        // As with a kubelet it is when the container was made, which is before it was started
        // (cri_stats_provider.go). The API has whole seconds.
        let between = created.zip(started).is_some_and(|(from, to)| (from..=to + 1.0).contains(&shown));
        ensure!(between, "{name:?}: made {created:?}, started {started:?}, /metrics/resource says {shown}");
    }
    let node = now.node_usage(before).map_err(Failure::Unexpected)?;
    println!("{REPORTED}node: {:.0}m CPU, {:.0} MiB", node.cpu * 1000.0, node.memory / MIB as f64);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    ensure!((CPU * 0.6..=cpus * 1.05).contains(&node.cpu), "the node uses {} CPUs of {cpus}", node.cpu);
    ensure!(
        (memory..=total_memory()? as f64).contains(&node.memory),
        "the node uses {} bytes, these containers {memory}",
        node.memory
    );
    let late = Timestamp::now().as_millisecond() - now.node.map_or(0, |node| node.time);
    ensure!((0..15_000).contains(&late), "the node's figures are {late} ms old");
    Ok(used)
}
