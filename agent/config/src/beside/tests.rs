//! What a kubelet's file says, and what is somewhat before it.

use super::*;

fn of(text: &str) -> Result<KubeletEviction, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    KubeletEviction::read(file.path()).map_err(|error| error.to_string())
}

/// Signal, amount and grace in seconds of each.
fn shown(all: &[EvictionThreshold]) -> Vec<String> {
    all.iter().map(|one| format!("{} {} {}", one.signal.name(), one.value, one.grace.as_secs())).collect()
}

#[test]
fn a_kubelets_keys() {
    let defaults = [
        "memory.available 100Mi 0",
        "nodefs.available 10% 0",
        "nodefs.inodesFree 5% 0",
        "imagefs.available 15% 0",
    ];
    for (text, expected) in [
        ("", &defaults[..]),
        ("kind: KubeletConfiguration\n", &defaults[..]),
        ("evictionHard: {memory.available: 300Mi}", &["memory.available 300Mi 0"]),
        (
            "evictionHard: {memory.available: 5%, pid.available: 1000}",
            &["memory.available 5% 0", "pid.available 1k 0"],
        ),
        (
            "{evictionHard: {memory.available: 1Gi}, mergeDefaultEvictionSettings: true}",
            &[
                "memory.available 1Gi 0",
                "nodefs.available 10% 0",
                "nodefs.inodesFree 5% 0",
                "imagefs.available 15% 0",
            ],
        ),
        (
            "{evictionHard: {}, evictionSoft: {memory.available: 500Mi}, evictionSoftGracePeriod: {memory.available: 1m}}",
            &["memory.available 500Mi 60"],
        ),
    ] {
        assert_eq!(shown(&of(text).unwrap().thresholds), expected, "{text}");
    }
    let of = |text: &str| of(text).map(|own| (own.max_pod_grace, own.pods_enforced));
    assert_eq!(of("").unwrap(), (Duration::ZERO, true));
    assert_eq!(of("evictionMaxPodGracePeriod: 30").unwrap(), (Duration::from_secs(30), true));
    assert_eq!(of("evictionMaxPodGracePeriod: -1").unwrap(), (Duration::MAX, true));
    assert_eq!(of("enforceNodeAllocatable: [none]").unwrap(), (Duration::ZERO, false));
}

#[test]
fn what_is_no_kubelets_file_is_an_error() {
    for (text, part) in [
        ("evictionHard: {memory.available: lots}", "evictionHard"),
        ("evictionHard: {memory: 1Mi}", "unknown signal"),
        ("evictionSoft: {memory.available: 1Gi}", "evictionSoftGracePeriod"),
        ("- 1", "invalid type"),
        ("{", ""),
    ] {
        let error = of(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    let error = KubeletEviction::read(Path::new("/nonexistent/config.yaml")).unwrap_err();
    assert!(matches!(error, KubeletConfigError::Read { .. }), "{error}");
}

#[test]
fn somewhat_before_it() {
    const MEMORY: u64 = 10_000 << 20;
    for (text, margin, expected) in [
        (
            "evictionHard: {memory.available: 100Mi}",
            64 << 20,
            &["memory.available 164Mi 0", "allocatableMemory.available 164Mi 0"][..],
        ),
        (
            "evictionHard: {memory.available: 1000Mi}",
            64 << 20,
            &["memory.available 1100Mi 0", "allocatableMemory.available 1100Mi 0"],
        ),
        (
            "evictionHard: {memory.available: 25%}",
            0,
            &["memory.available 2750Mi 0", "allocatableMemory.available 2750Mi 0"],
        ),
        (
            "{evictionHard: {memory.available: 100Mi}, enforceNodeAllocatable: []}",
            0,
            &["memory.available 110Mi 0"],
        ),
        (
            "evictionHard: {pid.available: 1000, nodefs.available: 10%}",
            0,
            &["nodefs.available 10% 0", "pid.available 1100 0"],
        ),
        ("evictionHard: {pid.available: 10%}", 0, &["pid.available 11% 0"]),
        (
            "{evictionHard: {}, evictionSoft: {memory.available: 500Mi}, evictionSoftGracePeriod: {memory.available: 1m}}",
            64 << 20,
            &["memory.available 564Mi 60"],
        ),
    ] {
        assert_eq!(shown(&of(text).unwrap().ahead(margin, MEMORY)), expected, "{text}");
    }
}
