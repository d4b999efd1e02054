//! Stopping a sandbox whose network result cannot be read, with a fake runtime that fails as containerd does.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nodewarden_proto::runtime::v1 as cri;
use tonic::Status;

use crate::runtime_fixture::{self, FakeRuntime};

/// Refuses StopPodSandbox with `message` while `result` exists; counts the calls.
struct Refuses {
    result: PathBuf,
    message: &'static str,
    calls: Arc<AtomicU32>,
}

#[tonic::async_trait]
impl FakeRuntime for Refuses {
    async fn stop_pod_sandbox(
        &self,
        _: cri::StopPodSandboxRequest,
    ) -> Result<cri::StopPodSandboxResponse, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.result.exists() {
            return Err(Status::unknown(self.message));
        }
        Ok(cri::StopPodSandboxResponse::default())
    }
}

/// What containerd 1.7.24 said after a power loss.
const UNREADABLE: &str = "failed to destroy network for sandbox \"5b1f0e7c\": plugin type=\"bridge\" failed \
                          (delete): failed to get network \"pods\" cached result: decoding version from \
                          network config: unexpected end of JSON input";

/// Whether the sandbox was stopped, the number of calls, and whether the result is still there.
async fn stop(message: &'static str, result: &str, text: &str) -> (bool, u32, bool) {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("results");
    fs::create_dir(&results).unwrap();
    let result = results.join(result);
    fs::write(&result, text).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let runtime = Refuses { result: result.clone(), message, calls: Arc::clone(&calls) };
    let mut client = runtime_fixture::serve(runtime, &directory.path().join("cri.sock"));
    client.cni_results = results.into();
    let stopped = client.stop_sandbox("5b1f0e7c").await;
    if let Err(error) = &stopped {
        assert_eq!(error.message(), message, "the runtime's own error is returned");
    }
    (stopped.is_ok(), calls.load(Ordering::Relaxed), result.exists())
}

#[tokio::test]
async fn an_unreadable_result_is_removed_and_the_sandbox_stopped() {
    assert_eq!(stop(UNREADABLE, "pods-5b1f0e7c-eth0", "").await, (true, 2, false));
}

#[tokio::test]
async fn a_readable_result_and_other_errors_and_sandboxes_are_left_alone() {
    let name = "pods-5b1f0e7c-eth0";
    assert_eq!(stop(UNREADABLE, name, "{}").await, (false, 1, true));
    assert_eq!(stop(UNREADABLE, "pods-99999999-eth0", "").await, (false, 1, true));
    assert_eq!(stop("the network plugin is not ready", name, "").await, (false, 1, true));
}

#[tokio::test]
async fn without_a_directory_of_results_the_error_of_the_runtime_is_returned() {
    let directory = tempfile::tempdir().unwrap();
    let result = directory.path().join("result");
    fs::write(&result, "").unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let runtime = Refuses { result, message: UNREADABLE, calls };
    let mut client = runtime_fixture::serve(runtime, &directory.path().join("cri.sock"));
    client.cni_results = directory.path().join("none").into();
    assert_eq!(client.stop_sandbox("5b1f0e7c").await.unwrap_err().message(), UNREADABLE);
}
