//! What `kubectl top` shows of a node and its pods: metrics-server's view of `/metrics/resource`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::NEEDS;
use super::fixture::ClusterFixture;
use super::manifest::{WAIT, pod};
use crate::e2e::support::{MIB, eventually};
use crate::ensure;
use crate::fixture::{ContainerName, Scrape, total_memory};
use crate::harness::{Context, Failure, REPORTED, Test};

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
    check(&fixture, &before, &now)?;
    fixture.finish()
}

fn check(fixture: &ClusterFixture<'_>, before: &Scrape, now: &Scrape) -> Result<(), Failure> {
    let mut memory = 0.0;
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
    Ok(())
}
