//! What the page shows is what the API says and what the kernel did, and soon.

use std::time::{Duration, Instant};

use super::NEEDS;
use super::fixture::Page;
use crate::e2e::support::{MIB, SOON, die_of_memory, eventually, known};
use crate::fixture::{Agent, AgentOptions, Client, Group, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("page_shows_what_the_api_says", figures).needs(NEEDS).timeout(120),
    Test::new("page_shows_an_oom_within_a_second", oom)
        .needs(&[
            Capability::Root,
            Capability::Loopback,
            Capability::FullSpeed,
            Capability::Chromium,
            Capability::MemoryCgroup,
            Capability::Btf,
            Capability::OomVictims,
        ])
        .timeout(120),
    Test::new("page_draws_only_rows_in_view", many).needs(NEEDS).timeout(180),
];

const UID: &str = "8c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77";

/// Memory and CPU of a pod, of its container and of the node are those of gRPC at the same time.
fn figures(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let pod = root.child("kubepods")?.child("burstable")?.child(&format!("pod{UID}"))?;
    let (eater, spinner) = (pod.child(&"a1".repeat(32))?, pod.child(&"b2".repeat(32))?);
    eater.limit_memory(256 * MIB)?;
    let _eats = Worker::start(context, Some(&eater), &["eat-memory", &(96 * MIB).to_string()])?;
    let _spins = Worker::start(context, Some(&spinner), &["spin", "60000"])?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let (client, mut page) = (agent.client()?, Page::open(context, &agent)?);

    page.go("pods")?;
    same_memory(context, &client, &mut page, &pod, UID)?;
    ensure!(page.figure(UID, "memory")? >= (90 * MIB) as f64, "the eaten memory is not shown");
    same_cpu(context, &client, &mut page, &pod)?;
    page.browser.evaluate("document.querySelector('[data-what=containers]').click()")?;
    same_memory(context, &client, &mut page, &eater, &format!("{UID}/{}", "a1".repeat(32)))?;
    page.go("cgroups")?;
    page.browser.evaluate("[...document.querySelectorAll('#view-cgroups button')][0].click()")?;
    same_memory(context, &client, &mut page, &pod, pod.path())?;

    page.go("overview")?;
    let node = client.list("/")?;
    let text =
        page.value("document.querySelector('#view-overview .card:nth-child(1) .headline').textContent")?;
    let cpus = format!("of {} CPU", node.cpus);
    ensure!(text.as_str().is_some_and(|text| text.contains(&cpus)), "{text} has no {cpus:?}");
    let name = page.value("document.getElementById('node-name').textContent")?;
    ensure_eq!(name, node.node_name.as_str(), "the node's name");
    let shown = page.value("document.querySelector('[data-figure=memory]').dataset.value ?? null")?;
    let shown: f64 = shown.as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
    let said = known(client.cgroup("/")?.memory_working_set_bytes, "the node's memory")? as f64;
    ensure!((shown - said).abs() < 0.1 * said, "the node's memory is {shown}, gRPC says {said}");
    page.has_no_problems()
}

/// The page's figure lies between two readings of the API around it, or a MiB from them.
fn same_memory(
    context: &Context,
    client: &Client,
    page: &mut Page,
    group: &Group,
    key: &str,
) -> Result<(), Failure> {
    let missing = format!("the memory of {key} is never that of gRPC");
    eventually(context.patiently(10), &missing, || {
        let read = || known(client.cgroup(group.path())?.memory_working_set_bytes, "memory");
        let before = read()? as f64;
        let shown = page.figure(key, "memory")?;
        let after = read()? as f64;
        let slack = MIB as f64;
        let within = before.min(after) - slack..=before.max(after) + slack;
        Ok(within.contains(&shown).then_some(()))
    })
}

