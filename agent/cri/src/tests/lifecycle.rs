//! The life of a pod in a real containerd, and the effect of a restart of containerd on the connection.
//! Skipped without containerd.

use std::time::{Duration, Instant};

use nodewarden_proto::runtime::v1 as cri;

use crate::containerd_fixture::{Containerd, IMAGE, container_config, sandbox_config};
use crate::*;

/// A container that runs a shell script.
fn shell(name: &str, script: &str) -> cri::ContainerConfig {
    let command = ["/bin/busybox", "sh", "-c", script].map(String::from).to_vec();
    cri::ContainerConfig { command, log_path: format!("{name}/0.log"), ..container_config(name) }
}

async fn run(
    client: &Client,
    sandbox: &str,
    pod: &cri::PodSandboxConfig,
    config: cri::ContainerConfig,
) -> String {
    let id = client.create_container(sandbox, config, pod.clone()).await.unwrap();
    client.start_container(&id).await.unwrap();
    id
}

async fn ended(client: &Client, id: &str) -> cri::ContainerStatus {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let status = client.container_status(id).await.unwrap();
        if status.state() == cri::ContainerState::ContainerExited {
            return status;
        }
        assert!(Instant::now() < deadline, "{status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_from_its_start_to_its_removal() {
    const UID: &str = "1d3c0a3e-6d1f-4c1e-8a53-5f3d0a0e77a1";
    let Some(containerd) = Containerd::start() else { return };
    let client = Client::new(&containerd.endpoint());
    assert_eq!(client.image(IMAGE).await.unwrap(), None);
    if !containerd.import_image() {
        return;
    }
    let image = client.image(IMAGE).await.unwrap().unwrap();
    assert!(image.repo_tags.iter().any(|tag| tag == IMAGE), "{image:?}");
    let events = client.events().await.unwrap();
    let old = client.version().await.unwrap().version.trim_start_matches('v').starts_with("1.6");
    assert_eq!(events.is_none(), old);

    let mut pod = sandbox_config("web-0", UID, &format!("{}/pod{UID}", containerd.cgroup_root()));
    pod.log_directory = containerd.logs().join("shop_web-0").to_string_lossy().into_owned();
    std::fs::create_dir_all(&pod.log_directory).unwrap();
    let sandbox = client.run_sandbox(pod.clone()).await.unwrap();
    assert_eq!(client.sandbox_status(&sandbox).await.unwrap().state(), cri::PodSandboxState::SandboxReady);

    // Only the pod with the label is listed.
    let other_uid = "0e7c2d54-93c2-4bd1-8d1e-1f6f5e9e6c11";
    let other = sandbox_config("web-1", other_uid, &format!("{}/pod{other_uid}", containerd.cgroup_root()));
    let other = client.run_sandbox(other).await.unwrap();
    let mut config = shell("main", "echo out; echo oops >&2; exit 3");
    config.labels.insert("io.kubernetes.pod.uid".into(), UID.into());
    let main = run(&client, &sandbox, &pod, config).await;
    let listing = client.list_pod(UID).await.unwrap();
    assert_eq!(listing.sandboxes.iter().map(|s| &s.id).collect::<Vec<_>>(), [&sandbox]);
    assert_eq!(listing.containers.iter().map(|c| &c.id).collect::<Vec<_>>(), [&main]);
    let named = client.list_owned("io.kubernetes.container.name", "main").await.unwrap();
    assert_eq!((named.sandboxes.len(), named.containers.len()), (0, 1));
    assert_eq!(client.list().await.unwrap().sandboxes.len(), 2);

    // Its exit status and termination message.
    let status = ended(&client, &main).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (3, "Error"));
    let log = std::path::Path::new(&pod.log_directory).join("main/0.log");
    assert_eq!(status.log_path, log.to_string_lossy());
    let text = String::from_utf8(
        logs::tail(&logs::LogPath::new(std::path::Path::new(&pod.log_directory), "main/0.log"), 80, 2048)
            .unwrap(),
    )
    .unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["oops", "out"]);

    // TERM is ignored, so it is killed after the grace period.
    let stubborn =
        run(&client, &sandbox, &pod, shell("stubborn", "trap '' TERM; while :; do sleep 1; done")).await;
    let yes = client
        .exec_sync(
            &stubborn,
            &["/bin/busybox".into(), "sh".into(), "-c".into(), "echo yes; echo no >&2; exit 7".into()],
            Some(Duration::from_secs(5)),
        )
        .await
        .unwrap();
    assert_eq!(yes, ExecOutput { exit_code: 7, stdout: b"yes\n".to_vec(), stderr: b"no\n".to_vec() });
    let sleep = ["/bin/busybox", "sleep", "60"].map(String::from);
    let late = client.exec_sync(&stubborn, &sleep, Some(Duration::from_millis(300))).await.unwrap_err();
    assert!(late.is_timed_out(), "{late}");
    let resources = cri::LinuxContainerResources { cpu_shares: 512, ..Default::default() };
    client.update_resources(&stubborn, resources).await.unwrap();
    let began = Instant::now();
    client.stop_container(&stubborn, Duration::from_secs(1)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(ended(&client, &stubborn).await.exit_code, 137);

    // The error of a container that cannot be started has the reason.
    let config = cri::ContainerConfig { command: vec!["/none".into()], ..container_config("none") };
    let none = client.create_container(&sandbox, config, pod.clone()).await.unwrap();
    let error = client.start_container(&none).await.unwrap_err();
    assert!(error.message().contains("/none") && !error.is_unavailable(), "{error}");

    // Each call twice: stopping or removing what does not exist succeeds.
    for _ in 0..2 {
        client.remove_container(&main).await.unwrap();
        client.stop_sandbox(&sandbox).await.unwrap();
        client.remove_sandbox(&sandbox).await.unwrap();
        client.remove_sandbox(&other).await.unwrap();
        client.stop_container(&stubborn, Duration::ZERO).await.unwrap();
    }
    let missing = client.container_status(&main).await.unwrap_err();
    assert!(missing.is_not_found() && missing.to_string().contains(&main), "{missing}");
    assert!(client.sandbox_status(&sandbox).await.unwrap_err().is_not_found());
    assert_eq!(client.list().await.unwrap(), Listing::default());

    // No registry exists at this name; the error is that of the runtime.
    let error = client.pull_as("localhost:1/none:1", pod, None).await.unwrap_err();
    assert!(!error.is_unavailable() && error.to_string().contains("PullImage localhost:1/none:1"), "{error}");
}

