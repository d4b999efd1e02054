use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use super::*;
use crate::spec::fixture::{Fixture, pod};

const SPEC: &str = "
terminationGracePeriodSeconds: 7
volumes: [{name: v}, {name: d, downwardAPI: {items: [{path: in/labels, fieldRef: {fieldPath: metadata.labels}}, {path: cpu, mode: 256, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}]}}]
containers:
- name: c
  image: app:1
  command: [sh, -c, 'echo $(A) $(B)']
  args: [$(A)$$]
  workingDir: /w
  stdin: true
  tty: true
  env: [{name: A, value: 'a'}]
  lifecycle: {stopSignal: SIGUSR1}
  terminationMessagePolicy: FallbackToLogsOnError
  resources: {requests: {cpu: 100m}, limits: {cpu: 200m, memory: 32Mi}}
  volumeMounts: [{name: d, mountPath: /d}]
";

/// The facts about a run without devices.
fn beginning<'a>(
    attempt: u32,
    ips: &'a [IpAddr],
    image: &'a cri::Image,
    image_ref: &'a str,
) -> Beginning<'a> {
    static NOTHING: LazyLock<DeviceInjection> = LazyLock::new(DeviceInjection::default);
    static NO_OBJECTS: LazyLock<PodObjects> = LazyLock::new(PodObjects::default);
    Beginning { attempt, ips, image, image_ref, injection: &NOTHING, objects: &NO_OBJECTS }
}

/// The configuration of the container `name`, with the files that are mounted into it.
fn container_config(
    pod: &Pod,
    name: &str,
    beginning: &Beginning<'_>,
    host: &Host,
) -> Result<cri::ContainerConfig, SpecError> {
    let (config, files) = plan_container(pod, name, beginning, host)?;
    files.make(pod, host, beginning.objects)?;
    Ok(config)
}

fn ips() -> Vec<IpAddr> {
    vec!["10.0.0.1".parse().unwrap()]
}

#[test]
fn the_whole_configuration_of_a_container() {
    let fixture = Fixture::new();
    let pod = pod(SPEC);
    let image = cri::Image::default();
    let config =
        container_config(&pod, "c", &beginning(4, &ips(), &image, "sha256:abc"), &fixture.host()).unwrap();
    assert_eq!(config.metadata, Some(cri::ContainerMetadata { name: "c".into(), attempt: 4 }));
    let image = config.image.unwrap();
    assert_eq!((&*image.image, &*image.user_specified_image), ("sha256:abc", "app:1"));
    assert_eq!(config.command, ["sh", "-c", "echo a $(B)"]);
    assert_eq!(config.args, ["a$"]);
    assert_eq!((&*config.working_dir, &*config.log_path), ("/w", "c/4.log"));
    assert_eq!((config.stdin, config.stdin_once, config.tty), (true, false, true));
    assert_eq!(config.stop_signal, i32::from(cri::Signal::Sigusr1));
    assert_eq!(config.envs, [cri::KeyValue { key: "A".into(), value: b"a".to_vec() }]);
    assert_eq!(config.labels.len(), 5);
    assert_eq!(config.labels["io.kubernetes.container.name"], "c");
    for (key, value) in [
        ("io.kubernetes.container.restartCount", "4"),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        ("io.kubernetes.container.terminationMessagePolicy", "FallbackToLogsOnError"),
        ("io.kubernetes.pod.terminationGracePeriod", "7"),
    ] {
        assert_eq!(config.annotations[key], value, "{key}");
    }
    let resources = config.linux.unwrap().resources.unwrap();
    assert_eq!(
        (resources.cpu_shares, resources.cpu_quota, resources.memory_limit_in_bytes),
        (102, 20_000, 32 << 20)
    );
}

#[test]
fn files_are_created_and_the_termination_message_is_kept() {
    let fixture = Fixture::new();
    let pod = pod(SPEC);
    let paths = fixture.paths(&pod);
    let make = || {
        container_config(&pod, "c", &beginning(4, &ips(), &cri::Image::default(), "i"), &fixture.host())
            .unwrap();
    };
    make();
    assert!(paths.log_dir("c").is_dir());
    let log = paths.termination_log("c", 4);
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o666);
    assert!(fs::read_to_string(paths.hosts()).unwrap().contains("10.0.0.1\tp\n"));
    let volume = paths.downward_api("d");
    assert_eq!(fs::read_to_string(volume.join("in/labels")).unwrap(), "app=\"web\"\ntier=\"front\"");
    assert_eq!(fs::read_to_string(volume.join("cpu")).unwrap(), "200");
    assert_eq!(fs::metadata(volume.join("cpu")).unwrap().permissions().mode() & 0o777, 0o400);
    fs::write(&log, "why").unwrap();
    make();
    assert_eq!(fs::read_to_string(&log).unwrap(), "why");
}

#[test]
fn impossible_configurations_are_refused() {
    let fixture = Fixture::new();
    let refused = |spec: &str, name: &str| {
        let error = container_config(
            &pod(spec),
            name,
            &beginning(0, &[], &cri::Image::default(), "i"),
            &fixture.host(),
        );
        error.unwrap_err().to_string()
    };
    assert_eq!(refused("containers: [{name: c}]", "x"), "the pod has no container \"x\"");
    assert_eq!(
        refused("containers: [{name: c, lifecycle: {stopSignal: SIGFOO}}]", "c"),
        "stopSignal \"SIGFOO\" is not a signal known to runtimes"
    );
    // A refused container leaves nothing on the disk.
    assert!(!fixture.host().state_pods.exists());
}

