//! A container that fails its liveness or startup probe is ended and, by its policy, begun again: with the probe's own grace,
//! not probed in between, waiting longer each time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::LONG_NEEDS;
use super::manifest::probe;
use super::site::Site;
use crate::e2e::pods::manifest::merged;
use crate::harness::{Context, Failure, Test};
use crate::serve::{LEAVE_SUFFIX, Noted};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("probe_failure_restarts_by_policy", liveness).timeout(150).needs(LONG_NEEDS)];

const ALIVE: &str = "/file/alive";
/// The pod's grace, and the probe's.
const GRACE_S: [u64; 2] = [60, 1];
/// Longer than any of them: deaf to SIGTERM.
const DEAF: &str = "600";

fn liveness(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    site.program.answer("alive", "/ok")?;
    let grace = json!({ "failureThreshold": 2, "terminationGracePeriodSeconds": GRACE_S[1] });
    let by = |kind: &str, handler: Value, more: Value| json!({ (kind): probe(handler, more) });
    let mut pod = |name: &str, arguments: &[&str], path: &str, kind: &str, more: Value, spec: Value| {
        let port = site.program.port()?;
        let probes = by(kind, site.http(port, path), site.delayed(more));
        let listens = ["--http".to_owned(), port.to_string()];
        let arguments: Vec<_> =
            listens.into_iter().chain(arguments.iter().map(|&word| word.to_owned())).collect();
        let container = site.server(name, "c", &arguments, probes);
        Ok::<_, Failure>(site.pod(name, merged(json!({ "containers": [container] }), spec)))
    };
    let steps = |name: &str| format!("/steps/{name}/ok.bad");
    let live = "livenessProbe";
    let pods = [
        pod(
            "deaf",
            &["--stay", DEAF],
            ALIVE,
            live,
            grace,
            json!({ "terminationGracePeriodSeconds": GRACE_S[0] }),
        )?,
        // How it ends is its own affair: the probe has failed.
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
    site.stage.put(pods)?;

    deaf(&site)?;
    // At the test's end it need not wait for the pod's grace.
    site.program.answer(&format!("deaf-c.{LEAVE_SUFFIX}"), "-")?;
    let never = site.stage.phase("never", "Failed")?;
    let c = never.container("c")?;
    ensure_eq!((c.restarts(), c.exit_code()), (0, Some(7)), "restarts and exit code under Never");
    let told = site.told_of("never", "c", &["Killing"])?;
    let said: Vec<_> = told.iter().map(|told| told.message.as_str()).collect();
    ensure!(
        said.iter().any(|said| said.contains("failed liveness probe"))
            && !said.iter().any(|said| said.contains("will be restarted")),
        "what is said of a container that is not restarted: {said:?}"
    );
    for (name, words) in [("onfailure", "failed liveness probe"), ("startup", "failed startup probe")] {
        site.stage.until(name, "begun again and again, ended by SIGTERM each time", 30, |pod| {
            pod.container("c").is_ok_and(|c| c.restarts() >= 2 && c.exit_code() == Some(0))
        })?;
        let told = site.told_of(name, "c", &["Killing"])?;
        ensure!(
            told.iter().any(|told| told.message.contains(&format!("{words}, will be restarted"))),
            "{name}: {told:?}"
        );
        site.stage.until(name, "waiting", 30, |pod| {
            pod.container("c").is_ok_and(|c| c.waits() == "CrashLoopBackOff")
        })?;
    }
    ensure_eq!(
        site.stage.pod("never")?.map(|pod| pod.phase().to_owned()),
        Some("Failed".to_owned()),
        "the phase under Never"
    );
    site.stage.finish()
}

/// A container that has to be killed: after the probe's grace, not the pod's.
fn deaf(site: &Site<'_>) -> Result<(), Failure> {
    let context = site.context();
    let before = site.stage.up("deaf")?;
    site.until_noted("deaf", "c", "is not asked", 20, |notes| {
        (notes.iter().filter(|note| note.path == ALIVE).count() >= 3).then_some(())
    })?;
    site.program.answer("alive", "/bad")?;
    let begun = Instant::now();
    site.until_noted("deaf", "c", "is not ended", 20, |notes| {
        notes.iter().any(|note| note.answer == "term").then_some(())
    })?;
    site.program.answer("alive", "/ok")?;
    let after = site.stage.until("deaf", "begun again", 30, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 1)
    })?;
    let (took, limit) = (begun.elapsed(), context.patiently(15));
    ensure!(took < limit, "it was begun again after {took:?}, with a grace of {} s of its probe", GRACE_S[1]);
    ensure_eq!(after.uid(), before.uid(), "uid");
    ensure_eq!(
        after.container("c")?.last().map(|last| last["exitCode"].clone()),
        Some(json!(137)),
        "how it ended"
    );
    let told = site.told_of("deaf", "c", &["Killing"])?;
    ensure!(
        told.iter().any(|told| told.message.contains("failed liveness probe, will be restarted")),
        "{told:?}"
    );

    // Two failures, no run until the next one has begun, and then as of a new container.
    std::thread::sleep(Duration::from_millis(2500));
    let notes = site.noted("deaf", "c");
    let answers: Vec<_> =
        notes.iter().skip_while(|note| note.answer != "503").map(|note| note.answer.as_str()).collect();
    let (held, anew) = split_at_begin(&answers);
    ensure_eq!(held, ["503", "503", "term"], "what happened from the first failure to the new container");
    ensure!(
        !anew.is_empty() && anew.iter().all(|answer| *answer == "200"),
        "what the new container was asked: {anew:?}"
    );
    ensure_eq!(site.stage.up("deaf")?.container("c")?.restarts(), 1, "restarts");
    let healthy = |notes: &[Noted]| notes.iter().filter(|note| note.answer == "200").count();
    ensure!(healthy(&notes) >= 4, "it is not asked any more");
    Ok(())
}

/// What is noted before the next process begins, and after.
fn split_at_begin<'a>(answers: &'a [&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let at = answers.iter().position(|answer| *answer == "started").unwrap_or(answers.len());
    (answers[..at].to_vec(), answers[at..].iter().skip(1).copied().collect())
}
