//! Runs for images.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use nodewarden_model::{Detail, GcOutcome, GcSettings, GcStep, Keep, Used};
use nodewarden_pods::source::SourcedPod;
use nodewarden_pods::status::DesiredPods;
use serde_json::json;
use tokio::sync::mpsc;

use crate::GcError;
use crate::fixture::views::{pod, view};
use crate::fixture::{CAPACITY, Fixture, MB, State, settings};

/// 900 of 1,000 MB: ten images of 60 MB, of which each two share 30 MB, and 450 MB of other data.
fn full() -> State {
    let mut state = State { other: 450 * MB, ..State::default() };
    for n in 0..10 {
        state.image(&format!("i{n}"), &[(n, 30), (100 + n / 2, 30)]);
    }
    state
}

async fn collect(fixture: &Fixture, dry: bool) -> (Result<GcOutcome, GcError>, Vec<GcStep>) {
    let (steps, mut taken) = mpsc::unbounded_channel();
    let outcome = fixture.collector.collect(dry, steps).await;
    let mut all = Vec::new();
    while let Ok(step) = taken.try_recv() {
        all.push(step);
    }
    (outcome, all)
}

async fn events(fixture: &Fixture) -> Vec<String> {
    let mut stream = fixture.journal.subscribe(Some(Timestamp::UNIX_EPOCH));
    let mut events = Vec::new();
    for _ in 0..fixture.journal.stats().events {
        events.push(match &stream.next().await.unwrap().detail {
            Detail::Agent { reason, message } => format!("{reason}: {message}"),
            other => format!("{other:?}"),
        });
    }
    events
}

