//! Quiet runs, and when periodic runs begin.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_config::Endpoint;
use nodewarden_cri::SharedList;
use nodewarden_cri::runtime_fixture::{self, FakeRuntime};
use nodewarden_model::{ContainerState, ContainerView, GcSettings};
use nodewarden_pods::log_owner;
use nodewarden_pods::source::SourcedPod;
use nodewarden_pods::status::DesiredPods;
use nodewarden_proto::runtime::v1 as cri;
use nodewarden_tasks::parts;
use serde_json::json;
use tokio::time::Instant;
use tonic::Status;

use crate::fixture::views::{at, container, pod, sandbox, view, waiting};
use crate::fixture::{CAPACITY, Fixture, State, settings};
use crate::periodic::Cause;
use crate::sweep::When;
use cri::ContainerState::{ContainerExited as EXITED, ContainerRunning as RUNNING};

fn wanted(uids: &[&str]) -> DesiredPods {
    let sourced = |uid: &&str| SourcedPod::new(pod(uid, json!([])), "/manifests/p.yaml");
    DesiredPods { pods: uids.iter().map(sourced).collect(), complete: true }
}

/// After a whole run that had nothing to do.
async fn idle() -> Fixture {
    let mut state = State::default();
    state.image("i", &[(1, 1)]);
    let fixture = Fixture::starting(state, &settings());
    fixture.board.set_desired(wanted(&["u"]));
    start(&fixture, "u", "c");
    fixture.collector.run_once(When::Now).await;
    fixture
}

/// Makes logs of a pod that is gone, which a whole run removes.
fn orphan(fixture: &Fixture) -> PathBuf {
    let logs = fixture.dir.path().join("logs/shop_old_old");
    std::fs::create_dir_all(&logs).unwrap();
    log_owner::mark(&logs, "me").unwrap();
    logs
}

/// Whether a run with the runtime's list scans the logs.
async fn is_whole(fixture: &Fixture) -> bool {
    let logs = orphan(fixture);
    let listing = Arc::new(fixture.runtime.state().listing.clone());
    fixture.collector.run_with(listing).await;
    !logs.exists()
}

#[tokio::test(start_paused = true)]
async fn a_quiet_run_looks_at_images_alone() {
    let fixture = idle().await;
    fixture.runtime.state().image("new", &[(2, 1)]);
    assert!(!is_whole(&fixture).await);
    assert!(fixture.collector.0.uses().get("new").is_some());
    // Images are collected too: the disk is full, and no pod uses one of them.
    fixture.runtime.state().other = CAPACITY / 10 * 9;
    assert!(!is_whole(&fixture).await);
    assert_eq!(fixture.runtime.state().removed, ["new"]);
}

#[tokio::test(start_paused = true)]
async fn each_condition_makes_a_run_whole() {
    type Change = fn(&Fixture);
    let changes: [(&str, Change); 9] = [
        ("a container has ended", |f| f.runtime.state().listing.containers[0].state = EXITED.into()),
        ("a sandbox is not ready", |f| f.runtime.state().listing.sandboxes[0] = sandbox("s", "u", 0, false)),
        ("another container", |f| f.runtime.state().listing.containers[0].id = "d".into()),
        ("a container is gone", |f| f.runtime.state().listing.containers.clear()),
        ("another sandbox", |f| f.runtime.state().listing.sandboxes.push(sandbox("t", "u", 1, true))),
        ("another pod is wanted", |f| f.board.set_desired(wanted(&["u", "v"]))),
        ("none is wanted", |f| f.board.set_desired(wanted(&[]))),
        ("a pod is gone", |f| f.board.remove("u")),
        ("a run that was asked for", |f| f.collector.0.changes_something()),
    ];
    for (what, change) in changes {
        let fixture = idle().await;
        assert!(!is_whole(&fixture).await, "before: {what}");
        std::fs::remove_dir_all(fixture.dir.path().join("logs")).unwrap();
        change(&fixture);
        assert!(is_whole(&fixture).await, "{what}");
    }
}

/// A pod with one container that runs for the first time, in a sandbox of its own.
fn start(fixture: &Fixture, uid: &str, id: &str) {
    let mut state = fixture.runtime.state();
    state.listing.containers.push(container(id, uid, "main", 0, RUNNING));
    state.listing.sandboxes.push(sandbox(&format!("s-{uid}"), uid, 0, true));
    let main = ContainerView { state: ContainerState::Running { since: at(0) }, ..waiting("main", id, None) };
    fixture.board.set((*view(pod(uid, json!([])), vec![main])).clone());
}