/// The hash covers only name and image.
#[test]
fn the_hash_changes_with_the_image() {
    let hash = |spec: &str| {
        let pod = pod(spec);
        labels::container_annotations(&pod, &pod.spec().containers[0], 0)["io.kubernetes.container.hash"]
            .clone()
    };
    let same = hash("containers: [{name: c, image: i}]");
    assert_eq!(same, hash("containers: [{name: c, image: i, tty: true}]"));
    assert_ne!(same, hash("containers: [{name: c, image: j}]"));
}

#[test]
fn grace_periods() {
    let of = |text: &str| {
        nodewarden_manifest::grace(&pod(&format!("{text}\ncontainers: [{{name: c}}]"))).as_secs()
    };
    assert_eq!(
        [of(""), of("terminationGracePeriodSeconds: 0"), of("terminationGracePeriodSeconds: 5")],
        [30, 0, 5]
    );
    assert_eq!(of("terminationGracePeriodSeconds: -3"), 1);
}

#[test]
fn a_pod_on_the_host_network_has_the_nodes_addresses() {
    let fixture = Fixture::new();
    let spec = "hostNetwork: true\ncontainers: [{name: c, env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}]}]";
    let pod = pod(spec);
    fs::create_dir_all(fixture.paths(&pod).pod_dir).unwrap();
    let config =
        container_config(&pod, "c", &beginning(0, &[], &cri::Image::default(), "i"), &fixture.host())
            .unwrap();
    assert_eq!(config.envs[0].value, b"192.0.2.1,2001:db8::1");
    assert!(fs::read_to_string(fixture.paths(&pod).hosts()).unwrap().contains("(host network)"));
}

#[test]
fn old_termination_messages_are_removed() {
    let fixture = Fixture::new();
    let pod = pod("containers: [{name: c}]");
    for attempt in 0..5 {
        let image = cri::Image::default();
        container_config(&pod, "c", &beginning(attempt, &[], &image, "i"), &fixture.host()).unwrap();
    }
    let log = |attempt| fixture.paths(&pod).termination_log("c", attempt).exists();
    assert_eq!((0..5).map(log).collect::<Vec<_>>(), [false, false, false, true, true]);
}

#[test]
fn devices_add_variables_mounts_and_annotations() {
    let fixture = Fixture::new();
    let injection = DeviceInjection {
        envs: [("A", "other"), ("B", "given")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        mounts: vec![("/lib/x".into(), "/host/x".into(), true)],
        devices: vec![("/dev/x".into(), "/dev/host-x".into(), "rw".into())],
        annotations: [("note".to_owned(), "n".to_owned())].into(),
        cdi: ["v.com/c=1".to_owned()].into(),
        ids: [("a.b/c".to_owned(), [(0, ["d".to_owned()].into())].into())].into(),
        conflicts: Vec::new(),
    };
    let image = cri::Image::default();
    let beginning = Beginning { injection: &injection, ..beginning(0, &[], &image, "i") };
    let config = container_config(&pod(SPEC), "c", &beginning, &fixture.host()).unwrap();
    let envs: Vec<_> = config.envs.iter().map(|env| (env.key.as_str(), env.value.as_slice())).collect();
    assert_eq!(envs, [("B", b"given".as_slice()), ("A", b"a".as_slice())], "the manifest's own value counts");
    assert_eq!(config.command, ["sh", "-c", "echo a given"]);
    assert_eq!((&*config.mounts[0].container_path, config.mounts[0].readonly), ("/lib/x", true));
    let device = &config.devices[0];
    assert_eq!(
        (&*device.container_path, &*device.host_path, &*device.permissions),
        ("/dev/x", "/dev/host-x", "rw")
    );
    assert_eq!(config.cdi_devices[0].name, "v.com/c=1");
    assert_eq!(config.annotations["note"], "n");
    assert_eq!(config.annotations["nodewarden.io/devices"], r#"{"a.b/c":{"0":["d"]}}"#);
    assert!(config.annotations.len() > 4, "{:?}", config.annotations);
}

/// The review's scenario: a `subPath` of a `hostPath` on NFS or FUSE whose server does not answer.
#[tokio::test]
async fn a_sub_path_on_a_hung_file_system_blocks_no_async_worker() {
    let dir = tempfile::tempdir().unwrap();
    let Ok(_hung) = nodewarden_testing::HungFuse::mount(dir.path()) else {
        nodewarden_testing::skip("no FUSE file system can be mounted here");
        return;
    };
    let fixture = Fixture::new();
    let path = dir.path().display();
    let pod = pod(&format!(
        "volumes: [{{name: v, hostPath: {{path: {path}}}}}]\n\
         containers: [{{name: c, volumeMounts: [{{name: v, mountPath: /v, subPath: a/b}}]}}]"
    ));
    let image = cri::Image::default();
    let planned = plan_container(&pod, "c", &beginning(0, &ips(), &image, "i"), &fixture.host());
    let (_, mut files) = planned.unwrap();
    // There is one worker: if it were blocked, it would go on with the error that comes when the file system
    // ends by itself.
    let wait = std::time::Duration::from_millis(300);
    assert!(tokio::time::timeout(wait, files.hold_host_paths()).await.is_err(), "it is still being opened");
}
