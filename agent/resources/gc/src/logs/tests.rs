use std::collections::HashSet;
use std::os::unix::fs::symlink;

use nodewarden_cri::Listing;
use nodewarden_model::{EvictionCause, PodPhase};
use nodewarden_pods::status::DesiredPods;
use serde_json::json;

use super::*;
use crate::fixture::views::{at, container, pod, view};

const UID: &str = "1b2c";

fn write(root: &Path, file: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "x").unwrap();
}

fn known(terminating: bool) -> Pods {
    let mut view = (*view(pod(UID, json!([{"name": "c", "image": "i"}])), Vec::new())).clone();
    view.terminating = terminating.then(|| at(1));
    Pods::new(vec![std::sync::Arc::new(view)], &DesiredPods { complete: true, ..DesiredPods::default() })
}

fn paths(orphans: &[Orphan]) -> Vec<String> {
    orphans.iter().map(|orphan| orphan.path().to_string_lossy().into_owned()).collect()
}

#[test]
fn only_names_of_the_kubelets_layout_are_parsed() {
    for (name, uid) in [
        ("shop_web-0_1b2c-33", Some("1b2c-33")),
        ("shop_web.0_1b2c", Some("1b2c")),
        ("shop_web", None),
        ("shop_web_1_2", None),
        ("_web_1", None),
        ("shop__1", None),
        ("shop_web_", None),
        ("Shop_web_1", None),
        ("shop_web_..", None),
        ("containers", None),
    ] {
        assert_eq!(uid_of(name), uid, "{name}");
    }
    for (name, run) in [
        ("0.log", Some(0)),
        ("12.log.20261121-040001", Some(12)),
        ("12.log.20261121-040001.gz", Some(12)),
        (".log", None),
        ("+1.log", None),
        ("a.log", None),
        ("1.logs", None),
        ("1.txt", None),
        ("99999999999.log", None),
    ] {
        assert_eq!(run_of(name), run, "{name}");
    }
}

#[test]
fn logs_of_runs_without_a_container_and_of_gone_pods_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    assert_eq!(scan(&root.join("none"), &HashSet::new()).unwrap(), []);
    for file in [
        "shop_web_1b2c/c/0.log",
        "shop_web_1b2c/c/0.log.20261121-040001.gz",
        "shop_web_1b2c/c/1.log",
        "shop_web_1b2c/c/notes.txt",
        "shop_web_1b2c/other/1.log",
        "shop_gone_99/c/0.log",
        "shop_theirs_77/c/0.log",
        // Of pods that are gone: a kubelet's, and another agent's.
        "shop_kubelet_88/c/0.log",
        "shop_other_66/c/0.log",
        "foreign/c/0.log",
        "a_b_c_d/c/0.log",
    ] {
        write(root, file);
    }
    for ours in ["shop_gone_99", "shop_web_1b2c"] {
        log_owner::mark(&root.join(ours), "me").unwrap();
    }
    log_owner::mark(&root.join("shop_other_66"), "other").unwrap();
    write(dir.path(), "outside/c/0.log");
    symlink(root.join("outside"), root.join("shop_link_55")).unwrap();
    symlink(root.join("outside/c"), root.join("shop_web_1b2c/linked")).unwrap();
    let found = scan(root, &HashSet::new()).unwrap();
    let some = scan(root, &HashSet::from([UID, "gone"])).unwrap();
    let left_out: Vec<_> = found.iter().filter(|one| !some.contains(one)).map(|one| &one.uid).collect();
    assert_eq!(left_out, [UID], "by uid");
    let theirs = container("x", "77", "c", 0, nodewarden_proto::runtime::v1::ContainerState::ContainerExited);
    let ours = container("y", UID, "c", 1, nodewarden_proto::runtime::v1::ContainerState::ContainerRunning);
    let present = Present::new(&Listing { sandboxes: Vec::new(), containers: vec![theirs, ours] });
    let expected = [
        "shop_gone_99",
        "shop_web_1b2c/c/0.log",
        "shop_web_1b2c/c/0.log.20261121-040001.gz",
        "shop_web_1b2c/other/1.log",
    ];
    let going = orphans(&found, "me", &known(false), &present, false);
    assert_eq!(paths(&going), expected);
    // A terminating pod keeps its logs until it is gone.
    assert_eq!(paths(&orphans(&found, "me", &known(true), &present, false)), ["shop_gone_99"]);
    // An evicted pod keeps them until the disk is short of space.
    let mut evicted = (*view(pod(UID, json!([{"name": "c", "image": "i"}])), Vec::new())).clone();
    (evicted.phase, evicted.evicted) = (PodPhase::Failed, Some(EvictionCause::NodePressure));
    let evicted = Pods::new(
        vec![std::sync::Arc::new(evicted)],
        &DesiredPods { complete: true, ..DesiredPods::default() },
    );
    assert_eq!(paths(&orphans(&found, "me", &evicted, &present, false)), ["shop_gone_99"]);
    assert_eq!(paths(&orphans(&found, "me", &evicted, &present, true)), expected);
    // While a manifest cannot be read, no pod is gone.
    let unsure = Pods::new(Vec::new(), &DesiredPods::default());
    assert_eq!(orphans(&found, "me", &unsure, &present, false), []);

    for orphan in &going {
        remove(root, orphan).unwrap();
        remove(root, orphan).unwrap();
        assert!(!root.join(orphan.path()).exists(), "{orphan:?}");
    }
    for left in [
        "shop_web_1b2c/c/1.log",
        "shop_web_1b2c/c/notes.txt",
        "shop_theirs_77/c/0.log",
        "shop_kubelet_88/c/0.log",
        "shop_other_66/c/0.log",
        "foreign/c/0.log",
        "a_b_c_d/c/0.log",
        "outside/c/0.log",
    ] {
        assert!(root.join(left).exists(), "{left}");
    }
}

/// Of pods that an earlier version of the agent started.
#[test]
fn logs_of_present_pods_get_their_owner() {
    let dir = tempfile::tempdir().unwrap();
    for file in ["shop_web_1b2c/c/0.log", "shop_kubelet_88/c/0.log"] {
        write(dir.path(), file);
    }
    let found = scan(dir.path(), &HashSet::new()).unwrap();
    assert_eq!(unmarked(&found, &known(false)).collect::<Vec<_>>(), ["shop_web_1b2c"]);
    log_owner::mark(&dir.path().join("shop_web_1b2c"), "me").unwrap();
    let found = scan(dir.path(), &HashSet::new()).unwrap();
    assert_eq!(unmarked(&found, &known(false)).count(), 0);
}

#[test]
fn links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("logs");
    write(dir.path(), "outside/c/0.log");
    fs::create_dir_all(root.join("shop_web_1b2c")).unwrap();
    // Created after the scan.
    symlink(dir.path().join("outside/c"), root.join("shop_web_1b2c/c")).unwrap();
    symlink(dir.path().join("outside"), root.join("shop_gone_99")).unwrap();
    let run = Orphan::Run { directory: "shop_web_1b2c".into(), container: "c".into(), name: "0.log".into() };
    assert!(remove(&root, &run).is_err());
    let run = Orphan::Run { directory: "shop_gone_99".into(), container: "c".into(), name: "0.log".into() };
    assert!(remove(&root, &run).is_err());
    let pod = Orphan::Pod { directory: "shop_gone_99".into(), uid: "99".into() };
    assert!(remove(&root, &pod).is_err());
    assert!(dir.path().join("outside/c/0.log").exists());
}
