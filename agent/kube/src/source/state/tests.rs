use std::time::Duration;

use nodewarden_model::PodPhase;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::source::decode::decode;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn pod(name: &str, uid: &str, version: u64) -> SeenPod {
    seen(name, uid, version, json!({"containers": [{"name": "c", "image": "i"}]}))
}

fn seen(name: &str, uid: &str, version: u64, spec: serde_json::Value) -> SeenPod {
    let metadata =
        json!({"namespace": "n", "name": name, "uid": uid, "resourceVersion": version.to_string()});
    decode(json!({"metadata": metadata, "spec": spec})).unwrap().0
}

fn garbage(name: &str, uid: &str, version: u64) -> SeenPod {
    seen(name, uid, version, json!({"containers": 7}))
}

fn deleted(name: &str, uid: &str, version: u64, grace: u64) -> SeenPod {
    SeenPod { deletion: Some(Duration::from_secs(grace)), ..pod(name, uid, version) }
}

fn key(name: &str) -> PodKey {
    PodKey::new("n", name)
}

/// Name and uid of each pod that is wanted, with `-` for those that are to end.
fn wanted(pods: &ApiPods) -> Vec<String> {
    let text = |sourced: &SourcedPod| {
        let ends = if sourced.deletion.is_some() { "-" } else { "" };
        format!("{ends}{} {}", sourced.pod.name, sourced.pod.uid)
    };
    pods.desired().pods.iter().map(text).collect()
}

fn listed(all: Vec<SeenPod>) -> ApiPods {
    let mut pods = ApiPods::default();
    pods.list(all, true, at(0));
    pods
}

#[test]
fn before_the_first_list_nothing_is_known_to_be_gone() {
    let mut pods = ApiPods::default();
    assert!(pods.desired().unread.may_have(&"api:n/a".into()));
    assert!(!pods.desired().unread.may_have(&"/manifests/a.yaml".into()));
    assert!(pods.list(vec![pod("a", "1", 5)], true, at(0)));
    assert!(pods.desired().is_complete());
    assert_eq!(pods.desired().pods[0].origin, "api:n/a".into());
    assert!(!pods.list(vec![pod("a", "1", 6)], true, at(1)), "nothing has changed");
}

#[test]
fn a_list_with_something_that_is_no_pod_removes_none() {
    let mut pods = listed(vec![pod("a", "1", 5), pod("b", "2", 5)]);
    pods.list(vec![pod("b", "2", 6), pod("c", "3", 6)], false, at(1));
    assert_eq!(wanted(&pods), ["a 1", "b 2", "c 3"]);
    let mut new = ApiPods::default();
    new.list(vec![pod("b", "2", 6)], false, at(1));
    assert!(new.desired().unread.may_have(&"api:n/a".into()));
}

#[test]
fn events_that_repeat_or_come_late_change_nothing() {
    let mut pods = listed(vec![pod("a", "1", 5)]);
    assert!(pods.set(deleted("a", "1", 7, 30), at(1)));
    assert!(!pods.set(deleted("a", "1", 7, 30), at(2)));
    assert!(!pods.set(pod("a", "1", 6), at(3)));
    assert_eq!(pods.desired().pods[0].deletion.as_ref().unwrap().since, at(1));
    assert!(pods.remove(&key("a"), "1"));
    assert!(!pods.remove(&key("a"), "1"));
    assert!(!pods.set(pod("a", "1", 5), at(4)), "it does not come back");
    // Another one of its name, and then the end of the first one again.
    assert!(pods.set(pod("a", "2", 9), at(5)));
    assert!(!pods.remove(&key("a"), "1"));
    assert_eq!(wanted(&pods), ["a 2"]);
}

#[test]
fn a_skipped_end_of_a_pod_shows_by_the_next_one_of_its_name() {
    let mut pods = listed(vec![pod("a", "1", 5)]);
    assert!(pods.set(pod("a", "2", 9), at(1)));
    assert_eq!(wanted(&pods), ["a 2"]);
}

#[test]
fn garbage_about_a_pod_leaves_it_as_it_was() {
    let mut pods = listed(vec![pod("a", "1", 5)]);
    assert!(pods.set(garbage("a", "1", 6), at(1)));
    assert_eq!(wanted(&pods), ["a 1"]);
    let desired = pods.desired();
    assert!(desired.unread.may_have(&"api:n/a".into()) && desired.problems.len() == 1);
    assert!(pods.refused().is_empty());
    // It can be deleted all the same, and be well again.
    let end = SeenPod { deletion: Some(Duration::ZERO), ..garbage("a", "1", 7) };
    assert!(pods.set(end, at(2)));
    assert_eq!(wanted(&pods), ["-a 1"]);
    let mut pods = listed(vec![pod("a", "1", 5)]);
    pods.set(garbage("a", "1", 6), at(1));
    assert!(pods.set(pod("a", "1", 7), at(2)));
    assert!(pods.desired().is_complete());
}

#[test]
fn a_pod_that_never_could_be_read_is_refused_until_it_is_deleted() {
    let mut pods = listed(vec![garbage("a", "1", 5)]);
    assert_eq!(wanted(&pods), [""; 0]);
    let [refused] = &pods.refused()[..] else { panic!("not one") };
    assert_eq!((&*refused.uid, refused.pod.name.as_str()), ("1", "a"));
    pods.set(SeenPod { deletion: Some(Duration::ZERO), ..garbage("a", "1", 6) }, at(1));
    assert_eq!((wanted(&pods), pods.refused().len()), (vec!["-a 1".to_owned()], 0));
    // One that ran when the agent started runs on.
    let mut pods = ApiPods::default();
    let mut running = PodOrigins::default();
    running.set("n", "a", "api:n/a");
    pods.set_running(running);
    pods.list(vec![garbage("a", "1", 5)], true, at(0));
    assert!(pods.refused().is_empty() && pods.desired().unread.may_have(&"api:n/a".into()));
}

