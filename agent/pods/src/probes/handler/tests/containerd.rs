//! Commands in a real container. Skipped without containerd.

use super::*;
use nodewarden_cri::containerd_fixture::{Containerd, container_config, sandbox_config};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_a_real_runtime() {
    const UID: &str = "7c0f8a1e-5b7e-4a55-9c0e-2f4d1c9b8e31";
    let Some(mut containerd) = Containerd::start() else { return };
    if !containerd.import_image() {
        return;
    }
    let client = Client::new(&containerd.endpoint());
    let pod = sandbox_config("web-0", UID, &format!("{}/pod{UID}", containerd.cgroup_root()));
    let sandbox = client.run_sandbox(pod.clone()).await.unwrap();
    let container = client.create_container(&sandbox, container_config("c"), pod).await.unwrap();
    client.start_container(&container).await.unwrap();
    let handlers = Handlers::new(client.clone());
    let of = |id: &str| Target { container_id: id.to_owned(), ..target(None) };
    let real = of(&container);
    let command = |words: &[&str], seconds| {
        let words = words.iter().map(ToString::to_string).collect();
        spec(ProbeHandler::Exec(words), Duration::from_secs(seconds))
    };
    let shell = |script: &str| command(&["/bin/busybox", "sh", "-c", script], 20);

    let done = handlers.probe(&real, &shell("echo out; echo err >&2")).await.unwrap();
    assert_eq!(done, answer(Outcome::Success, "out\nerr\n"));
    let done = handlers.probe(&real, &shell("echo no >&2; exit 3")).await.unwrap();
    assert_eq!(done, answer(Outcome::Failure, "no\n"));
    let flood = |bytes| {
        shell(&format!("f() {{ /bin/busybox yes | /bin/busybox head -c {bytes}; }}; f; f >&2; exit 1"))
    };
    let done = handlers.probe(&real, &flood(5_000_000)).await.unwrap();
    assert_eq!(done, answer(Outcome::Failure, "y\n".repeat(LONGEST_OUTPUT / 2)));
    // One second is the minimum time-out.
    let late = handlers.probe(&real, &command(&["/bin/busybox", "sleep", "60"], 1)).await.unwrap();
    assert_eq!(late, answer(Outcome::Failure, "command \"/bin/busybox sleep 60\" timed out"));

    // A command that cannot be run says nothing about the application.
    let none = handlers.probe(&real, &command(&["/none"], 20)).await.unwrap_err();
    assert!(matches!(none, ProbeError::Exec { .. }) && none.to_string().contains("/none"), "{none}");
    // Nor is the exit status known of a command whose output exceeds what the runtime sends.
    let lost = handlers.probe(&real, &flood(20_000_000)).await.unwrap_err();
    assert!(
        matches!(lost, ProbeError::Exec { .. }) && lost.to_string().contains("larger than max"),
        "{lost}"
    );
    let missing = handlers.probe(&of("missing"), &shell("true")).await.unwrap_err();
    assert!(matches!(missing, ProbeError::Exec { .. }), "{missing}");
    client.stop_container(&container, Duration::ZERO).await.unwrap();
    let ended = handlers.probe(&real, &shell("true")).await.unwrap_err();
    assert!(matches!(ended, ProbeError::Exec { .. }), "{ended}");
    client.remove_sandbox(&sandbox).await.unwrap();
    containerd.kill();
    let away = handlers.probe(&real, &shell("true")).await.unwrap_err();
    assert!(matches!(away, ProbeError::Exec { .. }), "{away}");
}
