//! Admission with real plugins on real sockets, and a checkpoint on the disk.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tonic::Status;

use super::checkpoint::CheckpointFile;
use super::plugin::fixture::{Fake, Script, register, request, until};
use super::{AdmissionError, ContainerDemand, Devices, Note, PodDemand, Refusal, Serving};
use nodewarden_config::DeviceSettings;
use nodewarden_manifest::ContainerKind;

const GPU: &str = "v.com/gpu";

struct Node {
    dir: tempfile::TempDir,
    devices: Devices,
    _serving: Serving,
    notes: Arc<Mutex<Vec<Note>>>,
}

impl Node {
    async fn start() -> Self {
        Self::at(tempfile::tempdir().expect("a directory")).await
    }

    async fn at(dir: tempfile::TempDir) -> Self {
        let settings = DeviceSettings {
            kubelet_dir: dir.path().to_owned(),
            plugin_timeout: Duration::from_millis(300),
            ..DeviceSettings::default()
        };
        let notes = Arc::new(Mutex::new(Vec::new()));
        let noted = notes.clone();
        let (devices, serving) =
            Devices::start(&settings, Arc::new(move |note| noted.lock().push(note))).await;
        Self { dir, devices, _serving: serving, notes }
    }

    async fn plugin(&self, resource: &str, script: Script) -> Fake {
        let dir = self.dir.path().join("device-plugins");
        let count = script.devices.as_ref().map_or(0, Vec::len);
        let socket = dir.join(format!("{}.sock", resource.replace('/', "-")));
        let fake = Fake::start(&socket, script);
        register(&dir, request(resource, fake.name())).await.expect("registered");
        until("its devices are there", || {
            self.devices
                .view(&[])
                .resources
                .iter()
                .any(|own| own.name == resource && own.allocatable == count)
        })
        .await;
        fake
    }

    fn free(&self, resource: &str) -> usize {
        let view = self.devices.view(&[]);
        view.resources
            .iter()
            .filter(|own| own.name == resource)
            .map(|own| own.allocatable - own.allocated)
            .sum()
    }
}

fn pod(uid: &str, wanted: &[(&str, usize)]) -> PodDemand {
    let wanted: BTreeMap<String, usize> =
        wanted.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    let container = ContainerDemand { name: "c".into(), kind: ContainerKind::Ordinary, wanted };
    PodDemand { uid: uid.to_owned(), containers: vec![container] }
}

#[tokio::test]
async fn a_pod_is_given_all_or_nothing_and_keeps_it() {
    let node = Node::start().await;
    let _gpu = node.plugin(GPU, Script::good(&["a", "b", "c"])).await;
    let nic = node
        .plugin("v.com/nic", Script::good(&["n"]).refuses("Allocate", Status::internal("not today")))
        .await;

    let both = pod("both", &[(GPU, 2), ("v.com/nic", 1)]);
    let error = node.devices.admit(&both).await.expect_err("one plugin refuses");
    assert!(matches!(error, AdmissionError::Plugin(_)) && error.to_string().contains("not today"), "{error}");
    assert_eq!(error.reason(), "UnexpectedAdmissionError");
    assert_eq!((node.free(GPU), node.free("v.com/nic")), (3, 1), "nothing stays taken");

    nic.script(|script| script.does.clear());
    let given = node.devices.admit(&both).await.expect("both answer").expect("something is given");
    assert!(given.told.contains("v.com/nic n"), "{}", given.told);
    assert_eq!(node.devices.admit(&both).await.expect("again"), None, "it has everything");
    let file = CheckpointFile::new(node.dir.path().join("device-plugins"));
    let saved = file.load().expect("whole").expect("there");
    assert_eq!(saved.entries.len(), 2, "on disk when it returns");

    let error = node.devices.admit(&pod("more", &[(GPU, 2)])).await.expect_err("one is free");
    assert_eq!(error.reason(), "OutOfv.com/gpu");
    assert!(error.to_string().contains("requested: 2, free: 1, capacity: 3"), "{error}");
    let mut changes = node.devices.changes();
    node.devices.release("both");
    assert!(changes.has_changed().expect("alive"), "who waits is woken");
    assert_eq!((node.free(GPU), node.free("v.com/nic")), (3, 1));
    changes.mark_unchanged();

    let error = node.devices.admit(&pod("none", &[("o.com/x", 1)])).await.expect_err("nobody has it");
    assert!(matches!(error, AdmissionError::Refused(Refusal::Unknown { .. })), "{error}");
}

