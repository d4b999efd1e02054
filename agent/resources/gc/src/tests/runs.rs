//! Runs for images.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;

use super::views::{pod, view};
use super::world::{CAPACITY, MB, Node, State, settings};
use crate::GcError;
use nodewarden_model::GcSettings;
use nodewarden_model::{Detail, GcOutcome, GcStep};
use nodewarden_model::{Keep, Used};
use nodewarden_pods::source::Sourced;
use nodewarden_pods::status::Wanted;

/// 900 of 1,000 MB: ten images of 60 MB that share 30 of it by twos, and 450 MB of something else.
fn full() -> State {
    let mut state = State { other: 450 * MB, ..State::default() };
    for n in 0..10 {
        state.image(&format!("i{n}"), &[(n, 30), (100 + n / 2, 30)]);
    }
    state
}

async fn collect(node: &Node, dry: bool) -> (Result<GcOutcome, GcError>, Vec<GcStep>) {
    let (steps, mut taken) = mpsc::unbounded_channel();
    let outcome = node.collector.collect(dry, steps).await;
    let mut told = Vec::new();
    while let Ok(step) = taken.try_recv() {
        told.push(step);
    }
    (outcome, told)
}

async fn events(node: &Node) -> Vec<String> {
    let mut told = node.journal.subscribe(Some(Timestamp::UNIX_EPOCH));
    let mut events = Vec::new();
    for _ in 0..node.journal.stats().events {
        events.push(match &told.next().await.unwrap().detail {
            Detail::Agent { reason, message } => format!("{reason}: {message}"),
            other => format!("{other:?}"),
        });
    }
    events
}

#[tokio::test(start_paused = true)]
async fn down_to_the_low_threshold_and_no_further() {
    let node = Node::new(full(), &settings());
    assert_eq!(node.percent(), 90.0);
    let (outcome, steps) = collect(&node, false).await;
    // A pair gives back 90 MB, 30 of it with the first one and 60 with the second.
    assert_eq!(node.percent(), 78.0);
    assert_eq!(node.world.state().removed.len(), 3);
    let freed: Vec<_> = steps.iter().map(|step| (step.what, step.freed.unwrap() / MB)).collect();
    assert_eq!(freed, [("image", 30), ("image", 60), ("image", 30)]);
    assert!(steps.iter().all(|step| step.error.is_empty() && !step.dry), "{steps:?}");
    assert_eq!(outcome.unwrap(), GcOutcome { wanted: 100 * MB, freed: 120 * MB, reached: true });
    // Nothing is due now.
    let (outcome, steps) = collect(&node, false).await;
    assert_eq!((outcome.unwrap(), steps.len()), (GcOutcome { wanted: 0, freed: 0, reached: true }, 0));
}

