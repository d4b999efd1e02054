use nodewarden_model::{HostDevice, HostDeviceKind};

use super::*;
use crate::beside::held::Grant;
use crate::policy::Access;

fn ids(names: &[&str]) -> DevicesPerNuma {
    DevicesPerNuma::from([(-1, names.iter().map(|name| (*name).to_owned()).collect())])
}

fn held(resource: &str, id: &str) -> Held {
    let device = HostDevice { path: "/dev/x".into(), kind: HostDeviceKind::Char, major: 240, minor: 1 };
    Held {
        uid: "u".into(),
        namespace: "ml".into(),
        pod: "train".into(),
        container: "main".into(),
        resource: resource.into(),
        ids: ids(&[id]),
        grants: vec![Grant { device, access: Access::READ_WRITE, certain: true }],
        missing: vec!["/dev/y".into()],
        unknown: None,
    }
}

/// Id, health, owner, problem.
fn lines(view: &DevicesView) -> Vec<(String, &'static str, bool, String)> {
    let all = view.resources.iter().flat_map(|own| &own.devices);
    all.map(|own| (own.id.clone(), own.health, own.owner.is_some(), own.problem.clone())).collect()
}

#[test]
fn a_device_of_a_container_that_is_not_allocatable_is_unhealthy() {
    let allocatable = Some(BTreeMap::from([("a/b".to_owned(), ids(&["1", "3"]))]));
    let answer = Answer { allocatable, ..Answer::default() };
    let why = |uid: &str, container: &str, _: &str| {
        (uid == "u" && container == "main").then(|| "refused".to_owned())
    };
    let view = shown(&answer, None, &[held("a/b", "1"), held("a/b", "2")], why, &["trouble".into()]);
    let problem = "the machine has no /dev/y; /dev/x can no longer be opened: refused";
    let expected = [
        ("1".into(), "Healthy", true, problem.into()),
        ("2".into(), "Unhealthy", true, problem.into()),
        ("3".into(), "Healthy", false, String::new()),
    ];
    assert_eq!(lines(&view), expected);
    let own = &view.resources[0];
    assert_eq!((own.capacity, own.allocatable, own.allocated), (3, Some(2), 2));
    assert_eq!(
        (own.devices[0].nodes.clone(), &view.problems[0]),
        (vec!["/dev/x".to_owned()], &"trouble".to_owned())
    );
}

#[test]
fn an_old_kubelet_and_claims_say_nothing_of_health() {
    let registered = BTreeMap::from([("a/b".to_owned(), ["free".to_owned()].into())]);
    let all = [held("a/b", "1"), held("claim ml/gpu", "v/g=0")];
    let view = shown(&Answer::default(), Some(&registered), &all, |_, _, _| None, &[]);
    let health: Vec<_> = lines(&view).into_iter().map(|(id, health, ..)| (id, health)).collect();
    let expected = [("1".into(), "Unknown"), ("free".into(), "Unknown"), ("v/g=0".into(), "Unknown")];
    assert_eq!(health, expected);
}
