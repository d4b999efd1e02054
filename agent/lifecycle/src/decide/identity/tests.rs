use serde_json::json;

use super::*;
use nodewarden_pods::source::Unread;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn pod(name: &str, uid: &str, cpu: &str, image: &str) -> Arc<Pod> {
    let manifest = json!({
        "metadata": {"name": name, "uid": uid},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}]},
    });
    Arc::new(Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap())
}

fn desired(pods: Vec<(Arc<Pod>, &str)>) -> Desired {
    let pods = pods.into_iter().map(|(pod, origin)| SourcedPod::new(pod, origin)).collect();
    Desired { pods, ..Desired::default() }
}

/// The first pod of the list, to be changed.
fn first(desired: &mut Desired) -> &mut SourcedPod {
    &mut Arc::make_mut(&mut desired.pods)[0]
}

fn running(pods: Vec<(Arc<Pod>, &str, bool)>) -> BTreeMap<String, Running> {
    let one = |(pod, origin, ending): (Arc<Pod>, &str, bool)| {
        (pod.uid.clone(), Running { pod, origin: origin.into(), ending })
    };
    pods.into_iter().map(one).collect()
}

/// What is done, by name of the list.
fn done(a: &Assignment) -> Vec<String> {
    let short = |uid: &str| uid.chars().take(3).collect::<String>();
    let mut lines: Vec<String> = a.start.iter().map(|s| format!("start {}", short(&s.pod.uid))).collect();
    lines.extend(a.keep.iter().map(|uid| format!("keep {}", short(uid))));
    lines.extend(a.moved.iter().map(|(uid, to)| format!("moved {} {to}", short(uid))));
    lines.extend(a.resize.iter().map(|pod| format!("resize {}", short(&pod.uid))));
    lines.extend(a.replace.iter().map(|uid| format!("replace {}", short(uid))));
    lines.extend(a.end.iter().map(|uid| format!("end {}", short(uid))));
    lines.extend(a.delete.iter().map(|(uid, d)| format!("delete {} {}", short(uid), d.reason)));
    lines.extend(a.wait.iter().map(|(s, _)| format!("wait {}", short(&s.pod.uid))));
    lines
}

#[track_caller]
fn check(desired: &Desired, running: &BTreeMap<String, Running>, expected: &[&str]) {
    assert_eq!(done(&assign(desired, running, &BTreeSet::new())), expected);
}

#[test]
fn a_changed_manifest_is_compared_by_content() {
    let old = || running(vec![(pod("p", A, "1", "x"), "f", false)]);
    let now = |uid, cpu, image| desired(vec![(pod("p", uid, cpu, image), "f")]);
    check(&now(A, "1", "x"), &BTreeMap::new(), &["start aaa"]);
    check(&now(A, "1", "x"), &old(), &["keep aaa"]);
    // The same in other words: another uid, the same pod.
    check(&now(B, "1000m", "x"), &old(), &["keep aaa"]);
    check(&now(B, "1", "y"), &old(), &["replace aaa", "wait bbb"]);
    check(&now(B, "2", "x"), &old(), &["resize aaa"]);
    let resized = assign(&now(B, "2", "x"), &old(), &BTreeSet::new()).resize;
    assert_eq!((resized[0].uid.as_str(), &resized[0].containers), (A, &pod("p", B, "2", "x").containers));
    check(&Desired::default(), &old(), &["end aaa"]);
}

#[test]
fn a_given_uid_distinguishes_pods() {
    let old = || running(vec![(pod("p", "u-1", "1", "x"), "f", false)]);
    let now = |uid, cpu, image| desired(vec![(pod("p", uid, cpu, image), "f")]);
    check(&now("u-1", "1", "x"), &old(), &["keep u-1"]);
    check(&now("u-1", "2", "x"), &old(), &["resize u-1"]);
    check(&now("u-1", "1", "y"), &old(), &["replace u-1", "wait u-1"]);
    check(&now("u-2", "1", "x"), &old(), &["replace u-1", "wait u-2"]);
    check(&now(B, "1", "x"), &old(), &["replace u-1", "wait bbb"]);
    // Of another name: not before the first is gone.
    let renamed = desired(vec![(pod("q", "u-1", "1", "x"), "f")]);
    check(&renamed, &old(), &["end u-1", "wait u-1"]);
    let gone = running(vec![(pod("p", "u-1", "1", "x"), "f", true)]);
    check(&renamed, &gone, &["wait u-1"]);
}

