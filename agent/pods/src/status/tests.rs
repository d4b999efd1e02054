use futures_util::FutureExt;

use super::fixture::view;
use super::*;
use nodewarden_model::PodPhase;

/// The changes that are there without waiting: uid and phase.
fn changes(changes: &mut StatusChanges) -> Vec<(String, Option<PodPhase>)> {
    let next = || changes.next().now_or_never();
    std::iter::from_fn(next).map(|change| (change.uid, change.status.map(|view| view.phase))).collect()
}

#[test]
fn a_subscriber_gets_each_changed_pod_once_with_its_newest_status() {
    let cache = PodStatusCache::default();
    cache.set(view("a", PodPhase::Pending));
    let mut subscribed = cache.subscribe();
    assert_eq!(changes(&mut subscribed), [("a".into(), Some(PodPhase::Pending))], "what was there before");
    cache.set(view("b", PodPhase::Pending));
    cache.set(view("a", PodPhase::Running));
    cache.set(view("a", PodPhase::Failed));
    let expected = [("a".into(), Some(PodPhase::Failed)), ("b".into(), Some(PodPhase::Pending))];
    assert_eq!(changes(&mut subscribed), expected);
    cache.set(view("a", PodPhase::Failed));
    assert_eq!(changes(&mut subscribed), [], "the same status is no change");
    cache.remove("a");
    cache.remove("none");
    assert_eq!(changes(&mut subscribed), [("a".into(), None)]);
}

#[tokio::test]
async fn a_subscriber_that_waits_is_woken_and_one_that_is_dropped_is_forgotten() {
    let cache = PodStatusCache::default();
    let (mut one, other) = (cache.subscribe(), cache.subscribe());
    drop(other);
    let waiting = tokio::spawn(async move { one.next().await.uid });
    tokio::task::yield_now().await;
    cache.set(view("a", PodPhase::Running));
    assert_eq!(waiting.await.unwrap(), "a");
    cache.set(view("b", PodPhase::Running));
    assert!(cache.0.lock().subscribers.is_empty());
}

#[test]
fn pods_that_wait_are_shown_and_have_no_other_part() {
    let cache = PodStatusCache::default();
    cache.set(view("a", PodPhase::Running));
    let waiting = |uid: &str| {
        let message = "pod a of the same name is still being ended".into();
        Arc::new(PodView { message, ..view(uid, PodPhase::Pending) })
    };
    cache.set_waiting(vec![waiting("b"), waiting("a")]);
    assert_eq!(cache.pods().len(), 1);
    let shown: Vec<_> =
        cache.shown().iter().map(|view| (view.pod.uid.clone(), view.message.clone())).collect();
    let own = "pod a of the same name is still being ended";
    let mentioned = format!("pod default/a of /m waits: {own}");
    assert_eq!(shown, [("a".into(), mentioned), ("b".into(), own.into())]);
    cache.set_waiting(Vec::new());
    assert_eq!(cache.shown(), cache.pods());
}

#[test]
fn an_event_of_a_container_names_what_is_known_of_it() {
    let cache = PodStatusCache::default();
    cache.set(view("a", PodPhase::Running));
    let names = |uid: &str| {
        let found = cache.container_ref(uid, "c");
        [found.uid, found.namespace, found.name, found.container_id, found.container_name]
    };
    assert_eq!(names("a"), ["a", "default", "a", "", "c"], "the container has no id yet");
    assert_eq!(names("gone"), ["gone", "", "", "", "c"]);
}