#[tokio::test(start_paused = true)]
async fn a_plan_removes_nothing() {
    let node = Node::new(full(), &settings());
    let (outcome, steps) = collect(&node, true).await;
    assert_eq!(outcome.unwrap().wanted, 100 * MB);
    // By their sizes two are enough; what they share shows when they go.
    assert_eq!(
        steps.iter().map(|step| (step.id.as_str(), step.dry)).collect::<Vec<_>>(),
        [("i0", true), ("i1", true)]
    );
    assert_eq!((node.percent(), events(&node).await.len()), (90.0, 0));
    let view = node.collector.view().await;
    assert_eq!((view.problem.as_str(), view.wanted), ("", 100 * MB));
    let shown: Vec<_> = view.images.iter().map(|image| (image.image.id.as_str(), image.keep)).collect();
    assert_eq!(shown[..3], [("i0", None), ("i1", None), ("i2", Some(Keep::NotNeeded))]);
    assert_eq!(shown.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn what_is_used_stays_and_is_shown() {
    let mut state = full();
    state.run("c", "i0");
    state.image("pause", &[(500, 1)]);
    state.pinned.insert("i1".into());
    let node = Node::new(state, &settings());
    let pod = pod("u", json!([{"name": "c", "image": "i2:1"}, {"name": "d", "image": "not-there"}]));
    let sourced = Sourced { pod: pod.clone(), origin: "/manifests/p.yaml".into() };
    node.board.want(Wanted { pods: [sourced].into(), whole: true });
    node.board.show((*view(pod, Vec::new())).clone());
    let shown = node.collector.view().await;
    let keep = |id: &str| shown.images.iter().find(|image| image.image.id == id).unwrap();
    assert_eq!(keep("i0").keep, Some(Keep::InUse(Used::Container)));
    assert_eq!(keep("i1").keep, Some(Keep::InUse(Used::Pinned)));
    assert_eq!(keep("pause").keep, Some(Keep::InUse(Used::Sandbox)));
    assert_eq!(keep("i2").keep, Some(Keep::InUse(Used::Manifest)));
    assert_eq!(keep("i2").users, ["manifest /manifests/p.yaml: shop/u/c"], "told once");
    assert_eq!(node.world.state().asked, ["not-there"], "the runtime may know it by another name");
    assert_eq!(node.collector.delete_unused_images().await.unwrap(), (7 * 30 + 3 * 30) * MB);
    let left: Vec<_> = node.world.state().images.keys().cloned().collect();
    assert_eq!(left, ["i0", "i1", "i2", "pause"]);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_gets_used_on_the_way_stays() {
    let node = Node::new(full(), &settings());
    node.world.before_removal(|state, id| {
        if id == "i0" {
            state.run("late", "i1");
        }
    });
    let hold = node.holds.hold("docker.io/library/i2:1").await;
    collect(&node, false).await.0.unwrap();
    let removed = node.world.state().removed.clone();
    assert!(!removed.contains(&"i1".to_owned()) && !removed.contains(&"i2".to_owned()), "{removed:?}");
    assert!(node.percent() <= 80.0);
    drop(hold);
}

#[tokio::test(start_paused = true)]
async fn failures_do_not_end_the_run() {
    let mut state = full();
    state.fails = ["i0", "i3", "i6"].map(String::from).into();
    // Its call ends after the limit of 120 s.
    state.hangs = ["i1".to_owned()].into();
    let node = Node::new(state, &settings());
    let (outcome, steps) = collect(&node, false).await;
    assert!(outcome.unwrap().reached && node.percent() <= 80.0);
    let failed: Vec<_> =
        steps.iter().filter(|step| !step.error.is_empty()).map(|step| step.id.as_str()).collect();
    assert_eq!(failed, ["i0", "i1", "i3"]);
    // The first failure is in the log only.
    assert_eq!(events(&node).await.len(), 1, "{:?}", events(&node).await);
}

#[tokio::test(start_paused = true)]
async fn too_little_is_told_with_what_was_wanted_and_freed() {
    let mut state = full();
    for n in 2..10 {
        state.run(&format!("c{n}"), &format!("i{n}"));
    }
    let node = Node::new(state, &settings());
    let outcome = collect(&node, false).await.0.unwrap();
    assert_eq!(outcome, GcOutcome { wanted: 100 * MB, freed: 90 * MB, reached: false });
    let told = events(&node).await.pop().unwrap();
    let expected = format!("Attempted to free {} bytes, but only found {} bytes", 100 * MB, 90 * MB);
    assert!(told.starts_with("FreeDiskSpaceFailed: ") && told.contains(&expected), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_goes_away_ends_the_run_and_the_next_completes_it() {
    let node = Node::new(full(), &settings());
    node.world.before_removal(|state, id| state.away = id == "i0");
    let (outcome, steps) = collect(&node, false).await;
    assert!(matches!(outcome, Err(GcError::Runtime(_))), "{outcome:?}");
    assert!(!steps.is_empty() && node.percent() > 80.0);
    assert!(!node.collector.view().await.problem.is_empty());
    node.world.state().away = false;
    assert!(collect(&node, false).await.0.unwrap().reached);
    assert!(node.percent() <= 80.0);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_off_is_completed_by_the_next() {
    let node = Node::new(full(), &settings());
    let cut = tokio::time::timeout(Duration::from_millis(5), collect(&node, false)).await;
    assert!(cut.is_err() && node.percent() == 90.0);
    // The removal under way went with its call.
    assert_eq!(std::mem::take(&mut node.world.state().removing), 1);
    assert!(collect(&node, false).await.0.unwrap().reached);
    assert!(node.percent() <= 80.0);
}

#[tokio::test(start_paused = true)]
async fn never_two_runs_at_once() {
    let node = Node::new(full(), &settings());
    let (first, second) = tokio::join!(collect(&node, false), node.collector.delete_unused_images());
    // The world counts removals under way.
    assert!(first.0.is_ok() && second.is_ok());
    assert!(node.world.state().images.is_empty());
}

#[tokio::test(start_paused = true)]
async fn off_for_the_period_and_there_for_eviction() {
    let off = GcSettings { high_percent: 100, low_percent: 80, ..settings() };
    let node = Node::new(full(), &off);
    assert_eq!(collect(&node, false).await.0.unwrap(), GcOutcome { wanted: 0, freed: 0, reached: true });
    assert_eq!(node.percent(), 90.0);
    assert_eq!(node.collector.delete_unused_images().await.unwrap(), 450 * MB);
    let fs = node.collector.file_systems().await.unwrap();
    assert_eq!((fs.count(), fs.image.available), (1, CAPACITY - 450 * MB));
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_before_the_pods_are_known() {
    let node = Node::starting(full(), &settings());
    assert!(matches!(collect(&node, false).await.0, Err(GcError::NotReady)));
    assert!(matches!(node.collector.delete_unused_images().await, Err(GcError::NotReady)));
    assert!(matches!(node.collector.delete_all_unused_containers().await, Err(GcError::NotReady)));
    assert_eq!(node.percent(), 90.0);
}
