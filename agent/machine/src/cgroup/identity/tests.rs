use proptest::prelude::*;

use super::*;
use QosClass::{BestEffort, Burstable, Guaranteed};

const UID: &str = "9911b0ba-8d82-5259-9f90-48ee916d7a2f";
const SLICED: &str = "9911b0ba_8d82_5259_9f90_48ee916d7a2f";
const STATIC: &str = "0123456789abcdef0123456789abcdef";
const ID: &str = "4ad6c1c7a1a7b0d27c1a4f9e3a0f4f8e1d2c3b4a5968778695a4b3c2d1e0f001";

fn full(path: &str) -> String {
    path.replace("UID", UID).replace("SLICED", SLICED).replace("STATIC", STATIC).replace("ID", ID)
}

fn pod(uid: &str, qos: QosClass) -> Identity {
    Identity::Pod { uid: uid.into(), qos, names: None }
}

fn container(uid: &str, qos: QosClass, runtime: &str) -> Identity {
    Identity::Container {
        pod_uid: uid.into(),
        qos,
        id: ID.into(),
        runtime: runtime.into(),
        sandbox: false,
        pod: None,
        names: None,
    }
}

fn nested(uid: &str) -> Identity {
    Identity::Nested { pod_uid: uid.into(), container_id: ID.into() }
}

fn check(table: &[(&str, Identity)]) {
    for (path, expected) in table {
        assert_eq!(&identify(&full(path)), expected, "{path}");
    }
}

#[test]
fn cgroupfs() {
    check(&[
        ("/", Identity::Root),
        ("", Identity::Root),
        ("/kubepods", Identity::Kubepods),
        ("/kubepods/burstable", Identity::Qos(Burstable)),
        ("/kubepods/besteffort", Identity::Qos(BestEffort)),
        ("/kubepods/podUID", pod(UID, Guaranteed)),
        ("/kubepods/burstable/podUID", pod(UID, Burstable)),
        ("/kubepods/besteffort/podSTATIC", pod(STATIC, BestEffort)),
        ("/kubepods/besteffort/podabc", pod("abc", BestEffort)),
        ("/kubepods/podUID/ID", container(UID, Guaranteed, "")),
        ("/kubepods/burstable/podUID/ID", container(UID, Burstable, "")),
        ("/kubepods/burstable/podUID/crio-ID", container(UID, Burstable, "crio")),
        ("/kubepods/burstable/podUID/ID/init.scope", nested(UID)),
        ("/kubepods/burstable/podUID/ID/a/b/ID", nested(UID)),
        // A kubelet in a container: only the outer pod is this node's.
        ("/kubepods/podUID/ID/kubelet/kubepods/podSTATIC", nested(UID)),
        ("/kubelet/kubepods/burstable/podUID/ID", container(UID, Burstable, "")),
        ("/docker/ID/kubelet/kubepods/podUID", pod(UID, Guaranteed)),
    ]);
}

#[test]
fn systemd() {
    let qos = "/kubepods.slice/kubepods-burstable.slice";
    let in_pod = format!("{qos}/kubepods-burstable-podSLICED.slice");
    let scope = |scope: &str| format!("{in_pod}/{scope}.scope");
    check(&[
        ("/kubepods.slice", Identity::Kubepods),
        (qos, Identity::Qos(Burstable)),
        ("/kubepods.slice/kubepods-besteffort.slice", Identity::Qos(BestEffort)),
        ("/kubepods.slice/kubepods-podSLICED.slice", pod(UID, Guaranteed)),
        (&in_pod, pod(UID, Burstable)),
        (&format!("{qos}/kubepods-burstable-podSTATIC.slice"), pod(STATIC, Burstable)),
        (&scope("cri-containerd-ID"), container(UID, Burstable, "cri-containerd")),
        (&scope("crio-ID"), container(UID, Burstable, "crio")),
        (&scope("docker-ID"), container(UID, Burstable, "docker")),
        (&scope("libpod-ID"), container(UID, Burstable, "libpod")),
        (&scope("crio-conmon-ID"), Identity::Other),
        (&format!("{}/x", scope("crio-conmon-ID")), Identity::Other),
        (&format!("{}/container", scope("crio-ID")), nested(UID)),
        (&format!("{}/system.slice/a.service", scope("cri-containerd-ID")), nested(UID)),
    ]);
}