#[test]
fn a_second_pod_of_the_same_name_waits() {
    let ending = running(vec![(pod("p", A, "1", "x"), "f", true)]);
    for uid in [A, B] {
        check(&desired(vec![(pod("p", uid, "1", "x"), "f")]), &ending, &[&format!("wait {}", &uid[..3])]);
    }
    check(&desired(vec![(pod("q", B, "1", "x"), "f")]), &ending, &["start bbb"]);
    check(&Desired::default(), &ending, &[]);
}

#[test]
fn a_pod_whose_origin_cannot_be_read_stays() {
    let old = running(vec![(pod("p", A, "1", "x"), "f", false)]);
    let unreadable = |pods| Desired { unread: Unread::of_origin("f"), ..desired(pods) };
    check(&unreadable(vec![]), &old, &["keep aaa"]);
    check(&Desired { unread: Unread::of_source("manifests"), ..Desired::default() }, &old, &["keep aaa"]);
    // Another source that cannot be read keeps its own pods only.
    check(&Desired { unread: Unread::of_source("api"), ..Desired::default() }, &old, &["end aaa"]);
    // Another file has one of the same name meanwhile.
    check(&unreadable(vec![(pod("p", B, "1", "y"), "g")]), &old, &["keep aaa", "wait bbb"]);
    let same = unreadable(vec![(pod("p", B, "1", "x"), "g")]);
    check(&same, &old, &["keep aaa", "moved aaa g"]);
    // Its own file, in part.
    check(&unreadable(vec![(pod("p", B, "2", "x"), "f")]), &old, &["resize aaa"]);
}

#[test]
fn a_pod_moves_with_its_renamed_file() {
    let old = running(vec![(pod("p", A, "1", "x"), "f", false)]);
    check(&desired(vec![(pod("p", B, "1", "x"), "g")]), &old, &["keep aaa", "moved aaa g"]);
    check(&desired(vec![(pod("p", B, "2", "x"), "g")]), &old, &["moved aaa g", "resize aaa"]);
}

#[test]
fn a_deleted_pod_ends_and_is_not_started() {
    let deleted = |uid: &str| {
        let deletion = Deletion {
            since: jiff::Timestamp::UNIX_EPOCH,
            grace: std::time::Duration::from_secs(5),
            reason: "asked".into(),
        };
        let mut desired = desired(vec![(pod("p", uid, "1", "x"), "api:p")]);
        first(&mut desired).deletion = Some(Box::new(deletion));
        desired
    };
    let runs = |ending| running(vec![(pod("p", "u-1", "1", "x"), "api:p", ending)]);
    check(&deleted("u-1"), &runs(false), &["delete u-1 asked"]);
    check(&deleted("u-1"), &runs(true), &["delete u-1 asked"]);
    check(&deleted("u-1"), &BTreeMap::new(), &[]);
    // Another pod of its name that still runs is one that the source no longer has.
    check(&deleted("u-2"), &runs(false), &["end u-1"]);
}

/// Its manifest was put back, and its uid is made of the manifest.
#[test]
fn a_pod_that_comes_back_waits_until_its_remains_are_removed() {
    let wanted = desired(vec![(pod("p", A, "1", "x"), "f"), (pod("q", B, "1", "x"), "g")]);
    let tidying = BTreeSet::from([A.to_owned()]);
    let found = assign(&wanted, &BTreeMap::new(), &tidying);
    assert_eq!(done(&found), ["start bbb", "wait aaa"]);
    assert_eq!(found.wait[0].1, Wait::Tidied { uid: A.into() });
    assert_eq!(done(&assign(&wanted, &BTreeMap::new(), &BTreeSet::new())), ["start aaa", "start bbb"]);
}

