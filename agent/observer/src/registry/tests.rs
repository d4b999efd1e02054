//! Cases for the registry.

use nodewarden_ebpf_abi::{
    COMMAND_LEN, DEVICE_AUDIT, DEVICE_CHAR, DEVICE_ENFORCE, DEVICE_READ, DEVICE_WRITE, DeviceKey,
    DeviceRecord, ExitRecord, Header, Kind, NAME_LEN, OomRecord, SCOPE_CGROUP,
};
use nodewarden_model::{DeviceAccess, DeviceVerdict, LimitScope, PodNames};
use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Moment {
    Moment { wall: Timestamp::from_second(1_000_000 + second).unwrap(), monotonic_ns: ns(second) }
}

fn ns(second: i64) -> u64 {
    second as u64 * 1_000_000_000
}

fn header(kind: Kind, space: u32, cgroup: u64) -> Header {
    Header { kind: kind as u32, space, time_ns: 0, cgroup }
}

fn created(space: u32, id: u64, parent: u64, name: &str) -> Record {
    let mut bytes = [0; NAME_LEN];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let slot = id as u32;
    Record::Created(CgroupRecord {
        header: header(Kind::Created, space, id),
        parent,
        slot,
        pad: 0,
        name: bytes,
    })
}

fn lifecycle(kind: Kind, space: u32, id: u64) -> CgroupLifecycleRecord {
    CgroupLifecycleRecord { header: header(kind, space, id), slot: 0, pid: 9, command: [0; COMMAND_LEN] }
}

fn removed(space: u32, id: u64) -> Record {
    Record::Removed(lifecycle(Kind::Removed, space, id))
}

/// Two hierarchies with their roots.
fn hybrid() -> Registry {
    let mut registry = Registry::default();
    registry.add(0, 1, 1, "/".into(), at(0));
    registry.add(1, 1, 1, "/".into(), at(0));
    registry
}

fn types(happened: impl IntoIterator<Item = Option<Happened>>) -> Vec<(String, &'static str)> {
    happened.into_iter().flatten().map(|h| (h.path.to_string(), h.detail.event_type().name())).collect()
}

#[test]
fn a_cgroup_in_two_hierarchies_has_each_event_once() {
    let mut r = hybrid();
    let records = [
        created(1, 10, 1, "a"),
        created(0, 20, 1, "a"),
        Record::Populated(lifecycle(Kind::Populated, 1, 10)),
        Record::Populated(lifecycle(Kind::Populated, 0, 20)),
        Record::Moved(lifecycle(Kind::Moved, 0, 20)),
        Record::Moved(lifecycle(Kind::Moved, 1, 10)),
        Record::Emptied(lifecycle(Kind::Emptied, 0, 20)),
        removed(0, 20),
        removed(1, 10),
    ];
    let events = types(records.iter().map(|record| r.apply(record, at(1))));
    let expected = ["cgroupCreated", "cgroupPopulated", "taskMoved", "cgroupEmptied", "cgroupRemoved"];
    assert_eq!(events, expected.map(|t| ("/a".to_owned(), t)));
    assert_eq!(r.counted(), 1, "the roots stay");
}

#[test]
fn a_cgroup_takes_little_memory() {
    assert!(size_of::<Option<Place>>() <= 24, "{}", size_of::<Option<Place>>());
    assert!(size_of::<Group>() <= 152, "{}", size_of::<Group>());
}

#[test]
fn a_cgroup_that_lacks_names_gets_them_unless_it_was_made_again() {
    let mut r = hybrid();
    r.apply(&created(0, 2, 1, "kubepods"), at(1));
    r.apply(&created(0, 3, 2, "podu-1"), at(1));
    let unnamed = r.unnamed();
    let [(path, unnamed)] = unnamed.as_slice() else { panic!("{unnamed:?}") };
    let mut named = Identity::clone(unnamed);
    if let Identity::Pod { names, .. } = &mut named {
        *names = Some(Arc::new(PodNames { namespace: "n".into(), name: "p".into() }));
    }
    let (named, other) = (Arc::new(named), Arc::new(Identity::clone(unnamed)));
    r.name(path, &other, named.clone());
    assert_eq!(r.unnamed().len(), 1, "the names of another one");
    r.name(path, unnamed, named.clone());
    assert!(r.unnamed().is_empty());
    assert!(Arc::ptr_eq(&r.group(path).unwrap().identity, &named));
}

