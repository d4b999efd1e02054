//! Which devices the policy allows for manifests, plugin responses and settings.

use nodewarden_model::HostDevice;
use nodewarden_proto::deviceplugin::v1beta1::{ContainerAllocateResponse, DeviceSpec, Mount};
use proptest::prelude::*;

use super::*;

fn pod(spec: &str) -> Pod {
    let spec = serde_yaml_ng::from_str(spec).unwrap();
    let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        name: Some("p".into()),
        namespace: Some("default".into()),
        uid: Some("u".into()),
        ..Default::default()
    };
    let pod = k8s_openapi::api::core::v1::Pod { metadata, spec: Some(spec), status: None };
    Pod::from_kubernetes(pod).unwrap()
}

fn device(path: &str, kind: HostDeviceKind, major: u32, minor: u32) -> HostDevice {
    HostDevice { path: path.into(), kind, major, minor }
}

/// A machine with a character and a block device, and a directory with one of each.
fn device_nodes(path: &str) -> Option<Vec<HostDevice>> {
    use HostDeviceKind::{Block, Char};
    match path {
        "/dev/fuse" => Some(vec![device(path, Char, 10, 229)]),
        "/dev/sda" => Some(vec![device(path, Block, 8, 0)]),
        "/dev/dri" => {
            Some(vec![device("/dev/dri/card0", Char, 226, 0), device("/dev/dri/disk", Block, 226, 1)])
        }
        "/etc" => Some(Vec::new()),
        _ => None,
    }
}

