use std::time::Instant;

use nodewarden_testing::HungFuse;

use super::*;
use crate::spec::fixture::pod;

fn with_path(path: &Path, kind: &str) -> Pod {
    let path = path.display();
    pod(&format!(
        "volumes: [{{name: v, hostPath: {{path: {path}, type: {kind}}}}}]\ncontainers: [{{name: c}}]"
    ))
}

#[test]
fn a_path_is_at_its_mount_point_or_alone() {
    let table = b"36 1 98:0 / / rw - ext4 /dev/x rw\n37 36 0:40 / /mnt/nfs rw - nfs4 s:/ rw\n\
        38 37 0:41 / /mnt/nfs/deep rw - tmpfs tmpfs rw\n";
    for (path, place) in [
        ("/etc/hosts", "/etc/hosts"),
        ("/mnt/nfs", "/mnt/nfs"),
        ("/mnt/nfs/a/b", "/mnt/nfs"),
        ("/mnt/nfsd", "/mnt/nfsd"),
        ("/mnt/nfs/deep/a", "/mnt/nfs/deep"),
        ("/", "/"),
    ] {
        assert_eq!(places(table, &[path.into()]), BTreeSet::from([place.to_owned()]), "{path}");
    }
    assert_eq!(places(b"", &["/a".into(), "/b".into()]).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_pod_on_a_hung_file_system_gets_an_error_and_others_start() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let (hung, healthy) = (dir.path().join("hung"), dir.path().join("healthy"));
    fs::create_dir(&hung).unwrap();
    let Ok(fuse) = HungFuse::mount(&hung) else {
        nodewarden_testing::skip("no FUSE file system can be mounted here");
        return;
    };
    let limit = Duration::from_millis(200);
    let on_hung = with_path(&hung.join("data"), "DirectoryOrCreate");
    // As many as twice the threads that it may have: pods are tried again and again.
    for _ in 0..2 * EACH {
        let error = check_within(&on_hung, limit).await.unwrap_err().to_string();
        let expected = format!(
            "MountVolume.SetUp failed for volume \"v\" : {} is not answering: no result after 0 s",
            hung.display()
        );
        assert_eq!(error, expected);
    }
    assert!(blocking::HOST_PATHS.busy() <= EACH, "{} threads hang", blocking::HOST_PATHS.busy());
    let begun = Instant::now();
    check_host_paths(&with_path(&healthy, "DirectoryOrCreate")).await.unwrap();
    assert!(healthy.is_dir() && begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    drop(fuse);
    let begun = Instant::now();
    while blocking::HOST_PATHS.busy() > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the threads are free when the file system is gone"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_fault_names_its_volume() {
    let error = check_host_paths(&with_path(Path::new("/nonexistent"), "Directory")).await.unwrap_err();
    let expected = "MountVolume.SetUp failed for volume \"v\" : hostPath type check failed: /nonexistent is not a directory";
    assert_eq!(error.to_string(), expected);
    check_host_paths(&with_path(Path::new("/nonexistent"), "\"\"")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn work_on_many_files_may_take_as_long_as_it_goes_on() {
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let limit = Duration::from_millis(500);
    let slow = |moves: &Moves| {
        (0..15).for_each(|_| {
            moves.step();
            std::thread::sleep(Duration::from_millis(100));
        });
        7
    };
    assert_eq!(many_within(dir.path().into(), limit, slow).await.unwrap(), Some(7));
    let (ended, hears) = std::sync::mpsc::channel();
    let hangs = move |moves: &Moves| {
        std::thread::sleep(Duration::from_secs(2));
        ended.send(moves.step()).unwrap();
    };
    let error = many_within(dir.path().into(), limit, hangs).await.unwrap_err().to_string();
    assert!(error.contains("is not answering"), "{error}");
    // It ends once it can, and does not go on without a caller.
    let heard = tokio::task::spawn_blocking(move || hears.recv_timeout(Duration::from_secs(20)));
    assert!(!heard.await.unwrap().unwrap());
}