#[tokio::test(start_paused = true)]
async fn images_are_removed_down_to_the_low_threshold() {
    let fixture = Fixture::new(full(), &settings());
    assert_eq!(fixture.percent(), 90.0);
    let (outcome, steps) = collect(&fixture, false).await;
    // A pair frees 90 MB, 30 of it with the first image and 60 with the second.
    assert_eq!(fixture.percent(), 78.0);
    assert_eq!(fixture.runtime.state().removed.len(), 3);
    let freed: Vec<_> = steps.iter().map(|step| (step.what, step.freed.unwrap() / MB)).collect();
    assert_eq!(freed, [("image", 30), ("image", 60), ("image", 30)]);
    assert!(steps.iter().all(|step| step.error.is_empty() && !step.dry), "{steps:?}");
    assert_eq!(outcome.unwrap(), GcOutcome { wanted: 100 * MB, freed: 120 * MB, reached: true });
    // Nothing is due any more.
    let (outcome, steps) = collect(&fixture, false).await;
    assert_eq!((outcome.unwrap(), steps.len()), (GcOutcome { wanted: 0, freed: 0, reached: true }, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_removes_nothing() {
    let fixture = Fixture::new(full(), &settings());
    let (outcome, steps) = collect(&fixture, true).await;
    assert_eq!(outcome.unwrap().wanted, 100 * MB);
    // By their sizes two are enough; that they share layers only shows when they are removed.
    assert_eq!(
        steps.iter().map(|step| (step.id.as_str(), step.dry)).collect::<Vec<_>>(),
        [("i0", true), ("i1", true)]
    );
    assert_eq!((fixture.percent(), events(&fixture).await.len()), (90.0, 0));
    let view = fixture.collector.view().await;
    assert_eq!((view.problem.as_str(), view.wanted), ("", 100 * MB));
    let shown: Vec<_> = view.images.iter().map(|image| (image.image.id.as_str(), image.keep)).collect();
    assert_eq!(shown[..3], [("i0", None), ("i1", None), ("i2", Some(Keep::NotNeeded))]);
    assert_eq!(shown.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn used_images_are_kept_and_shown_with_their_users() {
    let mut state = full();
    state.run("c", "i0");
    state.image("pause", &[(500, 1)]);
    state.pinned.insert("i1".into());
    let fixture = Fixture::new(state, &settings());
    let pod = pod("u", json!([{"name": "c", "image": "i2:1"}, {"name": "d", "image": "not-there"}]));
    let sourced = SourcedPod::new(pod.clone(), "/manifests/p.yaml");
    fixture.board.set_desired(DesiredPods { pods: [sourced].into(), complete: true });
    fixture.board.set((*view(pod, Vec::new())).clone());
    let shown = fixture.collector.view().await;
    let keep = |id: &str| shown.images.iter().find(|image| image.image.id == id).unwrap();
    assert_eq!(keep("i0").keep, Some(Keep::InUse(Used::Container)));
    assert_eq!(keep("i1").keep, Some(Keep::InUse(Used::Pinned)));
    assert_eq!(keep("pause").keep, Some(Keep::InUse(Used::Sandbox)));
    assert_eq!(keep("i2").keep, Some(Keep::InUse(Used::Manifest)));
    assert_eq!(keep("i2").users, ["manifest /manifests/p.yaml: shop/u/c"], "listed once");
    assert_eq!(fixture.runtime.state().asked, ["not-there"], "the runtime may know it by another name");
    assert_eq!(fixture.collector.delete_unused_images().await.unwrap(), (7 * 30 + 3 * 30) * MB);
    let left: Vec<_> = fixture.runtime.state().images.keys().cloned().collect();
    assert_eq!(left, ["i0", "i1", "i2", "pause"]);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_gets_used_during_the_run_is_kept() {
    let fixture = Fixture::new(full(), &settings());
    fixture.runtime.before_removal(|state, id| {
        if id == "i0" {
            state.run("late", "i1");
        }
    });
    let hold = fixture.holds.hold("docker.io/library/i2:1").await;
    collect(&fixture, false).await.0.unwrap();
    let removed = fixture.runtime.state().removed.clone();
    assert!(!removed.contains(&"i1".to_owned()) && !removed.contains(&"i2".to_owned()), "{removed:?}");
    assert!(fixture.percent() <= 80.0);
    drop(hold);
}

#[tokio::test(start_paused = true)]
async fn failures_do_not_end_the_run() {
    let mut state = full();
    state.fails = ["i0", "i3", "i6"].map(String::from).into();
    // Its call ends at the limit of 120 s.
    state.hangs = ["i1".to_owned()].into();
    let fixture = Fixture::new(state, &settings());
    let (outcome, steps) = collect(&fixture, false).await;
    assert!(outcome.unwrap().reached && fixture.percent() <= 80.0);
    let failed: Vec<_> =
        steps.iter().filter(|step| !step.error.is_empty()).map(|step| step.id.as_str()).collect();
    assert_eq!(failed, ["i0", "i1", "i3"]);
    // The first failure is only logged.
    assert_eq!(events(&fixture).await.len(), 1, "{:?}", events(&fixture).await);
}

#[tokio::test(start_paused = true)]
async fn freeing_too_little_is_an_event_with_wanted_and_freed_bytes() {
    let mut state = full();
    for n in 2..10 {
        state.run(&format!("c{n}"), &format!("i{n}"));
    }
    let fixture = Fixture::new(state, &settings());
    let outcome = collect(&fixture, false).await.0.unwrap();
    assert_eq!(outcome, GcOutcome { wanted: 100 * MB, freed: 90 * MB, reached: false });
    let event = events(&fixture).await.pop().unwrap();
    let expected = format!("Attempted to free {} bytes, but only found {} bytes", 100 * MB, 90 * MB);
    assert!(event.starts_with("FreeDiskSpaceFailed: ") && event.contains(&expected), "{event}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_stops_ends_the_run_and_the_next_completes_it() {
    let fixture = Fixture::new(full(), &settings());
    fixture.runtime.before_removal(|state, id| state.unavailable = id == "i0");
    let (outcome, steps) = collect(&fixture, false).await;
    assert!(matches!(outcome, Err(GcError::Runtime(_))), "{outcome:?}");
    assert!(!steps.is_empty() && fixture.percent() > 80.0);
    assert!(!fixture.collector.view().await.problem.is_empty());
    fixture.runtime.state().unavailable = false;
    assert!(collect(&fixture, false).await.0.unwrap().reached);
    assert!(fixture.percent() <= 80.0);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_off_is_completed_by_the_next() {
    let fixture = Fixture::new(full(), &settings());
    let cut = tokio::time::timeout(Duration::from_millis(5), collect(&fixture, false)).await;
    assert!(cut.is_err() && fixture.percent() == 90.0);
    // The removal in progress ended with its call.
    assert_eq!(std::mem::take(&mut fixture.runtime.state().removing), 1);
    assert!(collect(&fixture, false).await.0.unwrap().reached);
    assert!(fixture.percent() <= 80.0);
}

#[tokio::test(start_paused = true)]
async fn a_run_shows_that_it_gets_on() {
    let fixture = Fixture::new(full(), &settings());
    assert_eq!(fixture.collector.removals(), 0);
    fixture.collector.delete_unused_images().await.unwrap();
    assert_eq!(fixture.collector.removals(), 10);
}

#[tokio::test(start_paused = true)]
async fn never_two_runs_at_once() {
    let fixture = Fixture::new(full(), &settings());
    let (first, second) = tokio::join!(collect(&fixture, false), fixture.collector.delete_unused_images());
    // The fake runtime panics if two removals overlap.
    assert!(first.0.is_ok() && second.is_ok());
    assert!(fixture.runtime.state().images.is_empty());
}

#[tokio::test(start_paused = true)]
async fn collection_for_space_can_be_off_and_still_works_for_eviction() {
    let off = GcSettings { high_percent: 100, low_percent: 80, ..settings() };
    let fixture = Fixture::new(full(), &off);
    assert_eq!(collect(&fixture, false).await.0.unwrap(), GcOutcome { wanted: 0, freed: 0, reached: true });
    assert_eq!(fixture.percent(), 90.0);
    assert_eq!(fixture.collector.delete_unused_images().await.unwrap(), 450 * MB);
    let fs = fixture.collector.file_systems().await.unwrap();
    assert_eq!((fs.image.available, fs.container), (CAPACITY - 450 * MB, fs.image));
}

/// Eviction collects at each reading on which a disk is short: what was pulled a moment ago stays for its
/// containers and everything else goes, so that the next call has nothing to do and a pod is evicted.
#[tokio::test(start_paused = true)]
async fn young_images_are_kept_for_eviction_too() {
    let aged = GcSettings { min_age: Duration::from_secs(2), ..settings() };
    let fixture = Fixture::new(full(), &aged);
    let left = || fixture.runtime.state().images.keys().cloned().collect::<Vec<_>>();
    assert_eq!(fixture.collector.delete_unused_images().await.unwrap(), 0, "all are new to this agent");
    assert_eq!(left().len(), 10);
    // Ages go by the wall clock.
    std::thread::sleep(Duration::from_millis(2100));
    fixture.runtime.state().image("pulled", &[(600, 10)]);
    assert_eq!(fixture.collector.delete_unused_images().await.unwrap(), 450 * MB);
    assert_eq!(left(), ["pulled"]);
    assert_eq!(fixture.collector.delete_unused_images().await.unwrap(), 0);
    let shown = fixture.collector.view().await;
    assert_eq!(shown.images.iter().map(|image| image.keep).collect::<Vec<_>>(), [Some(Keep::Young)]);
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(fixture.collector.delete_unused_images().await.unwrap(), 10 * MB);
}

/// `nodefs` needs no answer of the runtime, whose file system is read where it last was.
#[tokio::test]
async fn file_systems_are_read_while_the_runtime_is_silent() {
    let fixture = Fixture::new(full(), &settings());
    let events = || fixture.journal.stats().appended;
    let silent = |hangs: bool| {
        let hanging = hangs.then(|| "ImageFsInfo".to_owned());
        fixture.runtime.state().hangs = hanging.into_iter().collect();
    };
    silent(true);
    for round in 0..3 {
        let begun = Instant::now();
        let fs = fixture.collector.file_systems().await.unwrap();
        assert_eq!((fs.node.capacity, fs.image.capacity, fs.container.capacity), (CAPACITY, 0, 0));
        assert_eq!(fs.image.device, fs.node.device);
        // Only the first one waits for the answer.
        assert!(
            begun.elapsed() < Duration::from_secs(if round == 0 { 4 } else { 1 }),
            "{:?}",
            begun.elapsed()
        );
    }
    assert_eq!(events(), 1, "reported once");

    let fixture = Fixture::new(full(), &settings());
    let known = fixture.collector.file_systems().await.unwrap();
    assert_eq!((known.image.capacity, known.image.device, known.image.used), (CAPACITY, 2, Some(7)));
    fixture.runtime.state().hangs = ["ImageFsInfo".to_owned()].into();
    let silent = fixture.collector.file_systems().await.unwrap();
    assert_eq!((silent.image.capacity, silent.image.device, silent.image.used), (CAPACITY, 2, None));
    fixture.runtime.state().unavailable = true;
    let other = fixture.collector.file_systems().await.unwrap();
    assert_eq!(other, silent, "the earlier question is still open");

    let fixture = Fixture::new(full(), &settings());
    fixture.runtime.state().unavailable = true;
    let fs = fixture.collector.file_systems().await.unwrap();
    assert_eq!((fs.node.capacity, fs.image.capacity), (CAPACITY, 0), "a refusal is known at once");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_removed_before_the_pods_are_known() {
    let fixture = Fixture::starting(full(), &settings());
    assert!(matches!(collect(&fixture, false).await.0, Err(GcError::NotReady)));
    assert!(matches!(fixture.collector.delete_unused_images().await, Err(GcError::NotReady)));
    assert!(matches!(fixture.collector.delete_all_unused_containers().await, Err(GcError::NotReady)));
    assert_eq!(fixture.percent(), 90.0);
}
