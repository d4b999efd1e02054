use nodewarden_cri::ListedSandbox;
use serde_json::json;

use super::*;
use crate::act::probing::tests::node::{Node, Script};
use crate::act::probing::tests::runtime::Fake;
use crate::record::ContainerRecord;
use crate::set_aside::tests::Immutable;

fn look_of(uids: &[(&str, i32)]) -> Option<Look> {
    let sandbox = |(uid, state): &(&str, i32)| ListedSandbox {
        id: format!("sandbox of {uid}"),
        metadata: Some(cri::PodSandboxMetadata { uid: (*uid).to_owned(), ..Default::default() }),
        state: *state,
        ..Default::default()
    };
    let sandboxes = uids.iter().map(sandbox).collect();
    let listing = Arc::new(Listing { sandboxes, containers: Vec::new() });
    Some(Look { found: Some(Ok(Found::new(listing, |_| true))), directories: BTreeSet::new() })
}

#[test]
fn a_pod_that_began_after_the_look_is_never_taken_for_one_that_the_runtime_never_had() {
    let mut housekeeping = Housekeeping::default();
    housekeeping.take(look_of(&[]));
    assert!(housekeeping.never_had("u"));
    housekeeping.begins("u");
    housekeeping.gone("u");
    assert!(!housekeeping.never_had("u"), "the last look was before it began");
    assert!(housekeeping.doubted, "something of it may be left");
    // As `look` does when the next one starts.
    let mut begun = std::mem::take(&mut housekeeping.begun);
    housekeeping.begun_before.append(&mut begun);
    assert!(!housekeeping.never_had("u"));
    housekeeping.take(look_of(&[]));
    assert!(housekeeping.never_had("u"));
}

#[test]
fn a_contradiction_lasts_until_the_runtime_says_something_else() {
    let mut housekeeping = Housekeeping::default();
    housekeeping.take(look_of(&[("u", 0), ("v", 0)]));
    housekeeping.contradicted("u".into(), true);
    let until = housekeeping.contradicted["u"].until;
    housekeeping.contradicted("u".into(), false);
    assert_eq!(housekeeping.contradicted["u"].until, until, "never shortened");
    let found = housekeeping.take(look_of(&[("u", 1), ("v", 0)]));
    assert_eq!(found.changed, ["u"]);
    assert!(housekeeping.contradicted.contains_key("u"), "the list before was from before the contradiction");
    housekeeping.take(look_of(&[("u", 1), ("v", 1)]));
    assert!(housekeeping.contradicted.contains_key("u"), "only another pod has changed");
    let found = housekeeping.take(look_of(&[("u", 0), ("v", 1)]));
    assert_eq!(found.changed, ["u"]);
    assert!(housekeeping.contradicted.is_empty());
}

#[tokio::test]
async fn after_a_panic_in_a_look_or_a_removal_the_next_one_is_made() {
    let mut housekeeping = Housekeeping { looking: true, ..Housekeeping::default() };
    housekeeping.tidying.insert("u".into());
    let over = Tidied { uid: "u".into(), done: housekeeping.tidied.0.clone() };
    let removal = tokio::spawn(async move {
        let _over = over;
        panic!("planted");
    });
    assert!(removal.await.unwrap_err().is_panic());
    // What `look` sends when the task of a look panics.
    housekeeping.looks.send(None).unwrap();
    // Both results are there; which one is taken first is not fixed.
    let found = [housekeeping.found().await, housekeeping.found().await];
    assert!(found.iter().all(|found| !found.present.asked && found.changed.is_empty()));
    assert_eq!(found.iter().filter(|found| found.tidied).count(), 1);
    assert!(!housekeeping.looking && housekeeping.tidying.is_empty());
}

/// The runtime reports what begins there, and nothing reports a directory.
#[tokio::test]
async fn a_directory_that_no_pod_owns_is_found_at_the_next_period_of_a_calm_node() {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let node = Node::start(spec, ContainerRecord::default(), Fake::new(0), Script::default()).await;
    let (env, pods) = (&node.state.env, node.dir().join("pods"));
    let mut housekeeping = Housekeeping::default();
    housekeeping.set_events(EventStream::Open);
    housekeeping.look_if_due(env);
    assert!(housekeeping.found().await.present.asked, "the first list");
    let own = node.state.pod().uid.clone();
    let known = BTreeSet::from([own.as_str()]);
    for (what, left, doubted) in [("its own", own.as_str(), false), ("a pod that is gone", "left", true)] {
        std::fs::create_dir_all(pods.join(left).join("volumes")).unwrap();
        housekeeping.look_if_due(env);
        let found = housekeeping.found().await;
        assert!(!found.present.asked && found.changed.is_empty(), "{what}: the runtime is not listed");
        housekeeping.searched(env, &known, &found.present);
        assert_eq!(housekeeping.doubted, doubted, "{what}");
    }
    housekeeping.look_if_due(env);
    let found = housekeeping.found().await;
    assert!(found.present.asked && found.present.directories.contains("left"), "the runtime is listed first");
}

/// Otherwise each look would try and warn again, for ever.
#[tokio::test]
async fn what_no_pod_owns_and_cannot_be_removed_is_set_aside() {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let node = Node::start(spec, ContainerRecord::default(), Fake::new(0), Script::default()).await;
    let (env, pod_dir) = (&node.state.env, node.dir().join("pods/left"));
    let Some(immutable) = Immutable::make(&pod_dir.join("volumes/a/file")) else { return };
    remove(env, "left", Listing::default()).await.unwrap();
    assert!(!pod_dir.exists(), "a pod of that uid can start");
    let shown = env.set_aside.shown();
    assert!(shown.len() == 1 && shown[0].1.contains("Operation not permitted"), "{shown:?}");
    drop(immutable);
}

/// The regular one may be one that other parts read too.
#[tokio::test]
async fn a_list_because_of_a_doubt_is_asked_for_at_once_and_a_regular_one_is_shared() {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let node = Node::start(spec, ContainerRecord::default(), Fake::new(0), Script::default()).await;
    let env = &node.state.env;
    let mut housekeeping = Housekeeping::default();
    housekeeping.set_events(EventStream::Open);
    housekeeping.look_if_due(env);
    assert!(housekeeping.found().await.present.asked, "the first list");
    let long_ago = Instant::now().checked_sub(relist::REGULAR).expect("a machine that runs for a minute");
    for (what, doubted, shared) in [("a minute later", false, true), ("in doubt", true, false)] {
        housekeeping.began = Some(long_ago);
        housekeeping.doubted = doubted;
        // The other part waits for the next list that is shared.
        let wait = Duration::from_millis(if shared { 10_000 } else { 200 });
        let other = tokio::time::timeout(wait, env.list.next());
        housekeeping.look_if_due(env);
        let (other, found) = tokio::join!(other, housekeeping.found());
        assert!(found.present.asked && found.changed.is_empty(), "{what}");
        let is_shared = other.is_ok_and(|other| found.present.pods.is_of(&other.unwrap()));
        assert_eq!(is_shared, shared, "{what}");
    }
}