#[test]
fn less_grace_is_another_deletion() {
    let mut pods = listed(vec![deleted("a", "1", 5, 30)]);
    assert!(pods.set(deleted("a", "1", 6, 3), at(10)));
    let deletion = pods.desired().pods[0].deletion.clone().unwrap();
    assert_eq!((deletion.since, deletion.grace.as_secs()), (at(10), 3));
}

#[test]
fn what_comes_again_is_old() {
    let mut pods = listed(vec![pod("a", "1", 5)]);
    let mirror = |version| SeenPod { is_mirror: true, ..pod("m", "2", version) };
    pods.set(mirror(6), at(1));
    for (seen, expected) in [
        (pod("a", "1", 4), true),
        (pod("a", "1", 5), false),
        (pod("a", "3", 4), false),
        (mirror(5), true),
        (mirror(7), false),
        (pod("m", "3", 1), false),
    ] {
        assert_eq!(pods.is_old(&seen), expected, "{} {} {:?}", seen.key, seen.uid, seen.version);
    }
    for (name, uid) in [("a", "1"), ("m", "2")] {
        pods.remove(&key(name), uid);
        assert!(pods.is_old(&pod(name, uid, 9)), "{name} is gone");
    }
}

#[test]
fn mirror_pods_are_not_run() {
    let mirror = SeenPod { is_mirror: true, ..pod("a", "1", 5) };
    let mut pods = listed(vec![mirror.clone(), pod("b", "2", 5)]);
    assert_eq!(wanted(&pods), ["b 2"]);
    assert!(!pods.set(mirror, at(1)));
}

#[test]
fn a_terminal_phase_is_passed_on() {
    let over = Over { phase: PodPhase::Failed, reason: "Evicted".into(), message: "m".into() };
    let mut pods = listed(vec![pod("a", "1", 5)]);
    assert!(pods.set(SeenPod { over: Some(over.clone()), ..pod("a", "1", 6) }, at(1)));
    assert_eq!(pods.desired().pods[0].over, Some(Box::new(over)));
}

#[derive(Debug, Clone)]
enum Event {
    Set(SeenPod),
    Removed(&'static str, &'static str),
    List(Vec<SeenPod>, bool),
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const UIDS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];

/// Any version of any pod; each uid has one name.
fn any_pod() -> impl Strategy<Value = SeenPod> {
    (0usize..6, 1u64..9, 0u8..4).prop_map(|(uid, version, kind)| {
        let (name, uid) = (NAMES[uid % 3], UIDS[uid]);
        match kind {
            0 => garbage(name, uid, version),
            1 => deleted(name, uid, version, version),
            2 => SeenPod { is_mirror: true, ..pod(name, uid, version) },
            _ => pod(name, uid, version),
        }
    })
}

fn any_list() -> impl Strategy<Value = Vec<SeenPod>> {
    proptest::collection::vec(any_pod(), 0..4).prop_map(|mut pods| {
        // A server has one pod of a name.
        pods.sort_by(|one, other| one.key.cmp(&other.key));
        pods.dedup_by(|one, other| one.key == other.key);
        pods
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any_pod().prop_map(Event::Set),
        2 => (0usize..6).prop_map(|uid| Event::Removed(NAMES[uid % 3], UIDS[uid])),
        1 => (any_list(), any::<bool>()).prop_map(|(pods, all)| Event::List(pods, all)),
    ]
}

/// What a list alone leads to, but for what is known of a pod that cannot be read now.
fn by_name(pods: &ApiPods) -> Vec<(String, Option<Duration>)> {
    let readable = |sourced: &&SourcedPod| !pods.desired().unread.may_have(&sourced.origin);
    let found = pods.desired().pods;
    let found = found.iter().filter(readable);
    found.map(|sourced| (sourced.pod.uid.clone(), sourced.deletion.as_ref().map(|own| own.grace))).collect()
}

proptest! {
    /// Whatever came before, in whatever order, repeated or with gaps: a complete list ends in its own state.
    #[test]
    fn a_complete_list_ends_in_its_own_state(
        events in proptest::collection::vec(any_event(), 0..40), last in any_list(),
    ) {
        let mut pods = ApiPods::default();
        for (second, event) in events.into_iter().enumerate() {
            let now = at(second as i64);
            let _ = match event {
                Event::Set(pod) => pods.set(pod, now),
                Event::Removed(name, uid) => pods.remove(&key(name), uid),
                Event::List(list, all) => pods.list(list, all, now),
            };
        }
        pods.list(last.clone(), true, at(100));
        prop_assert_eq!(by_name(&pods), by_name(&listed(last.clone())));
        let known: Vec<&PodKey> = pods.pods.keys().collect();
        let in_list: Vec<&PodKey> = last.iter().filter(|pod| !pod.is_mirror).map(|pod| &pod.key).collect();
        prop_assert_eq!(known, in_list);
    }

    /// Only what says of this very pod that it is gone removes it.
    #[test]
    fn events_about_others_never_lose_a_pod(events in proptest::collection::vec(any_event(), 0..40)) {
        let mut pods = listed(vec![pod("x", "own", 5)]);
        for (second, event) in events.into_iter().enumerate() {
            let now = at(second as i64);
            let _ = match event {
                Event::Set(pod) => pods.set(pod, now),
                Event::Removed(name, uid) => pods.remove(&key(name), uid),
                Event::List(list, _) => pods.list(list, false, now),
            };
        }
        prop_assert!(wanted(&pods).contains(&"x own".to_owned()));
    }
}
