//! Tests with a real containerd. Skipped without containerd.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::containerd_fixture::{Containerd, IMAGE, container_config, group_directories, sandbox_config};
use crate::*;
use nodewarden_machine::cgroup::control::DriverKind;
use nodewarden_machine::cgroup::identify;
use nodewarden_manifest::QosClass;
use nodewarden_model::{ContainerNames, Identity, PodNames};

const UID: &str = "9911b0ba-8d82-5259-9f90-48ee916d7a2f";

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_a_real_pod() {
    let Some(containerd) = Containerd::start() else { return };
    let client = Client::new(&containerd.endpoint());
    let version = client.version().await.unwrap();
    assert_eq!(version.name, "containerd");
    assert!(!version.version.is_empty());
    assert_eq!(client.list().await.unwrap(), Listing::default());
    let conditions = client.conditions().await.unwrap();
    assert!(conditions.iter().any(|c| c.kind == "RuntimeReady" && c.holds), "{conditions:?}");
    // 2.0 is the first version that reports it; the fixture's configuration has SystemdCgroup = false.
    let driver = client.cgroup_driver().await.unwrap();
    let tells = !version.version.trim_start_matches('v').starts_with("1.");
    assert_eq!(driver, tells.then_some(DriverKind::Cgroupfs), "{version}");

    let names = Names::new(&containerd.endpoint(), Duration::from_secs(120));
    until("the runtime is reached", || names.state() == State::Reached(version.clone())).await;
    if !containerd.import_image() {
        return;
    }

    // A pod as the kubelet creates it, on the host network.
    let parent = format!("{}/kubepods/burstable/pod{UID}", containerd.cgroup_root());
    let config = sandbox_config("web-0", UID, &parent);
    let sandbox = client.run_sandbox(config.clone()).await.unwrap();
    let container = client.create_container(&sandbox, container_config("nginx"), config).await.unwrap();
    client.start_container(&container).await.unwrap();

    // The cgroups are where identify() expects them, and their names are found without waiting.
    let pod = Some(Arc::new(PodNames { namespace: "shop".into(), name: "web-0".into() }));
    let of = |id: &str, sandbox, names| Identity::Container {
        pod_uid: UID.into(),
        qos: QosClass::Burstable,
        id: id.into(),
        runtime: String::new(),
        sandbox,
        pod: pod.clone(),
        names,
    };
    let nginx = Arc::new(ContainerNames { name: "nginx".into(), image: IMAGE.into() });
    let pod_expected = Identity::Pod { uid: UID.into(), qos: QosClass::Burstable, names: pod.clone() };
    let cases = [
        (parent.clone(), pod_expected),
        (format!("{parent}/{sandbox}"), of(&sandbox, true, None)),
        (format!("{parent}/{container}"), of(&container, false, Some(nginx))),
    ];
    for (path, expected) in &cases {
        assert!(!group_directories(path).is_empty(), "no cgroup {path}");
        let identity = Arc::new(identify(path));
        until(&format!("{path} is {expected:?}"), || *names.name(&identity) == *expected).await;
    }

    // Removed from the runtime, but the names are still known.
    client.stop_sandbox(&sandbox).await.unwrap();
    client.remove_sandbox(&sandbox).await.unwrap();
    assert_eq!(client.list().await.unwrap(), Listing::default());
    for (path, expected) in &cases {
        assert_eq!(*names.name(&Arc::new(identify(path))), *expected);
    }

    // The runtime stops: the state reports it, and the names are still known.
    let root = containerd.cgroup_root();
    drop(containerd);
    let unknown = Arc::new(identify("/kubepods/podunknown"));
    until("the runtime is away", || {
        names.name(&unknown);
        matches!(names.state(), State::Away(_))
    })
    .await;
    assert_eq!(*names.name(&Arc::new(identify(&cases[0].0))), cases[0].1);
    assert_eq!(group_directories(&root), Vec::<std::path::PathBuf>::new(), "cgroups left behind");
}
