use std::path::Path;
use std::time::Instant;

use nodewarden_config::DeviceSettings;
use nodewarden_devices::Enforcer;
use nodewarden_machine::cgroup::Layout;
use nodewarden_testing::HungFuse;
use serde_json::json;

use super::*;
use crate::fixture::pod;

/// Guards that look at pods' paths and have nothing to write to.
async fn guards(dir: &Path) -> (Guards, Devices, nodewarden_devices::DeviceTasks) {
    let settings = DeviceSettings {
        kubelet_dir: dir.to_owned(),
        enforcement: Enforcement::Enforce,
        ..DeviceSettings::default()
    };
    let (devices, serving) = Devices::start(&settings, Arc::new(|_| {})).await;
    let enforcer = Enforcer::start(None, &Layout::detect().unwrap(), "nodewarden-none");
    (Guards::new(enforcer, &settings), devices, serving)
}

/// The test has one thread for everything asynchronous: if that thread looked at the path, it would hang
/// until the file system ends by itself, and fail.
#[tokio::test]
async fn a_path_of_a_guarded_pod_that_hangs_holds_no_thread_of_the_async_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let hung = dir.path().join("hung");
    std::fs::create_dir(&hung).unwrap();
    let Ok(fuse) = HungFuse::mount(&hung) else {
        nodewarden_testing::skip("no FUSE file system can be mounted here");
        return;
    };
    let (guards, devices, _serving) = guards(&dir.path().join("kubelet")).await;
    let of = |path: &Path| {
        pod(json!({
            "volumes": [{"name": "v", "hostPath": {"path": path}}],
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        }))
    };
    let guard = |pod: Arc<Pod>| {
        let (guards, devices, own) = (guards.clone(), devices.clone(), pod.clone());
        async move {
            on_thread(guards, devices, &pod, move |guards, devices| guards.guard(devices, &own, "/none"))
                .await
        }
    };
    let on_hung = tokio::spawn(guard(of(&hung.join("device"))));
    let begun = Instant::now();
    while nodewarden_tasks::blocking::HOST_PATHS.busy() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "the path is looked at");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!on_hung.is_finished());
    // Another pod is guarded meanwhile. Nothing is enforced here, which is what its error says.
    let healthy = tempfile::tempdir().unwrap();
    let other = tokio::time::timeout(Duration::from_secs(5), guard(of(healthy.path()))).await.unwrap();
    assert!(!matches!(other, Err(EnforceError::NotSeen { .. })), "{other:?}");
    drop(fuse);
    let ended = tokio::time::timeout(Duration::from_secs(5), on_hung).await.unwrap().unwrap();
    assert!(!matches!(ended, Err(EnforceError::NotSeen { .. })), "{ended:?}");
}
