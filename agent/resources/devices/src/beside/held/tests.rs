use std::sync::Arc;

use nodewarden_model::HostDeviceKind;
use nodewarden_proto::deviceplugin::v1beta1::{CdiDevice, DeviceSpec, Mount};

use super::*;
use crate::beside::kubelet::{AnsweredContainer, AnsweredPod};

fn ids(names: &[&str]) -> DevicesPerNuma {
    DevicesPerNuma::from([(-1, names.iter().map(|name| (*name).to_owned()).collect())])
}

fn node(path: &str, minor: u32) -> HostDevice {
    HostDevice { path: path.into(), kind: HostDeviceKind::Char, major: 240, minor }
}

/// `/dev/x1` to `/dev/x9`, and a directory of two.
fn nodes(path: &str) -> Option<Vec<HostDevice>> {
    match path.strip_prefix("/dev/x").and_then(|number| number.parse().ok()) {
        Some(minor) if minor < 10 => Some(vec![node(path, minor)]),
        _ if path == "/dev/dir" => Some(vec![node("/dev/dir/a", 20), node("/dev/dir/b", 21)]),
        _ => None,
    }
}

fn answer(devices: &[(&str, &[&str])], claims: &[(&str, &[&str])]) -> Answer {
    let devices = devices.iter().map(|(resource, own)| ((*resource).to_owned(), ids(own))).collect();
    let claims = claims
        .iter()
        .map(|(name, own)| ((*name).to_owned(), own.iter().map(|name| (*name).to_owned()).collect()));
    let container = AnsweredContainer { name: "main".into(), devices, claims: claims.collect() };
    let pod = AnsweredPod { namespace: "ml".into(), name: "train".into(), containers: vec![container] };
    Answer { pods: vec![pod], allocatable: None }
}

fn entry(uid: &str, ids: DevicesPerNuma, response: Option<ContainerAllocateResponse>) -> Checkpoint {
    let entry = PodDevicesEntry {
        pod_uid: uid.into(),
        container_name: "main".into(),
        resource_name: "v.com/gpu".into(),
        device_ids: ids,
        alloc_resp: response.map(|response| response.encode_to_vec()),
    };
    Checkpoint { entries: vec![Arc::new(entry)], ..Checkpoint::default() }
}

fn spec(path: &str, permissions: &str) -> DeviceSpec {
    DeviceSpec { container_path: "/dev/c".into(), host_path: path.into(), permissions: permissions.into() }
}

/// The paths and accesses of the grants, what is missing, and why nothing is known.
fn resolve(
    answer: &Answer,
    checkpoint: Option<&Checkpoint>,
    extra: &[HostDevice],
    uid: Option<&str>,
) -> (Vec<String>, Vec<String>, Option<String>) {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"{"kind": "v.com/gpu", "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/x7"},
        {"path": "/dev/y", "type": "c", "major": 240, "minor": 8}]}}]}"#;
    std::fs::create_dir_all(dir.path().join("etc/cdi")).unwrap();
    std::fs::write(dir.path().join("etc/cdi/a.json"), text).unwrap();
    let cdi = Cdi::read(dir.path());
    let extra = BTreeMap::from([("v.com/gpu".to_owned(), extra.to_vec())]);
    let uid = |_: &str, _: &str| uid.map(str::to_owned);
    let sources = Sources { checkpoint, cdi: &cdi, extra: &extra, uid: &uid, nodes: &nodes };
    let mut found = held(answer, &sources);
    assert_eq!(found.len(), 1, "{found:?}");
    let own = found.remove(0);
    let grants = own.grants.iter().map(|grant| {
        let sure = if grant.certain { "" } else { "?" };
        format!("{} {}:{} {}{sure}", grant.device.path, grant.device.major, grant.device.minor, grant.access)
    });
    (grants.collect(), own.missing, own.unknown)
}