/// The mean of what the page shows is what the counter grew by.
fn same_cpu(context: &Context, client: &Client, page: &mut Page, group: &Group) -> Result<(), Failure> {
    let used = || known(client.cgroup(group.path())?.cpu_usage_ns, "CPU time");
    let (begun, before) = (Instant::now(), used()?);
    let mut shown = Vec::new();
    while begun.elapsed() < context.patiently(6) {
        shown.push(page.figure(UID, "cpu")?);
        std::thread::sleep(Duration::from_millis(250));
    }
    let said = (used()? - before) as f64 / 1e9 / begun.elapsed().as_secs_f64();
    let mean = shown.iter().sum::<f64>() / shown.len() as f64;
    ensure!((mean - said).abs() < 0.15 + 0.2 * said, "the page shows {mean} cores, the counter says {said}");
    Ok(())
}

/// An OOM kill is on the page within a second of the victim's death, in the overview and in the timeline.
fn oom(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let mut page = Page::open(context, &agent)?;
    let group = root.child("victim")?;
    group.limit_memory(32 * MIB)?;
    // The page notes itself when it shows the kill: asking it again and again would take part in the
    // measurement.
    page.browser.evaluate(
        "globalThis.seen = null; new MutationObserver(() => { \
         if (!seen && document.querySelector('.recent [data-type=oom]')) seen = Date.now(); }) \
         .observe(document.querySelector('.recent'), { childList: true, subtree: true })",
    )?;
    let (pid, dead) = die_of_memory(context, &group, 128 * MIB)?;
    let seen = page.value("globalThis.seen")?.as_u64().unwrap_or_default();
    let dead = dead.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let late = Duration::from_millis(seen).saturating_sub(dead);
    println!("{REPORTED}in the page {} ms after the death", late.as_millis());
    ensure!(late < SOON * context.patience, "the page shows the kill {late:?} after the death");

    let line = page.value("document.querySelector('.recent [data-type=oom] .line').textContent")?;
    let expected = format!("nw-eater (pid {pid}) killed in {}", group.path());
    ensure!(line.as_str().is_some_and(|line| line.starts_with(&expected)), "{line} is not {expected:?}…");
    page.go("timeline")?;
    page.until("the kill is in the timeline", &format!(
        "[...document.querySelectorAll('#view-timeline .row')].some((row) => row.textContent.includes('pid {pid}'))"
    ))?;
    page.has_no_problems()
}

/// Many more than fit on a screen. (Making cgroups takes longer than all else here.)
const PODS: usize = 300;

/// With many pods only the rows in view exist, and a frame is drawn in little time.
fn many(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let above = root.child("kubepods")?.child("besteffort")?;
    for at in 0..PODS {
        above.child(&format!("pod{at:08x}-0d3b-4c4e-9a55-2f6d1b0c9e77"))?;
    }
    let agent = Agent::start(context, &AgentOptions::default())?;
    let mut page = Page::open(context, &agent)?;
    page.go("pods")?;
    page.until(
        "all pods are counted",
        // Other pods of the machine are counted too.
        &format!("Number(/(\\d+) pods/.exec(document.querySelector('#view-pods .tools').textContent)?.[1]) >= {PODS}"),
    )?;
    let rows = "document.querySelectorAll('#view-pods .grid-body .row').length";
    let drawn = page.value(rows)?.as_u64().unwrap_or_default();
    ensure!((5..60).contains(&drawn), "{drawn} rows are drawn");
    page.browser.evaluate("document.querySelector('#view-pods .grid').focus()")?;
    page.browser.press("End")?;
    page.until(
        "the last row is chosen",
        "document.querySelector('#view-pods [aria-selected=true]')?.getAttribute('aria-rowindex') \
         === document.querySelector('#view-pods .grid').getAttribute('aria-rowcount')",
    )?;
    let drawn = page.value(rows)?.as_u64().unwrap_or_default();
    ensure!(drawn < 60, "{drawn} rows are drawn at the end");
    // Filtering draws the whole view again.
    let took = page.browser.evaluate(
        "(() => { const search = document.querySelector('#view-pods input'); search.value = 'pod'; \
         const begun = performance.now(); search.dispatchEvent(new Event('input')); return performance.now() - begun; })()",
    )?;
    let took = took.as_f64().unwrap_or(f64::MAX);
    println!("{REPORTED}{PODS} pods drawn in {took:.0} ms");
    ensure!(took < 250.0, "drawing takes {took} ms");
    page.has_no_problems()
}
