//! Images in a real containerd: listing, file system, and removal with their space. Skipped without
//! containerd.

use std::fs;
use std::path::Path;

use crate::containerd_fixture::{Containerd, IMAGE, container_config, sandbox_config};
use crate::*;

/// Bytes below a directory.
fn bytes(path: &Path) -> u64 {
    let below = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    below
        .map(|path| match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => bytes(&path),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_are_imported_and_removed() {
    const UID: &str = "6f0f6f7e-3f6b-4a6c-9d57-0c7c4c1a2b11";
    let Some(containerd) = Containerd::start() else { return };
    let client = Client::new(&containerd.endpoint());
    assert_eq!(client.list_images().await.unwrap(), []);
    if !containerd.import_image() {
        return;
    }
    let images = client.list_images().await.unwrap();
    let [image] = &images[..] else { panic!("{images:?}") };
    assert!(image.id.starts_with("sha256:"), "{image:?}");
    assert!(image.repo_tags.iter().any(|tag| tag == IMAGE), "{image:?}");
    assert!(image.size > 0 && !image.pinned, "{image:?}");
    assert_eq!(client.sandbox_image(&[]).await.unwrap().as_deref(), Some(IMAGE));

    // The directory exists and is on the same file system as the rest of containerd's state.
    let info = client.image_fs_info().await.unwrap();
    let [fs_use] = &info.image_filesystems[..] else { panic!("{info:?}") };
    let place = fs_use.fs_id.clone().unwrap().mountpoint;
    let root = containerd.socket().parent().unwrap().join("root");
    assert!(Path::new(&place).starts_with(&root), "{place}");

    // A container's image is identified as in the list.
    let parent = format!("{}/pod{UID}", containerd.cgroup_root());
    let pod = sandbox_config("web-0", UID, &parent);
    let sandbox = client.run_sandbox(pod.clone()).await.unwrap();
    client.create_container(&sandbox, container_config("c"), pod).await.unwrap();
    let listing = client.list().await.unwrap();
    assert_eq!(listing.containers[0].image_ref, image.id, "{:?}", listing.containers[0]);
    client.stop_sandbox(&sandbox).await.unwrap();
    client.remove_sandbox(&sandbox).await.unwrap();

    // Its space is free when the call returns, without waiting for the runtime's garbage collector.
    let before = bytes(&root);
    client.remove_image(&image.id).await.unwrap();
    let after = bytes(&root);
    assert!(before - after >= image.size, "{before} {after} {image:?}");
    assert_eq!(client.list_images().await.unwrap(), []);
    client.remove_image(&image.id).await.unwrap();
    client.remove_image(IMAGE).await.unwrap();
}
