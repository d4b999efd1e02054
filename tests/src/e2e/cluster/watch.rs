//! An API server that has no time, forgets versions, is slow or cut off, and watches that deliver garbage:
//! the agent recovers, no pod is restarted, and statuses are right in the end.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::NEEDS;
use super::bad_api::BadApi;
use super::fixture::{condition, ensure_no_restart};
use super::manifest::pod;
use crate::e2e::support::eventually;
use crate::fixture::{ApiProxy, Refusal};
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_api_too_busy", too_busy).timeout(300).needs(NEEDS),
    Test::new("cluster_api_forgets", forgets).timeout(300).needs(NEEDS),
    Test::new("cluster_api_cut_off", cut_off).timeout(300).needs(NEEDS),
    Test::new("cluster_api_garbage", garbage).timeout(300).needs(NEEDS),
    Test::new("cluster_api_repeats", repeats).timeout(300).needs(NEEDS),
];

/// The agent's watch of its pods.
const PODS: &str = "/api/v1/pods?";

/// After 429 with Retry-After the same request comes again, and not before that time.
fn too_busy(context: &Context) -> Result<(), Failure> {
    let api = BadApi::start(context)?;
    let begun = Instant::now();
    let statuses = format!("PATCH /api/v1/namespaces/{}/pods/busy/status", api.fixture.name());
    api.proxy.refuse(&statuses, 2, Refusal::TooMany(3));
    api.run_pod("busy")?;
    let refused = |part: &str| api.proxy.asked(begun, part).iter().filter(|one| one.status == 429).count();
    ensure_eq!(refused(&statuses), 2, "refused patches of the status");
    ensure_waited(&api.proxy, begun, &statuses, 3)?;

    // The same for the watch and the list after it.
    let begun = Instant::now();
    api.proxy.refuse(&format!("GET {PODS}"), 2, Refusal::TooMany(3));
    api.proxy.cut();
    api.run_pod("later")?;
    ensure_eq!(refused(PODS), 2, "refused watches and lists");
    ensure_waited(&api.proxy, begun, PODS, 3)?;

    // The lease is tried again before its 40 s are over.
    let lease = "PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/";
    api.proxy.refuse(lease, 2, Refusal::TooMany(1));
    eventually(
        context.patiently(30),
        "the lease is not renewed",
        || Ok((refused(lease) == 2).then_some(())),
    )?;
    api.fixture.wait_renewed(30)?;
    api.ensure_untouched()?;
    api.fixture.finish()
}

/// Fails if a request came sooner after a refusal than it was asked to.
fn ensure_waited(proxy: &ApiProxy, since: Instant, part: &str, seconds: u64) -> Result<(), Failure> {
    let asked = proxy.asked(since, part);
    for pair in asked.windows(2).filter(|pair| pair[0].status == 429) {
        let waited = pair[1].at - pair[0].at;
        println!("{REPORTED}{:?} again after 429: {:.1} s", part, waited.as_secs_f64());
        ensure!(
            waited >= Duration::from_secs(seconds),
            "{part} again after {waited:?}, where Retry-After was {seconds} s: {asked:#?}"
        );
    }
    Ok(())
}

/// A watch that ends with 410, as an event and as an answer: the pods are listed again.
fn forgets(context: &Context) -> Result<(), Failure> {
    let api = BadApi::start(context)?;
    let lists = |since| {
        let asked = api.proxy.asked(since, &format!("GET {PODS}"));
        asked.iter().filter(|one| one.status == 200 && !one.line.contains("watch=true")).count()
    };
    let begun = Instant::now();
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}"#;
    ensure!(api.proxy.write_line(PODS, gone) > 0, "no watch is open");
    api.run_pod("first")?;
    ensure_eq!(lists(begun), 1, "lists after the event 410");

    let begun = Instant::now();
    api.proxy.refuse(&format!("GET {PODS}"), 1, Refusal::Gone);
    api.proxy.cut();
    api.run_pod("second")?;
    ensure_eq!(lists(begun), 1, "lists after the answer 410");

    // What happens while nothing is watched is found by the list.
    api.proxy.refuse(&format!("GET {PODS}"), 3, Refusal::Gone);
    api.proxy.cut();
    api.fixture.run(&["delete", "pod", "first", "second", "--wait=false"])?;
    api.run_pod("third")?;
    for name in ["first", "second"] {
        api.fixture.wait_gone(name, 60)?;
    }
    // Watches of other objects too.
    api.proxy.write_line("/api/v1/nodes", gone);
    api.proxy.write_line("/api/v1/namespaces/", gone);
    api.delete_pod("third")?;
    api.ensure_untouched()?;
    api.fixture.finish()
}