#[test]
fn children_get_their_parents_path() {
    let mut r = hybrid();
    r.apply(&created(0, 2, 1, "kubepods"), at(1));
    r.apply(&created(0, 3, 2, "burstable"), at(1));
    assert_eq!(r.path(0, 3).unwrap().as_ref(), "/kubepods/burstable");
    assert!(!r.take_unknown());
    assert!(r.apply(&created(0, 9, 77, "lost"), at(1)).is_none());
    assert!(r.take_unknown(), "an unknown parent asks for a walk");
}

#[test]
fn a_name_used_again_is_a_new_cgroup_and_its_old_slot_is_retired() {
    let mut r = hybrid();
    r.apply(&created(0, 2, 1, "a"), at(1));
    r.apply(&removed(0, 2), at(2));
    let first = r.groups().find(|g| &*g.path == "/a").unwrap().generation;
    assert!(r.apply(&created(0, 3, 1, "a"), at(3)).is_some());
    let group = r.groups().find(|g| &*g.path == "/a").unwrap();
    assert!(group.generation > first && group.removed.is_none());
    assert_eq!(r.take_retired(ns(3)), [Retired { space: 0, id: 2, slot: 2, removed_ns: ns(2) }]);
    assert!(r.take_retired(ns(9)).is_empty());
}

#[test]
fn a_wall_clock_that_is_set_changes_neither_grace_nor_retention() {
    for step in [86_400, -86_400] {
        let mut r = hybrid();
        r.apply(&created(0, 2, 1, "a"), at(1));
        let wall = at(2).wall + jiff::SignedDuration::from_secs(step);
        r.apply(&removed(0, 2), Moment { wall, ..at(2) });
        r.expire(ns(2));
        assert!(r.groups().any(|g| &*g.path == "/a"), "{step}: it is kept as long as it should be");
        r.expire(ns(3));
        assert!(!r.groups().any(|g| &*g.path == "/a"), "{step}: and no longer");
        assert!(r.take_retired(ns(2)).is_empty(), "{step}: its slot has its grace");
        assert_eq!(r.take_retired(ns(3)).len(), 1, "{step}: and is given back");
    }
}

#[test]
fn removed_cgroups_stay_until_they_expire() {
    let mut r = hybrid();
    r.apply(&created(0, 2, 1, "a"), at(1));
    r.apply(&removed(0, 2), at(2));
    r.expire(ns(2));
    assert!(r.groups().any(|g| &*g.path == "/a"));
    r.expire(ns(3));
    assert!(!r.groups().any(|g| &*g.path == "/a"));
    assert_eq!(r.take_retired(ns(9)).len(), 1, "its slot is given back even if it was never read");
}

#[test]
fn an_oom_kill_has_the_path_of_a_cgroup_that_is_removed_afterwards() {
    let mut r = hybrid();
    r.apply(&created(0, 2, 1, "a"), at(1));
    let oom = Record::Oom(OomRecord {
        header: header(Kind::Oom, 0, 2),
        limit_cgroup: 1,
        limit_pages: 10,
        total_vm: 3,
        file_rss: 2,
        anon_rss: 1,
        shmem_rss: 0,
        trigger_cgroup: 2,
        pid: 5,
        trigger_pid: 6,
        oom_score_adj: -7,
        scope: SCOPE_CGROUP,
        command: *b"eat\0\0\0\0\0\0\0\0\0\0\0\0\0",
        trigger_command: [0; COMMAND_LEN],
    });
    let event = r.apply(&oom, at(2)).unwrap();
    r.apply(&removed(0, 2), at(3));
    assert_eq!(&*event.path, "/a");
    let Detail::Oom(kill) = event.detail else { panic!("{event:?}") };
    assert_eq!((kill.limit_cgroup.as_str(), kill.limit_bytes), ("/", Some(40960)));
    assert_eq!((kill.pid, kill.command.as_str(), kill.oom_score_adj), (5, "eat", -7));
    assert_eq!((kill.anon_rss_bytes, kill.scope), (4096, LimitScope::Cgroup));
}

