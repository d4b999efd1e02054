//! Admission with plugins on real sockets and a checkpoint on disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_config::DeviceSettings;
use nodewarden_manifest::ContainerKind;
use parking_lot::Mutex;
use tonic::Status;

use crate::checkpoint::CheckpointFile;
use crate::plugin::fixture::{FakePlugin, Script, register, request, until};
use crate::{AdmissionError, ContainerDemand, DeviceEvent, DeviceTasks, Devices, PodDemand, Refusal};

const GPU: &str = "v.com/gpu";

struct Fixture {
    dir: tempfile::TempDir,
    devices: Devices,
    _tasks: DeviceTasks,
    events: Arc<Mutex<Vec<DeviceEvent>>>,
}

impl Fixture {
    async fn start() -> Self {
        Self::at(tempfile::tempdir().expect("a directory")).await
    }

    async fn at(dir: tempfile::TempDir) -> Self {
        let settings = DeviceSettings {
            kubelet_dir: dir.path().to_owned(),
            plugin_timeout: Duration::from_millis(300),
            ..DeviceSettings::default()
        };
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = events.clone();
        let (devices, tasks) =
            Devices::start(&settings, Arc::new(move |event| sink.lock().push(event))).await;
        Self { dir, devices, _tasks: tasks, events }
    }

    async fn plugin(&self, resource: &str, script: Script) -> FakePlugin {
        let dir = self.dir.path().join("device-plugins");
        let count = script.devices.as_ref().map_or(0, Vec::len);
        let socket = dir.join(format!("{}.sock", resource.replace('/', "-")));
        let fake = FakePlugin::start(&socket, script);
        register(&dir, request(resource, fake.name())).await.expect("registered");
        until("its devices are there", || {
            self.devices
                .view(&[])
                .resources
                .iter()
                .any(|own| own.name == resource && own.allocatable == Some(count))
        })
        .await;
        fake
    }

    fn free(&self, resource: &str) -> usize {
        let view = self.devices.view(&[]);
        view.resources
            .iter()
            .filter(|own| own.name == resource)
            .map(|own| own.allocatable.unwrap_or_default() - own.allocated)
            .sum()
    }
}

fn pod(uid: &str, wanted: &[(&str, usize)]) -> PodDemand {
    let wanted: BTreeMap<String, usize> =
        wanted.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    let container = ContainerDemand { name: "c".into(), kind: ContainerKind::Regular, wanted };
    PodDemand { uid: uid.to_owned(), containers: vec![container] }
}

#[tokio::test]
async fn a_pod_is_given_all_or_nothing_and_keeps_it() {
    let fixture = Fixture::start().await;
    let _gpu = fixture.plugin(GPU, Script::good(&["a", "b", "c"])).await;
    let nic = fixture
        .plugin("v.com/nic", Script::good(&["n"]).refuses("Allocate", Status::internal("not today")))
        .await;

    let both = pod("both", &[(GPU, 2), ("v.com/nic", 1)]);
    let error = fixture.devices.admit(&both).await.expect_err("one plugin refuses");
    assert!(matches!(error, AdmissionError::Plugin(_)) && error.to_string().contains("not today"), "{error}");
    assert_eq!(error.reason().to_string(), "UnexpectedAdmissionError");
    assert_eq!((fixture.free(GPU), fixture.free("v.com/nic")), (3, 1), "nothing stays reserved");

    nic.script(|script| script.misbehaviour.clear());
    let given = fixture.devices.admit(&both).await.expect("both answer").expect("something is given");
    assert!(given.description.contains("v.com/nic n"), "{}", given.description);
    assert_eq!(fixture.devices.admit(&both).await.expect("again"), None, "it has everything");
    let file = CheckpointFile::new(fixture.dir.path().join("device-plugins"));
    let saved = file.load().expect("whole").expect("there");
    assert_eq!(saved.entries.len(), 2, "on disk when it returns");

    let error = fixture.devices.admit(&pod("more", &[(GPU, 2)])).await.expect_err("one is free");
    assert_eq!(error.reason().to_string(), "OutOfv.com/gpu");
    assert!(error.to_string().contains("requested: 2, free: 1, capacity: 3"), "{error}");
    let mut changes = fixture.devices.changes();
    fixture.devices.release("both");
    assert!(changes.has_changed().expect("alive"), "waiting pods are woken");
    assert_eq!((fixture.free(GPU), fixture.free("v.com/nic")), (3, 1));
    changes.mark_unchanged();

    let error = fixture.devices.admit(&pod("none", &[("o.com/x", 1)])).await.expect_err("no plugin has it");
    assert!(matches!(error, AdmissionError::Refused(Refusal::Unknown { .. })), "{error}");
}

