//! The agent's HTTP and gRPC endpoints answer, in the formats they document.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::support::eventually;
use crate::fixture::{Agent, AgentOptions, Group, TestRoot, Worker, parse_samples};
use crate::harness::{Capability, Context, Failure, Test, golden};
use crate::page::page_bytes;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("endpoints_answer", answer_in_their_format).needs(&[Capability::Root, Capability::Loopback]),
    Test::new("topics_are_on", topics).needs(&[Capability::Root, Capability::Loopback, Capability::Btf]),
    Test::new("answers_while_cgroups_come_and_go", answer_under_churn).needs(&[
        Capability::Root,
        Capability::Loopback,
        Capability::Btf,
    ]),
    Test::new("kubelet_families", kubelet_families).needs(&[
        Capability::Root,
        Capability::Loopback,
        Capability::Golden,
    ]),
];

/// HTTP paths, the gRPC health service and the status answer with the fields they promise; an unknown path is
/// 404.
fn answer_in_their_format(context: &Context) -> Result<(), Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    for path in
        ["/healthz", "/readyz", "/metrics", "/metrics/cadvisor", "/metrics/resource", "/stats/summary"]
    {
        let response = agent.get(path)?;
        ensure_eq!(response.status, 200, "status of {path}");
        ensure!(!response.body.is_empty(), "{path} is empty");
    }
    ensure_eq!(agent.get("/no-such-thing")?.status, 404, "status of an unknown path");

    let summary = agent.get("/stats/summary")?;
    let value: serde_json::Value = serde_json::from_slice(&summary.body)
        .map_err(|error| Failure::Unexpected(format!("/stats/summary is no JSON: {error}")))?;
    ensure!(value["node"]["nodeName"].is_string(), "/stats/summary has no node.nodeName");
    ensure!(value["node"]["memory"]["workingSetBytes"].is_u64(), "/stats/summary has no node memory");

    let client = agent.client()?;
    ensure!(client.serving()?, "the gRPC health service does not say SERVING");
    let status = client.status()?;
    ensure_eq!(status.cgroup_layout, context.layout.name(), "cgroup layout");
    ensure_eq!(status.mode, "observe", "mode");
    ensure!(
        status.map_bytes > 0 && status.resident_bytes > 0,
        "the status does not report the agent's own memory"
    );
    ensure!(!status.programs.is_empty(), "no kernel program is listed");
    ensure!(client.cgroups("")?.iter().any(|cgroup| cgroup.path == "/"), "the root cgroup is not listed");
    Ok(())
}

/// On a kernel with BTF every topic is on; only the network topic may be off, without cgroup v2, and the
/// topic oom, where the kernel does not say which process is killed. Then they have a reason.
fn topics(context: &Context) -> Result<(), Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    let status = agent.client()?.status()?;
    let names: BTreeSet<_> = status.topics.iter().map(|topic| topic.topic.as_str()).collect();
    for name in ["cpu", "oom", "reclaim", "process", "network", "block", "cgroup"] {
        ensure!(names.contains(name), "topic {name} is not in the status");
    }
    for topic in status.topics.iter().filter(|topic| topic.state != "on") {
        let needs_unified = topic.topic == "network" && context.layout.unified().is_none();
        let needs_victims = topic.topic == "oom"
            && Capability::OomVictims.probe(&context.layout, context.temp.path()).is_err();
        ensure!(needs_unified || needs_victims, "topic {} is {}: {}", topic.topic, topic.state, topic.reason);
        ensure!(!topic.reason.is_empty(), "topic {} is {} without a reason", topic.topic, topic.state);
    }
    Ok(())
}

