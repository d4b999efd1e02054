use nodewarden_manifest::fixture;
use nodewarden_model::DevicesPerNuma;

use super::*;
use crate::beside::held::Grant;

fn pod(spec: &str) -> Pod {
    let spec = serde_yaml_ng::from_str::<serde_json::Value>(spec).unwrap();
    (*fixture::pod(spec)).clone()
}

fn device(minor: u32) -> HostDevice {
    HostDevice { path: format!("/dev/x{minor}"), kind: HostDeviceKind::Char, major: 240, minor }
}

fn held(minors: &[u32], unknown: bool) -> Held {
    let grant = |minor: &u32| Grant { device: device(*minor), access: Access::READ, certain: true };
    Held {
        uid: "u".into(),
        namespace: "ml".into(),
        pod: "train".into(),
        container: "main".into(),
        resource: "a/b".into(),
        ids: DevicesPerNuma::new(),
        grants: minors.iter().map(grant).collect(),
        missing: Vec::new(),
        unknown: unknown.then(|| "why".to_owned()),
    }
}

const PLAIN: &str = "{containers: [{name: c, image: i}]}";

/// The rules, or why there are none.
fn text(decision: &Decision) -> String {
    match decision {
        Decision::Wait => "wait".to_owned(),
        Decision::Leave(why) => format!("leave: {why}"),
        Decision::Guard(policy) => {
            assert_eq!(policy.scope, Scope::Watched);
            let rule = |rule: &DeviceRule| format!("{:?} {}", rule.minor.unwrap(), rule.access);
            policy.rules.iter().map(rule).collect::<Vec<_>>().join(", ")
        }
    }
}

#[test]
fn a_pod_is_guarded_only_when_all_that_it_was_given_is_known() {
    let (yes, no) = (true, false);
    let claims = "{containers: [{name: c, image: i}], resourceClaims: [{name: gpu, resourceClaimName: g}]}";
    let privileged = "{containers: [{name: c, image: i, securityContext: {privileged: true}}]}";
    let ephemeral = "{containers: [{name: c, image: i}], ephemeralContainers: [{name: d, image: i, securityContext: {privileged: true}}]}";
    for (spec, opted_out, listed, settled, complete, unknown, expected) in [
        (PLAIN, no, yes, yes, no, no, "1 rwm, 2 r"),
        (PLAIN, yes, yes, yes, yes, no, "leave: opted out"),
        (PLAIN, no, no, yes, yes, no, "wait"),
        (PLAIN, no, yes, no, yes, no, "wait"),
        (PLAIN, no, yes, yes, yes, yes, "leave: the nodes of some of its devices are not known"),
        (privileged, no, yes, yes, yes, no, "leave: privileged: it was given every device"),
        (ephemeral, no, yes, yes, yes, no, "leave: privileged: it was given every device"),
        (claims, no, yes, yes, no, no, "wait"),
        (claims, no, yes, yes, yes, no, "1 rwm, 2 r"),
    ] {
        let pod = pod(spec);
        let known =
            Known { pod: &pod, opted_out, listed, settled, complete, by_spec: &[], by_runtime: &[device(1)] };
        let own = held(&[1, 2], unknown);
        let decided = decide(Enforcement::Enforce, &known, &[&own]);
        assert_eq!(text(&decided), expected, "{spec} {opted_out} {listed} {settled} {complete} {unknown}");
    }
}

#[test]
fn what_the_spec_names_is_allowed_and_off_is_off() {
    let pod = pod(PLAIN);
    let by_spec =
        [DeviceRule { kind: HostDeviceKind::Char, major: 240, minor: Some(7), access: Access::ALL }];
    let known = Known {
        pod: &pod,
        opted_out: false,
        listed: true,
        settled: true,
        complete: true,
        by_spec: &by_spec,
        by_runtime: &[],
    };
    assert_eq!(text(&decide(Enforcement::Audit, &known, &[])), "7 rwm");
    assert_eq!(text(&decide(Enforcement::Off, &known, &[])), "leave: off");
}

#[test]
fn watched_are_devices_of_resources_but_not_what_every_container_has() {
    let null = HostDevice { path: "/dev/null".into(), kind: HostDeviceKind::Char, major: 1, minor: 3 };
    let before = BTreeSet::from([numbers(&device(2))]);
    let all = watched(&[held(&[1], false), held(&[3], true)], &before, &[device(4), null]);
    assert_eq!(all.iter().map(|(_, _, minor)| *minor).collect::<Vec<_>>(), [1, 2, 3, 4]);
}