#[tokio::test]
async fn what_is_dropped_in_a_call_leaves_nothing() {
    let node = Node::start().await;
    let gpu = node.plugin(GPU, Script::good(&["a", "b"]).hangs("Allocate")).await;
    let wanted = pod("p", &[(GPU, 1)]);
    let cut = tokio::time::timeout(Duration::from_millis(100), node.devices.admit(&wanted)).await;
    assert!(cut.is_err(), "it hangs");
    assert_eq!(node.free(GPU), 2);
    let error = node.devices.admit(&wanted).await.expect_err("it never answers");
    assert!(matches!(error, AdmissionError::Plugin(_)), "{error}");
    assert_eq!(node.free(GPU), 2);
    gpu.script(|script| script.does.clear());
    assert!(node.devices.admit(&wanted).await.expect("it answers").is_some());
}

#[tokio::test]
async fn a_preference_that_does_not_come_is_done_without() {
    let node = Node::start().await;
    let _gpu = node.plugin(GPU, Script::good(&["a", "b"]).hangs("GetPreferredAllocation")).await;
    assert!(node.devices.admit(&pod("p", &[(GPU, 1)])).await.expect("it is only advice").is_some());
}

#[tokio::test]
async fn another_agent_goes_on_and_stale_pods_are_freed_at_the_second_look() {
    let node = Node::start().await;
    let gpu = node.plugin(GPU, Script::good(&["a", "b"])).await;
    for uid in ["stays", "goes"] {
        node.devices.admit(&pod(uid, &[(GPU, 1)])).await.expect("given");
    }
    let had = node.devices.allocations("stays");
    let Node { dir, devices, _serving: serving, .. } = node;
    drop((devices, serving, gpu));

    let node = Node::at(dir).await;
    assert_eq!(node.devices.allocations("stays"), had);
    let error = node.devices.admit(&pod("new", &[(GPU, 1)])).await.expect_err("its plugin is not back");
    assert_eq!(error.reason(), "DevicePluginNotReady");
    assert_eq!(node.devices.admit(&pod("stays", &[(GPU, 1)])).await.expect("it has it"), None);
    node.devices.claim("stays");
    node.devices.free_stale(|_| true);
    assert_eq!(node.devices.stale().len(), 1, "a manifest may be about to come");
    node.devices.free_stale(|_| true);
    assert!(node.devices.stale().is_empty() && node.devices.allocations("goes").is_empty());
    assert!(node.notes.lock().iter().any(
        |note| matches!(note, Note::Plugin { reason: "DevicesFreed", message } if message.contains("goes"))
    ));
    let _gpu = node.plugin(GPU, Script::good(&["a", "b"])).await;
    assert!(node.devices.admit(&pod("new", &[(GPU, 1)])).await.expect("one is free").is_some());
}

#[tokio::test]
async fn a_damaged_checkpoint_stays_unrecovered_through_a_death() {
    let dir = tempfile::tempdir().expect("a directory");
    let plugins = dir.path().join("device-plugins");
    std::fs::create_dir_all(&plugins).expect("a directory");
    std::fs::write(plugins.join("kubelet_internal_checkpoint"), "{").expect("a damaged file");
    let node = Node::at(dir).await;
    // A plugin's registration is worth saving, but not before what containers have is known.
    let gpu = node.plugin(GPU, Script::good(&["a"])).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let Node { dir, devices, _serving: serving, .. } = node;
    drop((devices, serving, gpu));

    let node = Node::at(dir).await;
    let _gpu = node.plugin(GPU, Script::good(&["a"])).await;
    let error =
        node.devices.admit(&pod("new", &[(GPU, 1)])).await.expect_err("the runtime was not asked yet");
    assert!(matches!(error, AdmissionError::Recovering), "{error}");
    let ids = BTreeMap::from([(-1, std::collections::BTreeSet::from(["a".to_owned()]))]);
    node.devices.recovered(vec![("old".into(), "c".into(), BTreeMap::from([(GPU.to_owned(), ids)]))]);
    let error = node.devices.admit(&pod("new", &[(GPU, 1)])).await.expect_err("a container has it");
    assert_eq!(error.reason(), "OutOfv.com/gpu");
    until("it is saved", || plugins.join("kubelet_internal_checkpoint").exists()).await;
}