#[test]
fn exit_code_and_signal_are_decoded_as_by_wait() {
    let mut r = hybrid();
    let exit = |status| {
        Record::Exit(ExitRecord {
            header: header(Kind::Exit, 0, 1),
            pid: 5,
            namespace_pid: 1,
            status,
            main: 1,
            command: [0; COMMAND_LEN],
        })
    };
    for (status, code, signal) in [(0x300, 3, 0), (9, 0, 9), (0x8b, 0, 11)] {
        let Some(Detail::Exit(event)) = r.apply(&exit(status), at(1)).map(|h| h.detail) else { panic!() };
        assert_eq!((event.code, event.signal, event.main), (code, signal, true), "{status:#x}");
    }
}

#[test]
fn a_device_access_has_the_path_of_the_process_cgroup_or_else_of_its_pod() {
    let mut r = hybrid();
    r.apply(&created(1, 2, 1, "pod"), at(1));
    let access = |cgroup, mode, wanted| {
        Record::Device(DeviceRecord {
            header: header(Kind::Device, 1, cgroup),
            device: DeviceKey { pod: 2, kind: DEVICE_CHAR, major: 10, minor: 229, pad: 0 },
            count: 4,
            pid: 5,
            wanted,
            mode,
            refused_before: 0,
            command: *b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0",
        })
    };
    for cgroup in [2, 77] {
        let event = r.apply(&access(cgroup, DEVICE_ENFORCE, DEVICE_READ | DEVICE_WRITE), at(2)).unwrap();
        let expected = DeviceAccess {
            pid: 5,
            command: "cat".into(),
            device: "c 10:229".into(),
            path: String::new(),
            access: "rw".into(),
            verdict: DeviceVerdict::Denied,
            refused_by_runtime: false,
            count: 4,
        };
        assert_eq!((&*event.path, event.detail), ("/pod", Detail::Device(expected)));
    }
    let audited = r.apply(&access(2, DEVICE_AUDIT, DEVICE_WRITE), at(3)).unwrap().detail;
    let Detail::Device(access) = audited else { panic!("{audited:?}") };
    assert_eq!((access.verdict, access.access.as_str()), (DeviceVerdict::Audited, "w"));
}

proptest! {
    /// Whatever the order of creations and removals: no slot is in use twice, none is forgotten.
    #[test]
    fn every_slot_is_held_or_retired_once(
        steps in prop::collection::vec((0u32..2, 2u64..8, any::<bool>()), 0..80)
    ) {
        let mut r = hybrid();
        let mut ids = std::collections::HashMap::new();
        let mut next = 100u64;
        let mut given = std::collections::HashSet::new();
        let mut returned = std::collections::HashSet::new();
        for (i, (space, name, create)) in steps.into_iter().enumerate() {
            let time = at(i as i64);
            match (create, ids.get(&(space, name)).copied()) {
                (true, None) => {
                    next += 1;
                    ids.insert((space, name), next);
                    given.insert((space as usize, next as u32));
                    r.apply(&created(space, next, 1, &name.to_string()), time);
                }
                (false, Some(id)) => {
                    ids.remove(&(space, name));
                    r.apply(&removed(space, id), time);
                }
                _ => {}
            }
            if i % 7 == 0 {
                r.expire(time.monotonic_ns);
            }
            for retired in r.take_retired(ns(1000)) {
                prop_assert!(returned.insert((retired.space, retired.slot)), "given back twice");
            }
        }
        let mut held = std::collections::HashSet::new();
        for group in r.groups() {
            for (space, place) in group.places.iter().enumerate() {
                if let Some(place) = place.filter(|p| p.id > 100) {
                    prop_assert!(held.insert((space, place.slot)));
                }
            }
        }
        prop_assert!(held.is_disjoint(&returned));
        let all: std::collections::HashSet<_> = held.union(&returned).copied().collect();
        prop_assert_eq!(all, given);
    }
}