#[tokio::test(start_paused = true)]
async fn pods_that_have_started_since_the_last_run_do_not_make_one_whole() {
    type Change = fn(&Fixture);
    let changes: [(&str, bool, Change); 7] = [
        ("nothing else", false, |_| {}),
        ("another pod came and went", true, |f| {
            start(f, "w", "e");
            f.board.remove("w");
            f.runtime.state().listing.containers.retain(|container| container.id != "e");
            f.runtime.state().listing.sandboxes.retain(|sandbox| sandbox.id != "s-w");
        }),
        ("a container without a pod", true, |f| {
            f.runtime.state().listing.containers.push(container("x", "x", "main", 0, RUNNING));
        }),
        ("a second sandbox", true, |f| f.runtime.state().listing.sandboxes.push(sandbox("t", "v", 1, true))),
        ("a container has ended", true, |f| f.runtime.state().listing.containers[1].state = EXITED.into()),
        ("a pod is not wanted", true, |f| f.board.set_desired(wanted(&["u"]))),
        ("another one is wanted", true, |f| f.board.set_desired(wanted(&["u", "w"]))),
    ];
    for (what, whole, change) in changes {
        let fixture = Fixture::starting(State::default(), &settings());
        fixture.board.set_desired(wanted(&["u"]));
        start(&fixture, "u", "c");
        fixture.collector.run_once(When::Now).await;
        start(&fixture, "v", "d");
        fixture.board.set_desired(wanted(&["u", "v"]));
        change(&fixture);
        assert_eq!(is_whole(&fixture).await, whole, "{what}");
        tokio::time::advance(Duration::from_secs(30 * 60 + 1)).await;
        assert!(is_whole(&fixture).await, "all logs are looked at each half an hour: {what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_left_something_or_failed_or_is_long_ago_is_followed_by_a_whole_one() {
    let fixture = idle().await;
    tokio::time::advance(Duration::from_secs(30 * 60 + 1)).await;
    assert!(is_whole(&fixture).await, "long ago");
    assert!(is_whole(&fixture).await, "logs were removed");
    std::fs::remove_dir_all(fixture.dir.path().join("logs")).unwrap();
    fixture.collector.run_once(When::Now).await;
    assert!(!is_whole(&fixture).await);
    let fixture = idle().await;
    fixture.runtime.state().unavailable = true;
    fixture.collector.run_once(When::Now).await;
    fixture.runtime.state().unavailable = false;
    assert!(is_whole(&fixture).await, "the runtime did not answer");
    let fixture = idle().await;
    // Its pod's worker still needs it.
    fixture.runtime.state().listing.containers[0].state = EXITED.into();
    fixture.collector.run_once(When::Now).await;
    assert!(fixture.runtime.state().removed.is_empty() && fixture.collector.0.idle.lock().is_some());
    assert!(is_whole(&fixture).await, "a dead container may become due by time alone");
}

/// Logs of runs that the runtime does not know, of a pod whose containers all run for the first time.
#[tokio::test(start_paused = true)]
async fn the_logs_of_first_runs_are_looked_at_each_half_an_hour() {
    let fixture = idle().await;
    let state = ContainerState::Running { since: at(0) };
    let main = ContainerView { state, ..waiting("main", "c", None) };
    let pod = pod("u", json!([]));
    fixture.board.set((*view(pod.clone(), vec![main.clone()])).clone());
    let log = fixture.dir.path().join("logs/shop_u_u/main/7.log");
    let run_finds_it = async || {
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(&log, "").unwrap();
        fixture.collector.run_once(When::Shared).await;
        !log.exists()
    };
    tokio::time::advance(Duration::from_secs(20 * 60)).await;
    assert!(!run_finds_it().await, "left out");
    tokio::time::advance(Duration::from_secs(10 * 60 + 1)).await;
    assert!(run_finds_it().await, "half an hour after the start");
    assert!(!run_finds_it().await, "a moment after that");
    let restarted = ContainerView { restarts: 1, ..main };
    fixture.board.set((*view(pod, vec![restarted])).clone());
    assert!(run_finds_it().await, "a container was restarted");
}

/// A list that others asked for is old by then.
#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_another_one_is_whole() {
    let fixture = idle().await;
    let logs = orphan(&fixture);
    let other = fixture.collector.0.run_lock.lock().await;
    let listing = Arc::new(fixture.runtime.state().listing.clone());
    let run = tokio::spawn({
        let collector = fixture.collector.clone();
        async move { collector.run_with(listing).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(other);
    run.await.unwrap();
    assert!(!logs.exists());
}

/// A runtime that has nothing.
struct Empty;

#[tonic::async_trait]
impl FakeRuntime for Empty {
    async fn list_pod_sandbox(
        &self,
        _: cri::ListPodSandboxRequest,
    ) -> Result<cri::ListPodSandboxResponse, Status> {
        Ok(cri::ListPodSandboxResponse::default())
    }

    async fn list_containers(
        &self,
        _: cri::ListContainersRequest,
    ) -> Result<cri::ListContainersResponse, Status> {
        Ok(cri::ListContainersResponse::default())
    }
}

#[tokio::test]
async fn a_run_begins_with_a_list_of_another_part_by_time_or_because_of_pressure() {
    let dir = tempfile::tempdir().unwrap();
    let client = runtime_fixture::serve(Empty, &dir.path().join("cri.sock"));
    let list = SharedList::new(client.endpoint(), Duration::from_secs(5));
    let minute = GcSettings { period: Duration::from_secs(60), ..settings() };
    let fixture = Fixture::with(State::default(), &minute, Some(list.clone()));
    let inner = &fixture.collector.0;
    let long_ago = Instant::now().checked_sub(minute.period).expect("a machine that runs for a minute");
    let (cause, listing) = tokio::join!(inner.next_cause(long_ago), list.list());
    let Cause::List(own) = cause else { panic!("{cause:?}") };
    assert!(Arc::ptr_eq(&own, &listing.unwrap()));
    let early = async {
        list.list().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        fixture.collector.pressure();
    };
    let (cause, ()) = tokio::join!(inner.next_cause(Instant::now()), early);
    assert!(matches!(cause, Cause::Pressure), "the list comes too early: {cause:?}");
    let short = GcSettings { period: Duration::from_millis(100), ..settings() };
    let alone = Fixture::with(State::default(), &short, None);
    let observes = Fixture::in_mode(false, State::default(), &short, Some(list.clone()));
    let begun = Instant::now();
    for asks_alone in [alone, observes] {
        assert!(matches!(asks_alone.collector.0.next_cause(begun).await, Cause::Time));
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let waits = Fixture::with(State::default(), &short, Some(list));
    let cause = tokio::time::timeout(Duration::from_secs(1), waits.collector.0.next_cause(begun)).await;
    assert!(cause.is_err(), "others come first: {cause:?}");
}

#[tokio::test(start_paused = true)]
async fn by_time_no_run_follows_right_after_one_that_a_list_began() {
    let settings = GcSettings { period: Duration::from_secs(300), ..settings() };
    let alone = Fixture::with(State::default(), &settings, None);
    // The current period ends 300 s from now: that is ten seconds after the last run.
    for (last, seconds) in [(290, 600), (0, 300)] {
        let now = Instant::now();
        let cause = alone.collector.0.next_cause(now + Duration::from_secs(last)).await;
        assert!(matches!(cause, Cause::Time), "{cause:?}");
        assert_eq!(now.elapsed().as_secs(), seconds);
    }
}

/// The run then asks again, and reports that it fails.
#[tokio::test]
async fn a_list_of_another_part_that_fails_begins_a_run_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::parse(&dir.path().join("none.sock").to_string_lossy()).unwrap();
    let list = SharedList::new(&endpoint, Duration::from_secs(5));
    let minute = GcSettings { period: Duration::from_secs(60), ..settings() };
    let fixture = Fixture::with(State::default(), &minute, Some(list.clone()));
    let long_ago = Instant::now().checked_sub(minute.period).expect("a machine that runs for a minute");
    let soon = tokio::time::timeout(Duration::from_secs(5), fixture.collector.0.next_cause(long_ago));
    let (cause, listing) = tokio::join!(soon, list.list());
    assert!(matches!(cause, Ok(Cause::Time)) && listing.is_err(), "{cause:?}");
}

#[tokio::test]
async fn the_list_of_another_part_makes_the_periodic_runs_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let client = runtime_fixture::serve(Empty, &dir.path().join("cri.sock"));
    let list = SharedList::new(client.endpoint(), Duration::from_secs(5));
    // By the time alone the next run would begin four seconds later.
    let often = GcSettings { period: Duration::from_secs(1), ..settings() };
    let fixture = Fixture::with(State::default(), &often, Some(list.clone()));
    fixture.board.set_desired(wanted(&[]));
    let collector = fixture.collector.clone();
    let part = parts::register("garbage collection of a test", Duration::from_secs(60));
    let runs = part.task_with(|pulse| async move { collector.run_periodically(&pulse).await });
    let runs = tokio::spawn(runs);
    let inner = &fixture.collector.0;
    let begun = Instant::now();
    while inner.idle.lock().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(5), "the first run");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let first = Instant::now();
    let logs = orphan(&fixture);
    fixture.runtime.state().image("new", &[(1, 1)]);
    while inner.uses().get("new").is_none() {
        assert!(first.elapsed() < Duration::from_secs(3), "a run because of the list");
        list.list().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(logs.exists(), "a quiet one");
    runs.abort();
}