/// The first call after the restart reopens the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containerd_is_killed_and_started_again() {
    let Some(mut containerd) = Containerd::start() else { return };
    let client = Client::new(&containerd.endpoint());
    if !containerd.import_image() {
        return;
    }
    let uid = "6a0c3f1d-2f5b-4a0e-9a6c-6f1e9a1c2b3d";
    let pod = sandbox_config("web-0", uid, &format!("{}/pod{uid}", containerd.cgroup_root()));
    let sandbox = client.run_sandbox(pod.clone()).await.unwrap();
    let id = run(&client, &sandbox, &pod, shell("main", "while :; do sleep 1; done")).await;
    for _ in 0..2 {
        // A call in progress ends when the connection breaks, not at its time limit.
        let waiting = client.clone();
        let (container, began) = (id.clone(), Instant::now());
        let call = tokio::spawn(async move {
            let sleep = ["/bin/busybox", "sleep", "60"].map(String::from);
            waiting.exec_sync(&container, &sleep, None).await
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        containerd.kill();
        let broken = call.await.unwrap().unwrap_err();
        assert!(broken.is_unavailable() && began.elapsed() < Duration::from_secs(5), "{broken}");
        // No process listens on the socket. The first call may still use the broken connection.
        for n in 0..3 {
            let away = client.list().await.unwrap_err();
            assert!(away.is_unavailable(), "{away:?}");
            let refused = away.cause().ends_with("Connection refused (os error 111)");
            assert!(refused || n == 0, "call {n}: {away:?}");
        }
        containerd.spawn_again();
        // Until it is up, every call fails as unavailable; then everything works.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match client.container_status(&id).await {
                Ok(status) => {
                    assert_eq!(status.state(), cri::ContainerState::ContainerRunning);
                    break;
                }
                Err(e) => assert!(e.is_unavailable() && Instant::now() < deadline, "{e}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(client.list_pod(uid).await.unwrap().sandboxes.len(), 1);
    }
    client.stop_container(&id, Duration::ZERO).await.unwrap();
    client.remove_sandbox(&sandbox).await.unwrap();
}