/// Pods of the API server.
mod api {
    use super::*;

    fn of_api(uid: &str, cpu: &str, image: &str) -> Desired {
        let mut desired = desired(vec![(pod("p", uid, cpu, image), "api:n/p")]);
        first(&mut desired).api = Some(Arc::new(ApiState::default()));
        desired
    }

    fn runs(ending: bool) -> BTreeMap<String, Running> {
        running(vec![(pod("p", "u-1", "1", "x"), "api:n/p", ending)])
    }

    /// What is done, with what only pods of the API server have.
    fn all(desired: &Desired, running: &BTreeMap<String, Running>) -> Vec<String> {
        let a = assign(desired, running, &BTreeSet::new());
        let mut lines = done(&a);
        lines.extend(a.finish.iter().map(|(s, _)| format!("finish {}", s.pod.uid)));
        lines.extend(a.gone.iter().map(|uid| format!("gone {uid}")));
        lines.extend(a.over.iter().map(|(uid, _)| format!("over {uid}")));
        lines.extend(a.update.iter().map(|pod| format!("update {}", pod.uid)));
        lines
    }

    #[test]
    fn a_changed_pod_of_the_same_uid_is_changed_as_it_runs() {
        for (cpu, image, expected) in [
            ("1", "x", &["keep u-1"][..]),
            ("1000m", "x", &["keep u-1", "update u-1"]),
            ("2", "x", &["resize u-1"]),
            ("1", "y", &["keep u-1", "update u-1"]),
            ("2", "y", &["resize u-1", "update u-1"]),
        ] {
            assert_eq!(all(&of_api("u-1", cpu, image), &runs(false)), expected, "{cpu} {image}");
        }
        // What is changed at once keeps the resources until there is room for others.
        let updated = assign(&of_api("u-1", "2", "y"), &runs(false), &BTreeSet::new()).update;
        assert_eq!(updated[0].containers, pod("p", "u-1", "1", "y").containers);
        assert_eq!(updated[0].spec().containers[0].image.as_deref(), Some("y"));
        assert_eq!(all(&of_api("u-2", "1", "x"), &runs(false)), ["replace u-1", "wait u-2", "gone u-1"]);
    }

    #[test]
    fn a_deleted_pod_without_a_worker_is_finished() {
        let mut deleted = of_api("u-1", "1", "x");
        let (since, grace) = (jiff::Timestamp::UNIX_EPOCH, std::time::Duration::ZERO);
        first(&mut deleted).deletion = Some(Box::new(Deletion { since, grace, reason: "asked".into() }));
        assert_eq!(all(&deleted, &BTreeMap::new()), ["finish u-1"]);
        assert_eq!(all(&deleted, &runs(true)), ["delete u-1 asked"]);
    }

    #[test]
    fn a_pod_is_forgotten_when_the_api_server_surely_no_longer_has_it() {
        assert_eq!(all(&Desired::default(), &runs(false)), ["end u-1", "gone u-1"]);
        assert_eq!(all(&Desired::default(), &runs(true)), ["gone u-1"]);
        let unread = Desired { unread: Unread::of_source("api"), ..Desired::default() };
        assert_eq!(all(&unread, &runs(false)), ["keep u-1"]);
        assert_eq!(all(&unread, &runs(true)), [""; 0]);
    }

    #[test]
    fn a_pod_that_is_over_is_not_started() {
        let mut over = of_api("u-1", "1", "x");
        let phase = nodewarden_model::PodPhase::Failed;
        first(&mut over).over = Some(Box::new(Over { phase, reason: String::new(), message: String::new() }));
        assert_eq!(all(&over, &BTreeMap::new()), [""; 0]);
        assert_eq!(all(&over, &runs(false)), ["keep u-1", "over u-1"]);
        assert_eq!(all(&over, &runs(true)), [""; 0]);
    }
}