#[test]
fn a_plugins_answer_says_which_nodes_its_ids_are() {
    let gpu = answer(&[("v.com/gpu", &["g1", "g2"])], &[]);
    let both = || ids(&["g2", "g1"]);
    let devices = |devices: Vec<DeviceSpec>| ContainerAllocateResponse { devices, ..Default::default() };
    let mounts = ContainerAllocateResponse {
        mounts: vec![
            Mount { host_path: "/dev/dir".into(), read_only: true, ..Mount::default() },
            Mount { host_path: "/opt/lib".into(), ..Mount::default() },
        ],
        ..Default::default()
    };
    let by_name = ContainerAllocateResponse {
        cdi_devices: vec![CdiDevice { name: "v.com/gpu=0".into() }],
        ..Default::default()
    };
    let by_annotation = |value: &str| ContainerAllocateResponse {
        annotations: [
            ("cdi.k8s.io/plugin_1".to_owned(), value.to_owned()),
            ("other".to_owned(), "a".to_owned()),
        ]
        .into(),
        ..Default::default()
    };
    let cdi = ["/dev/x7 240:7 rwm", "/dev/y 240:8 rwm"];
    let cases = [
        (
            devices(vec![spec("/dev/x1", "rw"), spec("/dev/x2", "r")]),
            vec!["/dev/x1 240:1 rw", "/dev/x2 240:2 r"],
            None,
        ),
        (mounts, vec!["/dev/dir/a 240:20 r", "/dev/dir/b 240:21 r"], None),
        (by_name, cdi.to_vec(), None),
        (by_annotation("v.com/gpu=0"), cdi.to_vec(), None),
        (by_annotation("v.com/gpu=0, v.com/gpu=9"), cdi.to_vec(), Some("no CDI file has v.com/gpu=9")),
        (ContainerAllocateResponse::default(), vec![], Some("its plugin named no device nodes")),
    ];
    for (response, expected, unknown) in cases {
        let checkpoint = entry("u", both(), Some(response.clone()));
        let (grants, missing, why) = resolve(&gpu, Some(&checkpoint), &[], Some("u"));
        assert_eq!(
            (grants, missing, why.as_deref()),
            (expected.iter().map(ToString::to_string).collect(), vec![], unknown),
            "{response:?}"
        );
    }
    let gone = entry("u", both(), Some(devices(vec![spec("/dev/z", "rw")])));
    assert_eq!(resolve(&gpu, Some(&gone), &[], Some("u")), (vec![], vec!["/dev/z".to_owned()], None));
}

#[test]
fn an_entry_counts_only_with_the_same_pod_and_ids() {
    let gpu = answer(&[("v.com/gpu", &["g1"])], &[]);
    let response =
        || Some(ContainerAllocateResponse { devices: vec![spec("/dev/x1", "rw")], ..Default::default() });
    for (checkpoint, uid, is_known) in [
        (Some(entry("u", ids(&["g1"]), response())), Some("u"), true),
        (Some(entry("u", ids(&["g1"]), response())), None, true),
        (Some(entry("other", ids(&["g1"]), response())), Some("u"), false),
        (Some(entry("u", ids(&["g2"]), response())), Some("u"), false),
        (Some(entry("u", ids(&["g1"]), None)), Some("u"), false),
        (None, Some("u"), false),
    ] {
        let (grants, _, unknown) = resolve(&gpu, checkpoint.as_ref(), &[], uid);
        assert_eq!((!grants.is_empty(), unknown.is_none()), (is_known, is_known), "{checkpoint:?} {uid:?}");
    }
}

#[test]
fn what_the_configuration_adds_is_not_certain() {
    let gpu = answer(&[("v.com/gpu", &["g1"])], &[]);
    let checkpoint = entry("u", ids(&["g1"]), Some(ContainerAllocateResponse::default()));
    let (grants, _, unknown) = resolve(&gpu, Some(&checkpoint), &[node("/dev/x3", 3)], Some("u"));
    assert_eq!((grants, unknown), (vec!["/dev/x3 240:3 rwm?".to_owned()], None));
}

#[test]
fn claims_are_resolved_by_cdi_files() {
    let claim = answer(&[], &[("claim ml/gpu", &["v.com/gpu=0"])]);
    let (grants, _, unknown) = resolve(&claim, None, &[], Some("u"));
    assert_eq!((grants.len(), unknown), (2, None));
    let unknown = answer(&[], &[("claim ml/gpu", &["v.com/gpu=none"])]);
    assert_eq!(resolve(&unknown, None, &[], None).2.as_deref(), Some("no CDI file has v.com/gpu=none"));
}