#[test]
fn systemd_below_a_cgroup_root() {
    let root = "/kubelet.slice/kubelet-kubepods.slice";
    let in_pod =
        format!("{root}/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podSLICED.slice");
    check(&[
        ("/kubelet.slice", Identity::Other),
        (root, Identity::Kubepods),
        (&format!("{root}/kubelet-kubepods-besteffort.slice"), Identity::Qos(BestEffort)),
        (&format!("{root}/kubelet-kubepods-podSLICED.slice"), pod(UID, Guaranteed)),
        (&in_pod, pod(UID, Burstable)),
        (&format!("{in_pod}/cri-containerd-ID.scope"), container(UID, Burstable, "cri-containerd")),
        ("/a.slice/a-b_c.slice/a-b_c-kubepods.slice", Identity::Kubepods),
    ]);
}

#[test]
fn cgroupfs_runtime_below_a_systemd_kubelet() {
    check(&[
        (
            "/system.slice/kubelet-kubepods-burstable-podSLICED.slice:cri-containerd:ID",
            container(UID, Burstable, "cri-containerd"),
        ),
        (
            "/kubelet-kubepods-besteffort-podSLICED.slice:cri-containerd:ID",
            container(UID, BestEffort, "cri-containerd"),
        ),
        (
            "/system.slice/containerd.service/kubepods-podSLICED.slice:cri-containerd:ID",
            container(UID, Guaranteed, "cri-containerd"),
        ),
        ("/kubepods-podSLICED.slice:cri-containerd:ID/inner", nested(UID)),
        ("/kubepods-podSLICED.slice:cri-containerd:", Identity::Other),
        ("/kubepods-podSLICED.slice:ID", Identity::Other),
        ("/system.slice:docker:ID", Identity::Other),
    ]);
}

#[test]
fn other() {
    for path in [
        "/system.slice",
        "/system.slice/containerd.service",
        "/user.slice/user-1000.slice/session-1.scope",
        "/docker/ID",
        "/system.slice/docker-ID.scope",
        "/podUID",
        "/podUID/ID",
        "/kubepodsx/podUID",
        "/kubepods/x",
        "/kubepods/pod",
        "/kubepods/pod.slice",
        "/kubepods/x/podUID",
        "/kubepods/burstable/burstable",
        "/kubepods/burstable/podUID/emulator",
        "/kubepods/burstable/podUID/abc123",
        "/kubepods/burstable/podUID/-ID",
        "/kubepods/burstable/podUID/emulator/ID",
        "/kubepods.slice/other.slice",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-x.slice",
        "/kubepods.slice/kubepods-podSLICED.slice/kubepods-podSLICED-x.slice",
        "/kubepods.slice/kubepods-podSLICED-x.slice",
    ] {
        assert_eq!(identify(&full(path)), Identity::Other, "{path}");
    }
}

proptest! {
    #[test]
    fn never_panics(path in ".*") {
        identify(&path);
    }

    /// Paths made of the words that the parser looks for.
    #[test]
    fn similar_paths_are_identified_consistently(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "/", "kubepods", "burstable", "besteffort", "pod", ".slice", ".scope", ":", "-", "_", "crio",
                "conmon", "cri-containerd", "abc", STATIC, ID, UID, SLICED, "é",
            ]),
            0..16,
        )
    ) {
        let path = parts.concat();
        let identity = identify(&path);
        if let Some(uid) = identity.pod_uid() {
            prop_assert!(!uid.is_empty());
            prop_assert!(path.contains("kubepods"));
            let dashed = format!("pod{uid}").replace('_', "-");
            prop_assert!(path.replace('_', "-").contains(&dashed));
        }
        if let Some(id) = identity.container_id() {
            prop_assert!(path.contains(id));
            // All below a container is nested in it.
            prop_assert_eq!(
                identify(&format!("{path}/x")),
                Identity::Nested {
                    pod_uid: identity.pod_uid().unwrap_or_default().to_owned(),
                    container_id: id.to_owned(),
                }
            );
        }
    }

    /// The two drivers' forms of one pod are the same pod.
    #[test]
    fn drivers_agree(uid in "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}", qos in 0..3) {
        let (infix, level) = [("", ""), ("-burstable", "/burstable"), ("-besteffort", "/besteffort")][qos as usize];
        let sliced = uid.replace('-', "_");
        prop_assert_eq!(
            identify(&format!("/kubepods{level}/pod{uid}")),
            identify(&format!("/kubepods.slice/kubepods{infix}.slice/kubepods{infix}-pod{sliced}.slice"))
        );
    }
}
