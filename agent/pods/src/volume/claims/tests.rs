use std::os::unix::fs::MetadataExt;

use super::*;
use crate::spec::fixture::{Fixture, pod};
use crate::volume::foreign::ALONE;

fn bound(path: &Path, is_local: bool) -> BoundVolume {
    BoundVolume {
        name: "pv".into(),
        path: path.into(),
        path_type: "Directory".into(),
        is_local,
        node_terms: Vec::new(),
    }
}

fn claiming(group: u32, claim: &str) -> Pod {
    pod(&format!(
        "securityContext: {{fsGroup: {group}}}\n\
         volumes: [{{name: v, persistentVolumeClaim: {{{claim}}}}}]\ncontainers: [{{name: c}}]"
    ))
}

fn group(path: &Path) -> u32 {
    fs::metadata(path).unwrap().gid()
}

#[tokio::test]
async fn a_local_volume_is_the_groups_of_the_first_pod_that_writes() {
    let _alone = ALONE.lock().await;
    if !nix::unistd::geteuid().is_root() {
        nodewarden_testing::skip("not root");
        return;
    }
    let (fixture, dir) = (Fixture::new(), tempfile::tempdir().unwrap());
    let (path, own) = (dir.path(), group(dir.path()));
    fs::write(path.join("file"), "x").unwrap();
    let link = async |pod: &Pod, is_local| {
        link_claim(pod, &fixture.paths(pod), "v", bound(path, is_local)).await.unwrap()
    };
    let unlink = |pod: &Pod| fs::remove_dir_all(fixture.paths(pod).volumes()).unwrap();
    // Neither a hostPath, nor a volume that is only read.
    for (claim, is_local) in [("claimName: x", false), ("claimName: x, readOnly: true", true)] {
        let pod = claiming(4321, claim);
        assert_eq!(link(&pod, is_local).await, None);
        assert_eq!(group(&path.join("file")), own, "{claim}");
        unlink(&pod);
    }
    let first = claiming(4321, "claimName: x");
    assert_eq!(link(&first, true).await, None);
    assert_eq!([group(path), group(&path.join("file"))], [4321; 2]);
    assert!(unlinked_claims(&first, &fixture.paths(&first)).is_empty());
    // The first one keeps it while it is there.
    let mut other = claiming(777, "claimName: x");
    other.uid = "other".into();
    let shared = link(&other, true).await.map(|shared| shared.to_string());
    let expected =
        "The requested fsGroup is 777, but the volume pv has GID 4321. The volume may not be shareable.";
    assert_eq!(shared.as_deref(), Some(expected));
    assert_eq!(group(&path.join("file")), 4321);
    unlink(&other);
    unlink(&first);
    assert_eq!(link(&other, true).await, None);
    assert_eq!(group(&path.join("file")), 777);
}

#[tokio::test]
async fn a_volume_that_cannot_be_given_to_the_group_is_not_linked() {
    let _alone = ALONE.lock().await;
    if !nix::unistd::geteuid().is_root() {
        nodewarden_testing::skip("not root");
        return;
    }
    let fixture = Fixture::new();
    let pod = claiming(4321, "claimName: x");
    let mut missing = bound(Path::new("/none"), true);
    missing.path_type = String::new();
    let error = link_claim(&pod, &fixture.paths(&pod), "v", missing).await.unwrap_err().to_string();
    assert!(error.starts_with("MountVolume.SetUp failed for volume \"v\" : open /none: "), "{error}");
    assert_eq!(unlinked_claims(&pod, &fixture.paths(&pod)).len(), 1);
}
