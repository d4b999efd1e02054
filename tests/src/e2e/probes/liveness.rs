//! Containers that fail their liveness or startup probe.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::LONG_NEEDS;
use super::fixture::ProbeFixture;
use super::manifest::probe;
use crate::e2e::pods::manifest::merged;
use crate::harness::{Context, Failure, Test};
use crate::serve::{LEAVE_SUFFIX, Noted};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("probe_failure_restarts_by_policy", liveness).timeout(150).needs(LONG_NEEDS)];

const ALIVE: &str = "/file/alive";
/// Seconds of the pod's grace period and of the probe's.
const GRACE_S: [u64; 2] = [60, 1];
/// Seconds that the server runs after SIGTERM: longer than both.
const STAYS_S: &str = "600";

/// A container that fails its liveness or startup probe is ended within the probe's grace period and
/// restarted by the pod's policy, with back-off.
fn liveness(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, "")?;
    fixture.program.answer("alive", "/ok")?;
    let grace = json!({ "failureThreshold": 2, "terminationGracePeriodSeconds": GRACE_S[1] });
    let by = |kind: &str, handler: Value, more: Value| json!({ (kind): probe(handler, more) });
    let mut pod = |name: &str, arguments: &[&str], path: &str, kind: &str, more: Value, spec: Value| {
        let port = fixture.program.port()?;
        let probes = by(kind, fixture.http(port, path), fixture.delayed(more));
        let listens = ["--http".to_owned(), port.to_string()];
        let arguments: Vec<_> =
            listens.into_iter().chain(arguments.iter().map(|&word| word.to_owned())).collect();
        let container = fixture.server(name, "c", &arguments, probes);
        Ok::<_, Failure>(fixture.pod(name, merged(json!({ "containers": [container] }), spec)))
    };
    let steps = |name: &str| format!("/steps/{name}/ok.bad");
    let live = "livenessProbe";
    let pods = [
        pod(
            "deaf",
            &["--stay", STAYS_S],
            ALIVE,
            live,
            grace,
            json!({ "terminationGracePeriodSeconds": GRACE_S[0] }),
        )?,
        // It is ended for its probe, and its own exit code is shown.
        pod(
            "never",
            &["--code", "7"],
            &steps("never"),
            live,
            json!({}),
            json!({ "restartPolicy": "Never" }),
        )?,
        pod("onfailure", &[], &steps("onfailure"), live, json!({}), json!({ "restartPolicy": "OnFailure" }))?,
        pod("startup", &[], "/bad", "startupProbe", json!({ "failureThreshold": 2 }), json!({}))?,
    ];
    fixture.pods.put(pods)?;

    check_killed(&fixture)?;
    // So that the end of the test does not wait for the pod's grace period.
    fixture.program.answer(&format!("deaf-c.{LEAVE_SUFFIX}"), "-")?;
    let never = fixture.pods.wait_phase("never", "Failed")?;
    let c = never.container("c")?;
    ensure_eq!((c.restarts(), c.exit_code()), (0, Some(7)), "restarts and exit code under Never");
    let events = fixture.events_of("never", "c", &["Killing"])?;
    let messages: Vec<_> = events.iter().map(|event| event.message.as_str()).collect();
    ensure!(
        messages.iter().any(|messages| messages.contains("failed liveness probe"))
            && !messages.iter().any(|messages| messages.contains("will be restarted")),
        "events of a container that is not restarted: {messages:?}"
    );
    for (name, words) in [("onfailure", "failed liveness probe"), ("startup", "failed startup probe")] {
        fixture.pods.wait_until(name, "restarted twice, ended by SIGTERM each time", 30, |pod| {
            pod.container("c").is_ok_and(|c| c.restarts() >= 2 && c.exit_code() == Some(0))
        })?;
        let events = fixture.events_of(name, "c", &["Killing"])?;
        ensure!(
            events.iter().any(|event| event.message.contains(&format!("{words}, will be restarted"))),
            "{name}: {events:?}"
        );
        fixture.pods.wait_until(name, "waiting", 30, |pod| {
            pod.container("c").is_ok_and(|c| c.waiting_reason() == "CrashLoopBackOff")
        })?;
    }
    ensure_eq!(
        fixture.pods.pod("never")?.map(|pod| pod.phase().to_owned()),
        Some("Failed".to_owned()),
        "the phase under Never"
    );
    fixture.pods.finish()
}

/// Checks that a container that ignores SIGTERM is killed after the probe's grace period, not the pod's, and
/// is not probed until it runs again.
fn check_killed(fixture: &ProbeFixture<'_>) -> Result<(), Failure> {
    let context = fixture.context();
    let before = fixture.pods.wait_up("deaf")?;
    fixture.wait_notes("deaf", "c", "is not asked", 20, |notes| {
        (notes.iter().filter(|note| note.path == ALIVE).count() >= 3).then_some(())
    })?;
    fixture.program.answer("alive", "/bad")?;
    let begun = Instant::now();
    fixture.wait_notes("deaf", "c", "got no SIGTERM", 20, |notes| {
        notes.iter().any(|note| note.answer == "term").then_some(())
    })?;
    fixture.program.answer("alive", "/ok")?;
    let after = fixture.pods.wait_until("deaf", "restarted", 30, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 1)
    })?;
    let (took, limit) = (begun.elapsed(), context.patiently(15));
    ensure!(took < limit, "it was restarted after {took:?}, with a grace period of {} s", GRACE_S[1]);
    ensure_eq!(after.uid(), before.uid(), "uid");
    ensure_eq!(
        after.container("c")?.last_terminated().map(|last| last["exitCode"].clone()),
        Some(json!(137)),
        "exit code of the killed container"
    );
    let events = fixture.events_of("deaf", "c", &["Killing"])?;
    ensure!(
        events.iter().any(|event| event.message.contains("failed liveness probe, will be restarted")),
        "{events:?}"
    );

    // Two failures, then no run until the new container has started, and then runs as of any new container.
    std::thread::sleep(Duration::from_millis(2500));
    let notes = fixture.notes_of("deaf", "c");
    let answers: Vec<_> =
        notes.iter().skip_while(|note| note.answer != "503").map(|note| note.answer.as_str()).collect();
    let (held, after_restart) = split_at_start(&answers);
    ensure_eq!(held, ["503", "503", "term"], "what happened from the first failure to the new container");
    ensure!(
        !after_restart.is_empty() && after_restart.iter().all(|answer| *answer == "200"),
        "answers of the new container: {after_restart:?}"
    );
    ensure_eq!(fixture.pods.wait_up("deaf")?.container("c")?.restarts(), 1, "restarts");
    let healthy = |notes: &[Noted]| notes.iter().filter(|note| note.answer == "200").count();
    ensure!(healthy(&notes) >= 4, "it is not probed any more");
    Ok(())
}

/// The answers before the start of the next process, and those after it.
fn split_at_start<'a>(answers: &'a [&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let at = answers.iter().position(|answer| *answer == "started").unwrap_or(answers.len());
    (answers[..at].to_vec(), answers[at..].iter().skip(1).copied().collect())
}