/// Every request is answered while the agent is busy: several clients ask while cgroups come and go, and the
/// agent walks the tree again and again because a small ring loses records.
fn answer_under_churn(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let ring_bytes = Some(page_bytes() as u32);
    let agent = Agent::start(context, &AgentOptions { ring_bytes, ..Default::default() })?;
    let end = Instant::now() + Duration::from_secs(context.scaled([5, 2]));
    let until_end = |ask: &dyn Fn() -> Result<(), Failure>| {
        while Instant::now() < end {
            ask()?;
        }
        Ok(())
    };
    let status = || {
        let client = agent.client()?;
        until_end(&|| Ok(client.status().map(drop)?))
    };
    let list = || {
        let client = agent.client()?;
        until_end(&|| Ok(client.list("").map(drop)?))
    };
    let metrics = || until_end(&|| Ok(agent.get("/metrics").map(drop)?));
    let churn = || {
        until_end(&|| {
            let groups = (0..40).map(|i| root.child(&format!("g{i}"))).collect::<Result<Vec<_>, _>>()?;
            groups.iter().try_for_each(Group::remove).map_err(Failure::from)
        })
    };
    let requests: [&(dyn Fn() -> Result<(), Failure> + Sync); 5] =
        [&status, &status, &list, &metrics, &churn];
    std::thread::scope(|scope| {
        let threads: Vec<_> = requests.into_iter().map(|ask| scope.spawn(ask)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

#[derive(Deserialize)]
struct Families {
    #[serde(rename = "/metrics/cadvisor")]
    cadvisor: Vec<Family>,
    #[serde(rename = "/metrics/resource")]
    resource: Vec<Family>,
}

#[derive(Deserialize)]
struct Family {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    /// Each entry is a sorted list of label keys, separated by commas.
    label_sets: Vec<String>,
}

/// Each metric family that the kubelet also has is of the kubelet's type and has its label keys.
fn kubelet_families(context: &Context) -> Result<(), Failure> {
    let Some(path) = golden("metric-families.json") else {
        return Err(Failure::Skip("no golden values".into()));
    };
    let text = std::fs::read(&path).map_err(Failure::file(&path))?;
    let families: Families = serde_json::from_slice(&text)
        .map_err(|error| Failure::Unexpected(format!("{}: {error}", path.display())))?;

    let root = TestRoot::new(context)?;
    let pod = root.child("kubepods")?.child("burstable")?.child("pod8c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77")?;
    let container = pod.child(&"a1".repeat(32))?;
    let _worker = Worker::start(context, Some(&container), &["sleep"])?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    eventually(context.patiently(5), "/metrics/cadvisor has no series of the container", || {
        let body = agent.get("/metrics/cadvisor")?.text();
        Ok(body.contains(container.path()).then_some(()))
    })?;
    for (path, golden) in
        [("/metrics/cadvisor", &families.cadvisor), ("/metrics/resource", &families.resource)]
    {
        compare(path, &agent.get(path)?.text(), golden)?;
    }
    Ok(())
}

/// Compares a response with the kubelet's families of that path; fails with every difference.
fn compare(path: &str, body: &str, golden: &[Family]) -> Result<(), Failure> {
    let golden: BTreeMap<&str, &Family> =
        golden.iter().map(|family| (family.name.as_str(), family)).collect();
    let mut differences = BTreeSet::new();
    let mut seen = 0;
    for line in body.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        match line.split_once(' ').and_then(|(name, kind)| Some((kind, golden.get(name)?))) {
            Some((kind, family)) if family.kind == kind => seen += 1,
            Some((kind, family)) => {
                differences.insert(format!("{} is a {kind}, the kubelet's a {}", family.name, family.kind));
            }
            None => {}
        }
    }
    for sample in parse_samples(body) {
        let Some(family) = golden.get(sample.name.as_str()) else { continue };
        let keys = sample.labels.keys().map(String::as_str).collect::<Vec<_>>().join(",");
        if !family.label_sets.contains(&keys) {
            differences
                .insert(format!("{} has labels {keys}, the kubelet's {:?}", family.name, family.label_sets));
        }
    }
    ensure!(differences.is_empty(), "{path}: {}", differences.into_iter().collect::<Vec<_>>().join("; "));
    ensure!(seen > 0, "{path} has none of the kubelet's families");
    Ok(())
}
