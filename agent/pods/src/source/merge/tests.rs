use std::sync::Arc;

use super::super::{PodOrigins, Unread};
use super::*;
use nodewarden_manifest::Pod;

fn pod(name: &str, uid: &str) -> Arc<Pod> {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: \"{uid}\"}}\nspec: {{containers: [{{name: c, image: i}}]}}"
    );
    Arc::new(nodewarden_manifest::manifest::parse(&text).remove(0).unwrap())
}

/// Origin, name and uid.
type Given = (&'static str, &'static str, &'static str);

fn sourced(pods: &[Given]) -> Vec<SourcedPod> {
    pods.iter().map(|(origin, name, uid)| SourcedPod::new(pod(name, uid), *origin)).collect()
}

fn names(pods: &[SourcedPod]) -> String {
    pods.iter().map(|p| format!("{} {}", p.origin, p.pod.name)).collect::<Vec<_>>().join(", ")
}

fn chosen(pods: &[Given], running: &LastTaken) -> (String, usize, LastTaken) {
    let choice = choose(sourced(pods), running);
    (names(&choice.pods), choice.problems.len(), LastTaken::Pods(choice.pods.into()))
}

#[test]
fn the_first_of_a_name_wins_and_then_the_one_that_runs() {
    let none = LastTaken::default();
    let (pods, problems, running) = chosen(&[("b", "x", "1"), ("c", "x", "2"), ("c", "y", "3")], &none);
    assert_eq!((pods.as_str(), problems), ("b x, c y", 1));
    // A file that sorts before it comes later.
    let (pods, problems, running) =
        chosen(&[("a", "x", "9"), ("b", "x", "1"), ("c", "y", "3"), ("d", "z", "3")], &running);
    assert_eq!((pods.as_str(), problems), ("b x, c y", 2));
    let (pods, problems, _) = chosen(&[("a", "x", "9"), ("d", "z", "3")], &running);
    assert_eq!((pods.as_str(), problems), ("a x, d z", 0));
}

#[test]
fn the_second_pod_of_a_name_in_one_file_is_left_out() {
    let (pods, problems, running) = chosen(&[("a", "x", "1"), ("a", "x", "2")], &LastTaken::default());
    assert_eq!((pods.as_str(), problems), ("a x", 1));
    let places = running.places();
    let is = |origin: &str| places.is(&SourcedPod::new(pod("x", "3"), origin));
    assert!(is("a") && !is("b"));
}

#[test]
fn several_sources_are_merged_by_name_and_uid() {
    for (first, second, running, expected, problems) in [
        (&[("/m/a", "x", "1")][..], &[("api:x", "y", "2")][..], None, "/m/a x, api:x y", 0),
        // One name, or one uid: the first source's, unless the other one runs.
        (&[("/m/a", "x", "1")], &[("api:x", "x", "2")], None, "/m/a x", 1),
        (&[("/m/a", "x", "1")], &[("api:x", "x", "2")], Some(("x", "api:x")), "api:x x", 1),
        (&[("/m/a", "x", "1")], &[("api:y", "y", "1")], None, "/m/a x", 1),
        (&[("/m/a", "x", "1")], &[("api:y", "y", "1")], Some(("y", "api:y")), "api:y y", 1),
        // A pod whose source no longer has it does not take the name from another source's pod.
        (&[("/m/a", "x", "1")], &[], Some(("x", "api:x")), "/m/a x", 0),
    ] {
        let all = [first, second].map(|pods| Desired { pods: sourced(pods).into(), ..Desired::default() });
        let mut origins = PodOrigins::default();
        if let Some((name, origin)) = running {
            origins.set("default", name, origin);
        }
        let merged = merge(&all, &LastTaken::Running(origins));
        let case = format!("{first:?} {second:?} {running:?}");
        assert_eq!((names(&merged.pods).as_str(), merged.problems.len()), (expected, problems), "{case}");
        assert!(merged.is_complete(), "{case}");
    }
}

#[test]
fn the_list_of_the_only_source_is_kept_once() {
    let only =
        Desired { pods: sourced(&[("/m/a", "x", "1"), ("/m/b", "y", "2")]).into(), ..Desired::default() };
    let merged = merge(std::slice::from_ref(&only), &LastTaken::default());
    assert!(Arc::ptr_eq(&merged.pods, &only.pods));
    assert!(size_of::<SourcedPod>() <= 56, "{}", size_of::<SourcedPod>());
}

#[test]
fn a_source_that_cannot_be_read_keeps_only_its_own_pods() {
    for (unread, manifest, other, api) in [
        (Unread::default(), false, false, false),
        (Unread::of_source("manifests"), true, true, false),
        (Unread::of_source("api"), false, false, true),
        (Unread::of_origin("/m/a"), true, false, false),
    ] {
        let broken = Desired { unread: unread.clone(), ..Desired::default() };
        let merged = merge(&[Desired::default(), broken], &LastTaken::default());
        let may_have = ["/m/a", "/m/b", "api:x"].map(|origin| merged.unread.may_have(&origin.into()));
        assert_eq!(may_have, [manifest, other, api], "{unread:?}");
        assert_eq!(merged.is_complete(), unread == Unread::default());
    }
}
