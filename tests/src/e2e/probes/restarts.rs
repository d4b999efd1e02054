//! Probes over restarts of the agent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::LONG_NEEDS;
use super::fixture::{ProbeEvent, ProbeFixture};
use super::manifest::{exec, grpc, probe};
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
/// Minimum time that an agent runs once it is ready: enough for one run of every probe.
const MIN_LIFE: Duration = Duration::from_millis(1300);
/// Random time in milliseconds that is added to it, at most.
const LONGER_MS: u64 = 700;
/// Seconds between two changes of the server that changes its answer by itself.
const BLINKS_S: f64 = 4.3;
const BLINK: &str = "/blink/4.3";
/// Changes that may be missing in the journal after ten kills.
const MOST_LOST: usize = 3;
const STARTUP: &str = "/ok?startup";
const LATE: &str = "/ok?late";
const DYING: &str = "/file/dying";
/// More failures than there are runs while one agent runs.
const DYING_THRESHOLD: u64 = 6;
/// Milliseconds that the workers keep the CPUs busy: longer than the test may take.
const BUSY_MS: &str = "600000";
/// Number of busy workers.
const WORKERS: usize = 2;

/// While the agent is killed and restarted under load, a container's readiness changes only when its server's
/// answer does, no probe starts over, and failures keep being counted.
fn restarts(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, "journal: {memoryEvents: 100000}")?;
    fixture.program.answer("dying", "/ok")?;
    let pods = [steady(&mut fixture)?, changing(&mut fixture)?];
    fixture.pods.put(pods)?;
    fixture.pods.wait_up("steady")?;
    fixture.wait_notes("changing", "late", "is not probed after its delay", 30, |notes| {
        (requests(notes, LATE) >= 2).then_some(())
    })?;
    let begin = SystemTime::now();
    let before = identities(&fixture, "steady")?;
    let late_runs = requests(&fixture.notes_of("changing", "late"), LATE);
    let busy = (0..WORKERS)
        .map(|_| Worker::start(context, None, &["spin", BUSY_MS]))
        .collect::<Result<Vec<_>, _>>()?;

    let mut dice = Dice::new(u64::from(context.runner()));
    let rounds = context.scaled(ROUNDS);
    for round in 0..rounds {
        if round == rounds / 2 {
            fixture.program.answer("dying", "/bad")?;
        }
        if round % 2 == 0 {
            fixture.pods.kill_agent()?;
        } else {
            fixture.pods.stop_agent();
        }
        // Some agents start at once, some after more than a period.
        std::thread::sleep(Duration::from_millis(dice.roll(4) * 400));
        fixture.pods.start_agent()?;
        let lives = context.scaled([MIN_LIFE, MIN_LIFE * 6]) + Duration::from_millis(dice.roll(LONGER_MS));
        let begun = Instant::now();
        while begun.elapsed() < lives {
            let now = identities(&fixture, "steady")?;
            ensure!(
                now == before,
                "round {round}, {:?} after the agent was ready: {now:?}, before {before:?}",
                begun.elapsed()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    drop(busy);
    check_no_changes(&fixture, "steady", begin)?;
    let Changes { reported: changes, lost } = check_changes(&fixture)?;
    let notes = fixture.notes_of("changing", "late");
    ensure_eq!(requests(&notes, STARTUP), 1, "runs of a startup probe that succeeded before the restarts");
    let runs = requests(&notes, LATE) - late_runs;
    ensure!(
        runs as u64 >= rounds,
        "only {runs} runs in {rounds} rounds of a probe whose delay is longer than a round"
    );
    if context.patience == 1 {
        // No single agent runs long enough for `DYING_THRESHOLD` failures; half of all rounds together do.
        let dying = fixture.pods.pod("changing")?;
        let restarts = dying.as_ref().and_then(|pod| pod.container("dying").ok()).map(|c| c.restarts());
        ensure!(
            restarts >= Some(1),
            "failures were not counted over restarts: a container that fails since round {} was not restarted",
            rounds / 2
        );
    }
    println!(
        "{REPORTED}{rounds} restarts under load: {changes} changes of readiness, each one the server's, {lost} lost by a kill"
    );
    fixture.pods.finish()
}

/// A pod with a container for each handler, whose probes always succeed.
fn steady(fixture: &mut ProbeFixture<'_>) -> Result<Value, Failure> {
    let ports = fixture.ports()?;
    let patient = || fixture.delayed(fixture.patient());
    let both = |handler: Value| json!({ "readinessProbe": probe(handler.clone(), patient()), "livenessProbe": probe(handler, patient()) });
    let mut containers = vec![
        fixture.server("steady", "http", &ports.arguments(), both(fixture.http(ports.http, "/ok"))),
        shell("tcp", STAY, both(fixture.tcp(ports.tcp))),
        shell("exec", STAY, both(exec("exit 0"))),
    ];
    if fixture.own_network() {
        containers.push(shell("grpc", STAY, both(grpc(ports.grpc, ""))));
    }
    Ok(fixture.pod("steady", json!({ "containers": containers })))
}

/// A pod with a server that changes its answer by itself, one with a long delay before its first run, and one
/// that will fail.
fn changing(fixture: &mut ProbeFixture<'_>) -> Result<Value, Failure> {
    let [blinks, late_runs, dying] =
        [fixture.program.port()?, fixture.program.port()?, fixture.program.port()?];
    let containers = json!([
        fixture.http_server("changing", "blinks", blinks, json!({ "readinessProbe": probe(fixture.http(blinks, BLINK), json!({})) })),
        fixture.http_server("changing", "late", late_runs, json!({
            "startupProbe": probe(fixture.http(late_runs, STARTUP), fixture.delayed(fixture.patient())),
            "readinessProbe": probe(fixture.http(late_runs, LATE), json!({ "initialDelaySeconds": 5, "failureThreshold": 3 })),
        })),
        fixture.http_server("changing", "dying", dying, json!({
            "livenessProbe": probe(fixture.http(dying, DYING), fixture.delayed(json!({ "failureThreshold": DYING_THRESHOLD }))),
        })),
    ]);
    Ok(fixture.pod("changing", json!({ "containers": containers })))
}

/// How many requests for this path the server has noted.
fn requests(notes: &[Noted], path: &str) -> usize {
    notes.iter().filter(|note| note.path == path).count()
}

/// By container: its id, how often it was restarted, and whether it is started and ready.
type Identities = BTreeMap<String, (String, u64, Value, Value)>;

fn identities(fixture: &ProbeFixture<'_>, pod: &str) -> Result<Identities, Failure> {
    let seen = fixture.pods.pod(pod)?.ok_or_else(|| Failure::Unexpected(format!("no pod {pod}")))?;
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

/// Checks that the journal has only single failures of a pod's probes since then, which happen on a busy
/// machine.
fn check_no_changes(fixture: &ProbeFixture<'_>, pod: &str, since: SystemTime) -> Result<(), Failure> {
    let reported = fixture.events(pod)?;
    let changes: Vec<_> = reported
        .iter()
        .filter(|event| event.at > since)
        .filter(|event| {
            event.reason == "Healthy" || (event.reason == "Unhealthy" && !event.message.contains("(1 of "))
        })
        .collect();
    ensure!(changes.is_empty(), "changes of pod {pod}, whose servers never changed: {changes:?}");
    Ok(())
}

/// Checks that each change in the journal follows an answer of the server. Returns the number of changes.
fn check_changes(fixture: &ProbeFixture<'_>) -> Result<Changes, Failure> {
    let blinks = || -> Result<Vec<Noted>, Failure> {
        Ok(fixture.notes_of("changing", "blinks").into_iter().filter(|note| note.path == BLINK).collect())
    };
    let reported = fixture.events_of("changing", "blinks", &["Healthy", "Unhealthy"])?;
    let changes = compare_changes(&reported, &blinks()?).map_err(Failure::Unexpected)?;
    ensure!(changes.lost <= MOST_LOST, "{} changes are not in the journal: {reported:?}", changes.lost);
    let minimum = (fixture.context().scaled([20.0, 6.0]) / BLINKS_S) as usize;
    ensure!(
        changes.reported >= minimum,
        "only {changes:?} of a container that changes every {BLINKS_S} s: {reported:?}"
    );
    // No change is missed either: readiness agrees with the last answer.
    eventually(fixture.context().patiently(10), "readiness does not agree with the last answer", || {
        let last = blinks()?.last().map(|note| note.answer == "200");
        let seen = fixture.pods.pod("changing")?;
        let ready = seen.as_ref().and_then(|pod| pod.container("blinks").ok()).map(|c| c.0["ready"] == true);
        Ok((last == ready).then_some(()))
    })?;
    Ok(changes)
}

/// Goes through the changes in order: each must differ from the previous one, and the server must have
/// answered so since. A change in between may be missing where the agent was killed: the journal is written
/// to disk some milliseconds after the result is in the pod's record.
fn compare_changes(reported: &[ProbeEvent], answered: &[Noted]) -> Result<Changes, String> {
    let mut changed: Option<(bool, SystemTime)> = None;
    let mut changes = Changes::default();
    for change in reported {
        let ready = change.reason == "Healthy";
        // It starts unready: a failure before the first success (a server that does not listen yet) is no
        // change.
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
                return Err(format!("reported twice: {change:?}"));
            }
            changes.lost += 1;
        }
        if !has_answered(ready) {
            return Err(format!("the server had not answered so since the previous change: {change:?}"));
        }
        changed = Some((ready, change.at));
        changes.reported += 1;
    }
    Ok(changes)
}

/// Numbers of changes: in the journal, and lost in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Changes {
    reported: usize,
    lost: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_change_without_an_answer_before_it_is_an_error() {
        let reported = |seconds, reason: &str| ProbeEvent {
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
        let good = [reported(2, "Healthy"), reported(4, "Unhealthy"), reported(8, "Healthy")];
        let all = |reported, lost| Ok(Changes { reported, lost });
        assert_eq!(compare_changes(&good, &answers), all(3, 0));
        // A change before its answer, one too many, and one by an agent that started over.
        assert_eq!(compare_changes(&[reported(1, "Unhealthy"), reported(2, "Healthy")], &answers), all(1, 0));
        assert!(compare_changes(&[reported(2, "Healthy"), reported(2, "Unhealthy")], &answers).is_err());
        assert!(compare_changes(&[reported(2, "Healthy"), reported(8, "Healthy")], &answers[..1]).is_err());
        // The one in between is missing.
        assert_eq!(compare_changes(&[reported(2, "Healthy"), reported(8, "Healthy")], &answers), all(2, 1));
        assert!(compare_changes(&[reported(4, "Unhealthy"), reported(6, "Healthy")], &answers[1..]).is_err());
    }
}