#[tokio::test]
async fn an_admission_dropped_during_a_call_leaves_nothing_reserved() {
    let fixture = Fixture::start().await;
    let gpu = fixture.plugin(GPU, Script::good(&["a", "b"]).hangs("Allocate")).await;
    let wanted = pod("p", &[(GPU, 1)]);
    let cut = tokio::time::timeout(Duration::from_millis(100), fixture.devices.admit(&wanted)).await;
    assert!(cut.is_err(), "it hangs");
    assert_eq!(fixture.free(GPU), 2);
    let error = fixture.devices.admit(&wanted).await.expect_err("it never answers");
    assert!(matches!(error, AdmissionError::Plugin(_)), "{error}");
    assert_eq!(fixture.free(GPU), 2);
    gpu.script(|script| script.misbehaviour.clear());
    assert!(fixture.devices.admit(&wanted).await.expect("it answers").is_some());
}

#[tokio::test]
async fn a_pod_is_admitted_when_the_plugin_does_not_answer_for_its_preference() {
    let fixture = Fixture::start().await;
    let _gpu = fixture.plugin(GPU, Script::good(&["a", "b"]).hangs("GetPreferredAllocation")).await;
    assert!(fixture.devices.admit(&pod("p", &[(GPU, 1)])).await.expect("it is only advice").is_some());
}

#[tokio::test]
async fn a_restarted_agent_keeps_allocations_and_frees_stale_pods_at_the_second_look() {
    let fixture = Fixture::start().await;
    let gpu = fixture.plugin(GPU, Script::good(&["a", "b"])).await;
    for uid in ["stays", "goes"] {
        fixture.devices.admit(&pod(uid, &[(GPU, 1)])).await.expect("given");
    }
    let had = fixture.devices.allocations("stays");
    let Fixture { dir, devices, _tasks: tasks, .. } = fixture;
    drop((devices, tasks, gpu));

    let fixture = Fixture::at(dir).await;
    assert_eq!(fixture.devices.allocations("stays"), had);
    let error = fixture.devices.admit(&pod("new", &[(GPU, 1)])).await.expect_err("its plugin is not back");
    assert_eq!(error.reason().to_string(), "DevicePluginNotReady");
    assert_eq!(fixture.devices.admit(&pod("stays", &[(GPU, 1)])).await.expect("it has it"), None);
    fixture.devices.claim("stays");
    fixture.devices.free_stale(|_| true);
    assert_eq!(fixture.devices.stale().len(), 1, "a manifest may be about to come");
    fixture.devices.free_stale(|_| true);
    assert!(fixture.devices.stale().is_empty() && fixture.devices.allocations("goes").is_empty());
    assert!(fixture.events.lock().iter().any(
        |event| matches!(event, DeviceEvent::Plugin { reason: "DevicesFreed", message } if message.contains("goes"))
    ));
    let _gpu = fixture.plugin(GPU, Script::good(&["a", "b"])).await;
    assert!(fixture.devices.admit(&pod("new", &[(GPU, 1)])).await.expect("one is free").is_some());
}

#[tokio::test]
async fn recovery_is_still_needed_when_the_agent_restarts_before_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let plugins = dir.path().join("device-plugins");
    std::fs::create_dir_all(&plugins).expect("a directory");
    std::fs::write(plugins.join("kubelet_internal_checkpoint"), "{").expect("a damaged file");
    let fixture = Fixture::at(dir).await;
    // A plugin's registration changes the checkpoint, but nothing is saved before the containers' devices are
    // known.
    let gpu = fixture.plugin(GPU, Script::good(&["a"])).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let Fixture { dir, devices, _tasks: tasks, .. } = fixture;
    drop((devices, tasks, gpu));

    let fixture = Fixture::at(dir).await;
    let _gpu = fixture.plugin(GPU, Script::good(&["a"])).await;
    let error =
        fixture.devices.admit(&pod("new", &[(GPU, 1)])).await.expect_err("the runtime was not asked yet");
    assert!(matches!(error, AdmissionError::Recovering), "{error}");
    let ids = BTreeMap::from([(-1, std::collections::BTreeSet::from(["a".to_owned()]))]);
    fixture.devices.recovered(vec![("old".into(), "c".into(), BTreeMap::from([(GPU.to_owned(), ids)]))]);
    let error = fixture.devices.admit(&pod("new", &[(GPU, 1)])).await.expect_err("a container has it");
    assert_eq!(error.reason().to_string(), "OutOfv.com/gpu");
    until("it is saved", || plugins.join("kubelet_internal_checkpoint").exists()).await;
}
