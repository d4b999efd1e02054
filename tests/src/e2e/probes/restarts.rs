//! The agent is killed and asked to end again and again while the machine is busy: no container's readiness changes unless its
//! application changed it, no probe starts over, and runs of failures are not forgotten.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::LONG_NEEDS;
use super::manifest::{exec, grpc, probe};
use super::site::{Site, Told};
use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::pods::manifest::{STAY, shell};
use crate::e2e::support::eventually;
use crate::fixture::Worker;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::serve::Noted;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("probe_results_survive_restarts", restarts).timeout(240).needs(LONG_NEEDS)];

const ROUNDS: [u64; 2] = [20, 6];
/// An agent lives for so long at least, once it is ready: one run of every probe.
const LIVES: Duration = Duration::from_millis(1300);
/// Up to so much longer, by dice.
const LONGER_MS: u64 = 700;
/// The application that changes by itself does so every so many seconds.
const BLINKS_S: f64 = 4.3;
const BLINK: &str = "/blink/4.3";
/// So many changes may be missing in the journal, of ten kills.
const MOST_LOST: usize = 3;
const STARTUP: &str = "/ok?startup";
const LATE: &str = "/ok?late";
const DYING: &str = "/file/dying";
/// More than the runs of one agent's life.
const DYING_THRESHOLD: u64 = 6;
/// How long workers keep the CPUs busy: longer than the test may take.
const BUSY_MS: &str = "600000";
const WORKERS: usize = 2;

