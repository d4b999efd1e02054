//! Parts of a pod, and which figure of a layer is taken.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::*;
use nodewarden_machine::project_quota::fixture::WithQuota;
use nodewarden_machine::project_quota::set_project;
use nodewarden_manifest::fixture::pod;

const LONG: Duration = Duration::from_secs(30);

fn stats(bytes: u64, age: u64) -> LayerStats {
    LayerStats { bytes, inodes: bytes, read: Instant::now() - Duration::from_secs(age) }
}

#[test]
fn the_runtimes_figure_of_a_layer_is_used_by_its_age() {
    let counted =
        |bytes, complete| DiskUse { bytes, inodes: bytes, complete, device: Some(7), ..DiskUse::default() };
    for (what, walked, reported, expected) in [
        ("nothing is known", None, None, None),
        ("counted", Some(counted(5, true)), None, Some((5, true))),
        ("new", Some(counted(5, false)), Some(stats(9, 1)), Some((9, true))),
        ("counted completely after it", Some(counted(5, true)), Some(stats(9, 8)), Some((5, true))),
        ("stands in", Some(counted(5, false)), Some(stats(9, 8)), Some((9, true))),
        ("more was counted already", Some(counted(10, false)), Some(stats(9, 8)), Some((10, false))),
        ("too old to stand in", Some(counted(5, false)), Some(stats(9, 99)), Some((9, false))),
        ("no directory", None, Some(stats(9, 99)), Some((9, true))),
    ] {
        let found = layer(walked, reported).map(|used| (used.bytes, used.complete));
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn parts_of_a_pod() {
    let Ok(layout) = Layout::detect() else {
        nodewarden_testing::skip("no cgroups");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (pod_dir, logs) = (dir.path().join("pod"), dir.path().join("logs"));
    let write = |path: PathBuf, files: usize| {
        fs::create_dir_all(&path).unwrap();
        (0..files).for_each(|n| fs::write(path.join(format!("{n}")), "").unwrap());
    };
    write(empty_dir(&pod_dir, "disk"), 3);
    write(empty_dir(&pod_dir, "other"), 5);
    write(pod_dir.join("containers/c"), 1);
    write(logs.join("c"), 2);
    write(logs.join("ended"), 1);
    let subject = Subject {
        pod: pod(json!({
            "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}],
            "volumes": [
                {"name": "disk", "emptyDir": {}},
                {"name": "other", "emptyDir": {"medium": ""}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "host", "hostPath": {"path": "/"}},
            ],
        })),
        cgroup: "/nodewarden-test-none".to_owned(),
        started: jiff::Timestamp::UNIX_EPOCH,
        pod_dir,
        logs,
        containers: vec![("c".to_owned(), "id-c".to_owned()), ("d".to_owned(), "id-d".to_owned())],
    };
    let runtime: Layers = [("id-c".to_owned(), stats(7, 0))].into();
    let sources = Sources { layout: &layout, runtime: Some(&runtime) };
    let measurer = Measurer::default();
    let found =
        measurer.pods(&sources, std::slice::from_ref(&subject), |_| Scope::Everything, LONG).pop().unwrap();
    let inodes = |used: DiskUse| (used.inodes, used.complete);
    assert_eq!(found.volumes.keys().collect::<Vec<_>>(), ["disk", "other"]);
    assert_eq!([found.volumes["disk"], found.volumes["other"]].map(inodes), [(4, true), (6, true)]);
    // Also the pod's directory, `volumes`, the directory of the kind, `containers` and two below.
    assert_eq!(inodes(found.disk.volumes), (4 + 6 + 3 + 3, true));
    assert_eq!(inodes(found.disk.logs), (1 + 3 + 2, true));
    assert_eq!(inodes(found.containers["c"].logs.unwrap()), (3, true));
    assert_eq!(inodes(found.containers["d"].logs.unwrap()), (0, true));
    assert_eq!(inodes(found.containers["c"].root.unwrap()), (7, true));
    // Nothing is known of the other layer: not nothing.
    assert_eq!(inodes(found.containers["d"].root.unwrap()), (0, false));
    assert_eq!(inodes(found.disk.root), (7, false));
    // The time without a figure ends when the runtime does not answer.
    let silent = Sources { runtime: None, ..sources };
    measurer.pods(&silent, std::slice::from_ref(&subject), |_| Scope::Nothing, LONG);
    let later = Instant::now() + Duration::from_secs(40);
    assert!(!measurer.is_given_up("u", "id-d", false, true, later));
    // A layer that the runtime never has a figure of stays a lower bound, for which no decision waits.
    let state = |found: &PodUse| {
        let root = found.containers["d"].root.unwrap();
        (root.bytes, root.complete, root.is_settled())
    };
    let waited = Measurer::default();
    let earlier = Instant::now().checked_sub(Duration::from_secs(40)).unwrap();
    waited.is_given_up("u", "id-d", false, true, earlier);
    let waited = waited.pods(&sources, std::slice::from_ref(&subject), |_| Scope::Everything, LONG).remove(0);
    assert_eq!([state(&found), state(&waited)], [(0, false, false), (0, false, true)]);
    assert!(!waited.disk.root.complete && waited.disk.root.is_settled());
    // Volumes alone.
    let only = Measurer::default();
    let only = only.pods(&sources, std::slice::from_ref(&subject), |_| Scope::Volumes, LONG).pop().unwrap();
    assert_eq!(only.volumes, found.volumes);
    assert_eq!((inodes(only.disk.logs), inodes(only.disk.volumes)), ((0, false), (10, false)));
    // Those that are not to be counted have what is known of them.
    let again =
        measurer.pods(&sources, std::slice::from_ref(&subject), |_| Scope::Nothing, LONG).pop().unwrap();
    assert_eq!(again, found);
}

/// What the kernel counts for a volume is known before a file was counted.
#[test]
fn a_volume_uses_at_least_what_belongs_to_its_project() {
    let Some(disk) = WithQuota::mount() else { return };
    let Ok(layout) = Layout::detect() else {
        nodewarden_testing::skip("no cgroups");
        return;
    };
    let subject = |uid: &str, project| {
        let mut pod = pod(json!({
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }));
        Arc::make_mut(&mut pod).uid = uid.to_owned();
        let (pod_dir, logs) = (disk.path().join(uid), disk.path().join("logs"));
        let volume = empty_dir(&pod_dir, "v");
        fs::create_dir_all(&volume).unwrap();
        set_project(fs::File::open(&volume).unwrap(), project).unwrap();
        (0..40).for_each(|n| fs::write(volume.join(format!("{n}")), "").unwrap());
        let (cgroup, started) = ("/nodewarden-test-none".to_owned(), jiff::Timestamp::UNIX_EPOCH);
        Subject { pod, cgroup, started, pod_dir, logs, containers: Vec::new() }
    };
    let sources = Sources { layout: &layout, runtime: None };
    let volume = |subjects: &[Subject]| {
        let mut found = Measurer::default().pods(&sources, subjects, |_| Scope::Nothing, LONG);
        let used = found.remove(0).volumes["v"];
        (used.inodes, used.complete)
    };
    let project = (1 << 30) + 5;
    let one = subject("one", project);
    assert_eq!(volume(std::slice::from_ref(&one)), (41, false), "a lower bound");
    assert_eq!(volume(&[one, subject("other", project)]), (0, false), "it may be the other's");
}
