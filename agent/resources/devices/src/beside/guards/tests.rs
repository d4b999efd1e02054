//! Rounds on files and device nodes that the tests make, without a kernel program.

use std::sync::Arc;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nodewarden_machine::cgroup::fixture::TestTree;
use nodewarden_manifest::fixture;
use nodewarden_model::{DevicesPerNuma, HostDeviceKind};
use nodewarden_proto::deviceplugin::v1beta1::{ContainerAllocateResponse, DeviceSpec};
use prost::Message;

use super::super::kubelet::{AnsweredContainer, AnsweredPod};
use super::super::loss::Changed;
use super::*;
use crate::checkpoint::PodDevicesEntry;

/// A node with one device, which a pod has.
struct Node {
    guards: BesideGuards,
    dir: tempfile::TempDir,
    tree: TestTree,
}

impl Node {
    fn make(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            nodewarden_testing::skip("not root");
            return None;
        }
        let tree = TestTree::make(name)?;
        tree.group("podu/c1");
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dev")).unwrap();
        let settings = Settings {
            mode: Enforcement::Enforce,
            plugin_directory: dir.path().to_owned(),
            host_root: dir.path().to_owned(),
            extra: BTreeMap::new(),
            has_runtime: true,
        };
        let node = Self { guards: BesideGuards::new(settings, (*tree.layout).clone()), dir, tree };
        node.make_device(1);
        let spec = DeviceSpec {
            container_path: "/dev/c".into(),
            host_path: "/dev/x".into(),
            permissions: "rw".into(),
        };
        let response = ContainerAllocateResponse { devices: vec![spec], ..Default::default() };
        let entry = PodDevicesEntry {
            pod_uid: uid(),
            container_name: "c".into(),
            resource_name: "a.b/c".into(),
            device_ids: ids(),
            alloc_resp: Some(response.encode_to_vec()),
        };
        let checkpoint = Checkpoint { entries: vec![Arc::new(entry)], ..Checkpoint::default() };
        std::fs::write(node.dir.path().join("kubelet_internal_checkpoint"), checkpoint.to_bytes()).unwrap();
        Some(node)
    }

    fn make_device(&self, minor: u64) {
        let path = self.dir.path().join("dev/x");
        let _none = std::fs::remove_file(&path);
        mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(240, minor)).unwrap();
    }

    fn seen(&self) -> Seen {
        let container = SeenContainer {
            name: "c".into(),
            id: "c1".into(),
            cgroup: self.tree.path("podu/c1"),
            has_rules: true,
        };
        Seen { pod: pod(), opted_out: false, cgroup: self.tree.path("podu"), containers: vec![container] }
    }

    fn round(&mut self) -> Round {
        let seen = [self.seen()];
        self.guards.round(Ok(&answer()), &seen, &|_, _| Some(uid()))
    }
}

fn pod() -> Arc<Pod> {
    fixture::pod(serde_json::json!({ "containers": [{ "name": "c", "image": "i" }] }))
}

fn uid() -> String {
    pod().uid.clone()
}

fn ids() -> DevicesPerNuma {
    DevicesPerNuma::from([(-1, ["d1".to_owned()].into())])
}

fn answer() -> Answer {
    let container = AnsweredContainer {
        name: "c".into(),
        devices: [("a.b/c".to_owned(), ids())].into(),
        ..AnsweredContainer::default()
    };
    let (namespace, name) = (pod().namespace.clone(), pod().name.clone());
    Answer { pods: vec![AnsweredPod { namespace, name, containers: vec![container] }], allocatable: None }
}

#[test]
fn who_has_what_is_shown_and_a_device_that_is_another_one_is_lost() {
    let Some(mut node) = Node::make("beside-round") else { return };
    let round = node.round();
    assert!(round.changes.is_empty() && round.problems.is_empty(), "{round:?}");
    let view = node.guards.shown().view();
    let device = &view.resources[0].devices[0];
    assert_eq!(
        (&*view.resources[0].name, &*device.id, &device.nodes[..]),
        ("a.b/c", "d1", &["/dev/x".to_owned()][..])
    );
    assert_eq!(
        device.owner.as_ref().map(|own| (own.uid.clone(), own.container.clone())),
        Some((uid(), "c".into()))
    );
    assert!(view.by_kubelet && device.problem.is_empty(), "{view:?}");

    node.make_device(2);
    let changes = node.round().changes;
    assert_eq!((changes.len(), node.guards.losses.count()), (1, 1));
    let expected =
        "/dev/x (c 240:1) can no longer be opened: /dev/x is c 240:2 now, and the container has c 240:1";
    assert_eq!((changes[0].changed, &*changes[0].message), (Changed::Lost, expected));
    let problem = node.guards.shown().view().resources[0].devices[0].problem.clone();
    assert!(problem.starts_with("/dev/x can no longer be opened: /dev/x is c 240:2 now"), "{problem}");
    node.make_device(1);
    assert_eq!(node.round().changes[0].changed, Changed::Back);

    // Without an answer what was given is still looked at, and the reason is shown.
    std::fs::remove_file(node.dir.path().join("dev/x")).unwrap();
    let seen = [node.seen()];
    let round = node.guards.round(Err("away"), &seen, &|_, _| None);
    assert_eq!((round.changes.len(), &round.problems[..]), (1, &["away".to_owned()][..]));
    assert_eq!(node.guards.shown().view().problems, ["away"]);
    // A container that has ended has lost nothing.
    assert!(node.guards.round(Err("away"), &[], &|_, _| None).changes.is_empty());
    assert_eq!(node.guards.losses.count(), 0);
}

#[test]
fn the_runtime_is_asked_once_for_each_container_and_only_if_there_are_devices() {
    let Some(mut node) = Node::make("beside-ask") else { return };
    let seen = [node.seen()];
    let empty = Answer::default();
    assert!(node.guards.to_ask(&empty, &seen).is_empty());
    assert_eq!(node.guards.to_ask(&answer(), &seen), ["c1"]);
    let other = HostDevice { path: "/dev/y".into(), kind: HostDeviceKind::Char, major: 240, minor: 9 };
    node.guards.set_runtime_devices("c1".into(), vec![other]);
    assert!(node.guards.to_ask(&answer(), &seen).is_empty());
    node.round();
    assert_eq!(node.guards.watched.keys().map(|(_, _, minor)| *minor).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_pod_is_listed_only_with_all_that_the_checkpoint_has_of_it() {
    let Some(node) = Node::make("beside-listed") else { return };
    let known = checkpoint(node.dir.path()).unwrap();
    let mut without = answer();
    without.pods[0].containers[0].devices.clear();
    let held = |answer: &Answer| {
        let sources = Sources {
            checkpoint: known.as_ref(),
            cdi: &Cdi::default(),
            extra: &BTreeMap::new(),
            uid: &|_, _| Some(uid()),
            nodes: &|_| Some(Vec::new()),
        };
        held(answer, &sources)
    };
    for (answer, expected) in [(answer(), true), (without, false), (Answer::default(), false)] {
        let held = held(&answer);
        let own: Vec<&Held> = held.iter().collect();
        assert_eq!(is_listed(&pod(), &own, &answer, known.as_ref()), expected, "{answer:?}");
    }
}