fn restarts(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "journal: {memoryEvents: 100000}")?;
    site.program.answer("dying", "/ok")?;
    let pods = [steady(&mut site)?, changing(&mut site)?];
    site.stage.put(pods)?;
    site.stage.up("steady")?;
    site.until_noted("changing", "late", "is not asked after its delay", 30, |notes| {
        (asked(notes, LATE) >= 2).then_some(())
    })?;
    let settled = SystemTime::now();
    let before = identities(&site, "steady")?;
    let late = asked(&site.noted("changing", "late"), LATE);
    let busy = (0..WORKERS)
        .map(|_| Worker::start(context, None, &["spin", BUSY_MS]))
        .collect::<Result<Vec<_>, _>>()?;

    let mut dice = Dice::new(u64::from(context.runner()));
    let rounds = context.scaled(ROUNDS);
    for round in 0..rounds {
        if round == rounds / 2 {
            site.program.answer("dying", "/bad")?;
        }
        if round % 2 == 0 {
            site.stage.kill_agent()?;
        } else {
            site.stage.stop_agent();
        }
        // Some come back at once, some later than a period.
        std::thread::sleep(Duration::from_millis(dice.roll(4) * 400));
        site.stage.start_agent()?;
        let lives = context.scaled([LIVES, LIVES * 6]) + Duration::from_millis(dice.roll(LONGER_MS));
        let begun = Instant::now();
        while begun.elapsed() < lives {
            let now = identities(&site, "steady")?;
            ensure!(
                now == before,
                "round {round}, {:?} after the agent was ready: {now:?}, before {before:?}",
                begun.elapsed()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    drop(busy);
    silent(&site, "steady", settled)?;
    let Changes { told: changes, lost } = explained(&site)?;
    let notes = site.noted("changing", "late");
    ensure_eq!(asked(&notes, STARTUP), 1, "runs of a startup probe that had succeeded");
    let runs = asked(&notes, LATE) - late;
    ensure!(
        runs as u64 >= rounds,
        "only {runs} runs in {rounds} rounds of a probe whose delay is longer than a round"
    );
    if context.patience == 1 {
        // Long enough in the rounds alone: `DYING_THRESHOLD` runs in no single one, but in half of all.
        let dying = site.stage.pod("changing")?;
        let restarts = dying.as_ref().and_then(|pod| pod.container("dying").ok()).map(|c| c.restarts());
        ensure!(
            restarts >= Some(1),
            "failures were forgotten: a container that fails since round {} was not restarted",
            rounds / 2
        );
    }
    println!(
        "{REPORTED}{rounds} restarts under load: {changes} changes of readiness, each the application's, {lost} lost by a kill"
    );
    site.stage.finish()
}

/// A container of each handler, always well.
fn steady(site: &mut Site<'_>) -> Result<Value, Failure> {
    let ports = site.ports()?;
    let patient = || site.delayed(site.patient());
    let both = |handler: Value| json!({ "readinessProbe": probe(handler.clone(), patient()), "livenessProbe": probe(handler, patient()) });
    let mut containers = vec![
        site.server("steady", "http", &ports.arguments(), both(site.http(ports.http, "/ok"))),
        shell("tcp", STAY, both(site.tcp(ports.tcp))),
        shell("exec", STAY, both(exec("exit 0"))),
    ];
    if site.own_network() {
        containers.push(shell("grpc", STAY, both(grpc(ports.grpc, ""))));
    }
    Ok(site.pod("steady", json!({ "containers": containers })))
}

/// One that blinks by itself, one that waited long before its first run, and one that will fail.
fn changing(site: &mut Site<'_>) -> Result<Value, Failure> {
    let [blinks, late, dying] = [site.program.port()?, site.program.port()?, site.program.port()?];
    let containers = json!([
        site.http_server("changing", "blinks", blinks, json!({ "readinessProbe": probe(site.http(blinks, BLINK), json!({})) })),
        site.http_server("changing", "late", late, json!({
            "startupProbe": probe(site.http(late, STARTUP), site.delayed(site.patient())),
            "readinessProbe": probe(site.http(late, LATE), json!({ "initialDelaySeconds": 5, "failureThreshold": 3 })),
        })),
        site.http_server("changing", "dying", dying, json!({
            "livenessProbe": probe(site.http(dying, DYING), site.delayed(json!({ "failureThreshold": DYING_THRESHOLD }))),
        })),
    ]);
    Ok(site.pod("changing", json!({ "containers": containers })))
}

fn asked(notes: &[Noted], path: &str) -> usize {
    notes.iter().filter(|note| note.path == path).count()
}

/// By container: its id, how often it was restarted, and whether it is started and ready.
type Identities = BTreeMap<String, (String, u64, Value, Value)>;

fn identities(site: &Site<'_>, pod: &str) -> Result<Identities, Failure> {
    let seen = site.stage.pod(pod)?.ok_or_else(|| Failure::Unexpected(format!("no pod {pod}")))?;
    let of = seen.statuses().map(|status| {
        let what = (
            status.id().to_owned(),
            status.restarts(),
            status.0["started"].clone(),
            status.0["ready"].clone(),
        );
        (status.name().to_owned(), what)
    });
    Ok(of.collect())
}

/// Nothing but single failures was told of a pod's probes since then: machines are busy.
fn silent(site: &Site<'_>, pod: &str, since: SystemTime) -> Result<(), Failure> {
    let told = site.told(pod)?;
    let changes: Vec<_> = told
        .iter()
        .filter(|told| told.at > since)
        .filter(|told| {
            told.reason == "Healthy" || (told.reason == "Unhealthy" && !told.message.contains("(1 of "))
        })
        .collect();
    ensure!(changes.is_empty(), "changes of pod {pod}, whose application never changed: {changes:?}");
    Ok(())
}

/// Every change that the journal has is one that the application had answered before; the number of changes.
fn explained(site: &Site<'_>) -> Result<Changes, Failure> {
    let blinks = || -> Result<Vec<Noted>, Failure> {
        Ok(site.noted("changing", "blinks").into_iter().filter(|note| note.path == BLINK).collect())
    };
    let told = site.told_of("changing", "blinks", &["Healthy", "Unhealthy"])?;
    let changes = unexplained(&told, &blinks()?).map_err(Failure::Unexpected)?;
    ensure!(changes.lost <= MOST_LOST, "{} changes are not in the journal: {told:?}", changes.lost);
    let least = (site.context().scaled([20.0, 6.0]) / BLINKS_S) as usize;
    ensure!(
        changes.told >= least,
        "only {changes:?} of a container that changes every {BLINKS_S} s: {told:?}"
    );
    // None is missed either: what it answers last is what it is.
    eventually(site.context().patiently(10), "the container is not as it answers", || {
        let last = blinks()?.last().map(|note| note.answer == "200");
        let seen = site.stage.pod("changing")?;
        let ready = seen.as_ref().and_then(|pod| pod.container("blinks").ok()).map(|c| c.0["ready"] == true);
        Ok((last == ready).then_some(()))
    })?;
    Ok(changes)
}

/// Goes through the changes in order: since the one before, the application must have answered so, and each must be another
/// than the one before. One in between may be missing where the agent was killed: the journal is on disk some milliseconds
/// after the result is in the pod's record.
fn unexplained(told: &[Told], answered: &[Noted]) -> Result<Changes, String> {
    let mut changed: Option<(bool, SystemTime)> = None;
    let mut changes = Changes::default();
    for change in told {
        let ready = change.reason == "Healthy";
        // It begins unready: what fails before it first succeeds (a server that does not listen yet) changes nothing.
        if !ready && changed.is_none() {
            continue;
        }
        let since = changed.map_or(SystemTime::UNIX_EPOCH, |(_, at)| at);
        let has_answered = |ready: bool| {
            let answer = if ready { "200" } else { "503" };
            answered.iter().any(|note| note.at > since && note.at <= change.at && note.answer == answer)
        };
        if changed.is_some_and(|(before, _)| before == ready) {
            if !has_answered(!ready) {
                return Err(format!("told twice: {change:?}"));
            }
            changes.lost += 1;
        }
        if !has_answered(ready) {
            return Err(format!("the application had not answered so since the change before: {change:?}"));
        }
        changed = Some((ready, change.at));
        changes.told += 1;
    }
    Ok(changes)
}

/// How many the journal has, and how many it must have lost in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Changes {
    told: usize,
    lost: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_change_needs_an_answer_before_it() {
        let told = |seconds, reason: &str| Told {
            at: at(seconds),
            container: "c".into(),
            reason: reason.into(),
            message: String::new(),
        };
        let note = |seconds, answer: &str| Noted {
            at: at(seconds),
            listener: "http".into(),
            path: BLINK.into(),
            answer: answer.into(),
        };
        let answers = [note(1, "200"), note(3, "503"), note(5, "503"), note(7, "200")];
        let good = [told(2, "Healthy"), told(4, "Unhealthy"), told(8, "Healthy")];
        let all = |told, lost| Ok(Changes { told, lost });
        assert_eq!(unexplained(&good, &answers), all(3, 0));
        // Before it was answered, once too often, and by an agent that started over.
        assert_eq!(unexplained(&[told(1, "Unhealthy"), told(2, "Healthy")], &answers), all(1, 0));
        assert!(unexplained(&[told(2, "Healthy"), told(2, "Unhealthy")], &answers).is_err());
        assert!(unexplained(&[told(2, "Healthy"), told(8, "Healthy")], &answers[..1]).is_err());
        // The one in between is missing.
        assert_eq!(unexplained(&[told(2, "Healthy"), told(8, "Healthy")], &answers), all(2, 1));
        assert!(unexplained(&[told(4, "Unhealthy"), told(6, "Healthy")], &answers[1..]).is_err());
    }
}