fn text(rules: &[DeviceRule]) -> String {
    let one = |r: &DeviceRule| {
        let kind = if r.kind == HostDeviceKind::Block { 'b' } else { 'c' };
        let minor = r.minor.map_or("*".to_owned(), |minor| minor.to_string());
        format!("{kind} {}:{minor} {}", r.major, r.access)
    };
    rules.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn response(devices: &[(&str, &str)], mounts: &[(&str, bool)]) -> ContainerAllocateResponse {
    let spec = |(path, permissions): &(&str, &str)| DeviceSpec {
        container_path: "/dev/inside".into(),
        host_path: (*path).into(),
        permissions: (*permissions).into(),
    };
    let mount = |(path, read_only): &(&str, bool)| Mount {
        container_path: "/inside".into(),
        host_path: (*path).into(),
        read_only: *read_only,
    };
    ContainerAllocateResponse {
        devices: devices.iter().map(spec).collect(),
        mounts: mounts.iter().map(mount).collect(),
        ..Default::default()
    }
}

#[test]
fn host_path_volumes_allow_devices_of_their_type() {
    for (volume, expected) in [
        ("{path: /dev/fuse, type: CharDevice}", "c 10:229 rwm"),
        ("{path: /dev/fuse, type: BlockDevice}", ""),
        ("{path: /dev/fuse}", "c 10:229 rwm"),
        ("{path: /dev/fuse, type: ''}", "c 10:229 rwm"),
        ("{path: /dev/fuse, type: File}", ""),
        ("{path: /dev/sda, type: BlockDevice}", "b 8:0 rwm"),
        ("{path: /dev/sda, type: CharDevice}", ""),
        ("{path: /dev/dri}", ""),
        ("{path: /dev/dri, type: Directory}", ""),
        ("{path: /dev/dri, type: CharDevice}", ""),
        ("{path: /etc}", ""),
        ("{path: /dev/gone, type: CharDevice}", ""),
    ] {
        let spec =
            format!("{{containers: [{{name: c, image: i}}], volumes: [{{name: v, hostPath: {volume}}}]}}");
        assert_eq!(text(&rules(&pod(&spec), &[], &[], device_nodes)), expected, "{volume}");
    }
}

#[test]
fn plugin_responses_allow_devices_and_mounted_devices() {
    for (devices, mounts, expected) in [
        (&[("/dev/fuse", "rw")][..], &[][..], "c 10:229 rw"),
        (&[("/dev/fuse", "r"), ("/dev/fuse", "wm")], &[], "c 10:229 rwm"),
        (&[("/dev/fuse", "mrw"), ("/dev/sda", "r")], &[], "b 8:0 r, c 10:229 rwm"),
        (&[("/dev/fuse", "")], &[], ""),
        (&[("/dev/fuse", "xyz")], &[], ""),
        (&[("/dev/gone", "rwm")], &[], ""),
        (&[("/dev/dri", "rw")], &[], "b 226:1 rw, c 226:0 rw"),
        (&[], &[("/dev/fuse", false)], "c 10:229 rw"),
        (&[], &[("/dev/fuse", true)], "c 10:229 r"),
        (&[], &[("/etc", false), ("/lib/gone", false)], ""),
        (&[("/dev/fuse", "m")], &[("/dev/fuse", true)], "c 10:229 rm"),
    ] {
        let pod = pod("{containers: [{name: c, image: i}]}");
        let found = rules(&pod, &[response(devices, mounts)], &[], device_nodes);
        assert_eq!(text(&found), expected, "{devices:?} {mounts:?}");
    }
    let pod = pod("{containers: [{name: c, image: i}]}");
    let two = [response(&[("/dev/fuse", "r")], &[]), response(&[("/dev/sda", "w")], &[])];
    let extra = [device("/dev/ctl", HostDeviceKind::Char, 195, 255)];
    assert_eq!(text(&rules(&pod, &two, &extra, device_nodes)), "b 8:0 w, c 10:229 r, c 195:255 rwm");
}

#[test]
fn defaults_are_those_of_the_oci_specification() {
    let all: Vec<DeviceRule> = defaults().collect();
    let text = text(&all);
    for device in ["c 1:3 rwm", "c 5:1 rwm", "c 136:* rwm", "c 143:* rwm"] {
        assert!(text.contains(device), "{device} in {text}");
    }
    assert!(!text.contains("c 1:1 ") && !text.contains("b "), "{text}");
}

#[test]
fn privileged_pods_have_a_mode_of_their_own() {
    let settings = DeviceSettings {
        enforcement: Enforcement::Enforce,
        privileged_enforcement: Enforcement::Audit,
        ..DeviceSettings::default()
    };
    for (containers, expected) in [
        ("containers: [{name: c, image: i}]", Enforcement::Enforce),
        ("containers: [{name: c, image: i, securityContext: {privileged: false}}]", Enforcement::Enforce),
        ("containers: [{name: c, image: i, securityContext: {privileged: true}}]", Enforcement::Audit),
        (
            "initContainers: [{name: d, image: i, securityContext: {privileged: true}}], containers: [{name: c, image: i}]",
            Enforcement::Audit,
        ),
    ] {
        assert_eq!(mode(&pod(&format!("{{{containers}}}")), &settings), expected, "{containers}");
    }
}

#[test]
fn access_letters_are_parsed_in_any_order() {
    for (letters, expected) in [("rwm", "rwm"), ("mrw", "rwm"), ("w", "w"), ("", ""), ("rr", "r"), ("a", "")]
    {
        assert_eq!(Access::parse(letters).to_string(), expected);
    }
    assert!(Access::ALL.contains(Access::READ) && !Access::READ.contains(Access::READ_WRITE));
    assert_eq!((Access::ALL - Access::READ_WRITE, Access::ALL & Access::READ), (Access::MKNOD, Access::READ));
}

/// A machine of 24 devices: `/n` is character or block device n by its parity, `/d` a directory of the first
/// 4.
fn machine(path: &str) -> Option<Vec<HostDevice>> {
    let node = |n: u32| {
        let kind = if n.is_multiple_of(2) { HostDeviceKind::Char } else { HostDeviceKind::Block };
        (n < 24).then(|| device(&format!("/{n}"), kind, n, n))
    };
    match path {
        "/d" => (0..4).map(node).collect(),
        _ => Some(vec![node(path.strip_prefix('/')?.parse().ok()?)?]),
    }
}

proptest! {
    /// The rules allow exactly what volumes, responses and the configuration name.
    #[test]
    fn rules_allow_exactly_what_the_sources_name(
        volumes in prop::collection::vec((0u32..28, 0usize..4), 0..4),
        devices in prop::collection::vec((0u32..28, "[rwmx]{0,3}"), 0..4),
        mounts in prop::collection::vec((0u32..28, any::<bool>(), any::<bool>()), 0..4),
        extra in prop::collection::vec(0u32..24, 0..4),
    ) {
        let types = ["", "CharDevice", "BlockDevice", "File"];
        let volume = |(i, (n, t)): (usize, &(u32, usize))| {
            format!("{{name: v{i}, hostPath: {{path: /{n}, type: '{}'}}}}", types[*t])
        };
        let listed: Vec<String> = volumes.iter().enumerate().map(volume).collect();
        let pod = pod(&format!("{{containers: [{{name: c, image: i}}], volumes: [{}]}}", listed.join(", ")));
        let path_of = |n: u32, directory: bool| if directory { "/d".to_owned() } else { format!("/{n}") };
        let response = ContainerAllocateResponse {
            devices: devices
                .iter()
                .map(|(n, p)| DeviceSpec { host_path: path_of(*n, false), permissions: p.clone(), ..Default::default() })
                .collect(),
            mounts: mounts
                .iter()
                .map(|(n, r, d)| Mount { host_path: path_of(*n, *d), read_only: *r, ..Default::default() })
                .collect(),
            ..Default::default()
        };
        let extra_devices: Vec<HostDevice> = extra.iter().flat_map(|n| machine(&format!("/{n}")).unwrap()).collect();
        let found = rules(&pod, &[response], &extra_devices, machine);

        for n in 0..28u32 {
            for (letter, wanted) in [('r', "r"), ('w', "w"), ('m', "m")] {
                let from_volume = volumes.iter().any(|(v, t)| *v == n && (*t == 0 || *t == 1 + (n % 2) as usize));
                let from_response = devices.iter().any(|(d, p)| *d == n && p.contains(letter));
                let mounted = |(m, read_only, directory): &(u32, bool, bool)| {
                    (if *directory { n < 4 } else { *m == n })
                        && (letter == 'r' || letter == 'w' && !*read_only)
                };
                let named = n < 24
                    && (from_volume || from_response || mounts.iter().any(mounted) || extra.contains(&n));
                let allowed = found.iter().any(|r| {
                    r.major == n && r.minor == Some(n) && r.access.contains(Access::parse(wanted))
                });
                prop_assert_eq!(allowed, named, "{} of {}", letter, n);
            }
        }
        prop_assert!(found.iter().all(|r| r.major < 24 && r.minor == Some(r.major)));
        let mut devices: Vec<_> = found.iter().map(|r| (r.kind, r.major, r.minor)).collect();
        devices.dedup();
        prop_assert_eq!(devices.len(), found.len(), "each device once");
    }
}