/// Connections are cut again and again, and answers are slow.
fn cut_off(context: &Context) -> Result<(), Failure> {
    let api = BadApi::start(context)?;
    let mut ends = pod("ends", api.fixture.name(), "sleep 4; exit 3");
    ends["spec"]["restartPolicy"] = "Never".into();
    api.fixture.apply(&ends)?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        api.proxy.cut();
        std::thread::sleep(Duration::from_millis(500));
    }
    let ended = api.fixture.wait_pod("ends", "failed", 60, |pod| pod["status"]["phase"] == "Failed")?;
    let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
    ensure_eq!(state["exitCode"], 3, "exit code of a container that ended meanwhile");
    api.run_pod("after")?;
    let requests = api.proxy.asked(begun, "").len();
    println!("{REPORTED}requests in {:.0} s with 20 cuts: {requests}", begun.elapsed().as_secs_f64());

    api.proxy.delay(Duration::from_secs(3));
    let begun = Instant::now();
    api.run_pod("slow")?;
    println!("{REPORTED}pod created to ready with answers after 3 s: {:.1} s", begun.elapsed().as_secs_f64());
    api.fixture.wait_renewed(40)?;
    api.proxy.delay(Duration::ZERO);
    api.delete_pod("slow")?;
    api.ensure_untouched()?;
    api.fixture.finish()
}

/// Lines in the watch that are no events, and events of which only a part arrives.
fn garbage(context: &Context) -> Result<(), Failure> {
    let api = BadApi::start(context)?;
    let lines: [&[u8]; 7] = [
        b"\xff\xfe\x00garbage",
        b"<html><body>502 Bad Gateway</body></html>",
        b"{}",
        b"null",
        br#"{"type":"ADDED","object":{"metadata":{}}}"#,
        br#"{"type":"STRANGE","object":{"metadata":{"name":"stays"}}}"#,
        br#"{"type":"DELETED","object":{"metadata":{"name":"stays","namespace":"elsewhere","uid":"x"}}}"#,
    ];
    for (number, line) in lines.into_iter().enumerate() {
        ensure!(api.proxy.write_line("/api/v1/", line) > 0, "no watch is open");
        // One pod for each that a list may have to find.
        let name = format!("after-{number}");
        let begun = Instant::now();
        api.run_pod(&name)?;
        println!("{REPORTED}line {number}, then a pod ready after {:.1} s", begun.elapsed().as_secs_f64());
        api.fixture.run(&["delete", "pod", &name, "--wait=false"])?;
    }
    // Half of the event that a pod is bound to the node: no other one comes for this pod.
    api.proxy.break_events(1);
    let begun = Instant::now();
    api.run_pod("half")?;
    println!("{REPORTED}half an event, then the pod ready after {:.1} s", begun.elapsed().as_secs_f64());
    api.proxy.break_events(1);
    api.delete_pod("half")?;
    for number in 0..lines.len() {
        api.fixture.wait_gone(&format!("after-{number}"), 60)?;
    }
    api.ensure_untouched()?;
    api.fixture.finish()
}

/// Events come twice, and old ones come again: nothing is started again, and no status is written without
/// need.
fn repeats(context: &Context) -> Result<(), Failure> {
    let api = BadApi::start(context)?;
    api.proxy.repeat(true);
    let first = api.run_pod("first")?;
    let mut ends = pod("ends", api.fixture.name(), "sleep 2; exit 0");
    ends["spec"]["restartPolicy"] = "Never".into();
    api.fixture.apply(&ends)?;
    let done = |pod: &Value| pod["status"]["phase"] == "Succeeded";
    let ended = api.fixture.wait_pod("ends", "at its end", 60, done)?;
    for number in 0..5 {
        api.fixture.run(&["annotate", "pod", "first", &format!("example.com/n={number}"), "--overwrite"])?;
    }
    // Longer than a status that looks lost is waited for.
    let quiet = Instant::now() + Duration::from_secs(3);
    std::thread::sleep(Duration::from_secs(28));
    let patches = api.proxy.asked(quiet, "PATCH /api/v1/namespaces/");
    ensure!(patches.len() <= 2, "statuses are written though nothing changes: {patches:#?}");
    let again = api.fixture.wait_pod("ends", "at its end", 5, done)?;
    ensure_eq!(
        again["status"]["containerStatuses"],
        ended["status"]["containerStatuses"],
        "of the ended pod"
    );
    let after = api.fixture.wait_ready("first")?;
    ensure_no_restart(&after)?;
    ensure_eq!(after["metadata"]["uid"], first["metadata"]["uid"], "uid");
    ensure_eq!(condition(&after, "Ready"), Some("True"), "Ready");

    let begun = Instant::now();
    api.delete_pod("first")?;
    // One of the same name is another one.
    let second = api.run_pod("first")?;
    ensure!(second["metadata"]["uid"] != first["metadata"]["uid"], "the pod was not replaced");
    std::thread::sleep(Duration::from_secs(3));
    api.proxy.repeat(false);
    let deletes = api.proxy.asked(begun, "DELETE /api/v1/namespaces/");
    ensure_eq!(deletes.len(), 1, "deletes at the API server, {deletes:#?}");
    let creates = |name: &str| -> Result<usize, Failure> {
        let field = format!("involvedObject.name={name},reason=Started");
        let events = api.fixture.get(&["events", "--field-selector", &field])?;
        Ok(events["items"].as_array().map_or(0, Vec::len))
    };
    ensure_eq!((creates("first")?, creates("ends")?, creates("stays")?), (2, 1, 1), "events Started");
    api.ensure_untouched()?;
    api.fixture.finish()
}
