//! Names both ways: the kubelet's own cases, and any.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn name(parts: &[&str]) -> CgroupName {
    CgroupName::new(parts.iter().copied()).unwrap()
}

#[test]
fn a_pods_paths() {
    let pod = name(&["kubepods", "burstable", "pod1234-ab"]);
    assert_eq!(pod.cgroupfs_path(), "/kubepods/burstable/pod1234-ab");
    assert_eq!(
        pod.systemd_path(),
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_ab.slice"
    );
    assert_eq!(CgroupName::from_systemd_path("kubepods-burstable-pod1234_ab.slice").unwrap(), pod);
    assert_eq!(pod.to_string(), "[kubepods burstable pod1234-ab]");
}

#[test]
fn the_root() {
    let root = CgroupName::root();
    assert!(root.is_root() && root.parent().is_none() && root.last().is_none());
    assert_eq!((root.cgroupfs_path().as_str(), root.systemd_path().as_str()), ("/", "/"));
    for path in ["/", "-.slice"] {
        assert_eq!(CgroupName::from_systemd_path(path).unwrap(), root);
    }
}

#[test]
fn cgroup_root_as_configured() {
    let anchor = name(&["anchor"]);
    for (text, expected) in [
        ("/", CgroupName::root()),
        ("/anchor", anchor.clone()),
        ("/anchor/", anchor),
        ("/a/b-c", name(&["a", "b-c"])),
    ] {
        assert_eq!(CgroupName::from_cgroupfs_path(text).unwrap(), expected, "{text}");
    }
    assert_eq!(
        CgroupName::from_cgroupfs_path("anchor"),
        Err(NameError::NotAbsolute { path: "anchor".to_owned() })
    );
    assert_eq!(CgroupName::from_cgroupfs_path("/a//b"), Err(NameError::EmptyPart { name: String::new() }));
    assert_eq!(CgroupName::from_cgroupfs_path("/a/../b"), Err(NameError::Dots { part: "..".to_owned() }));
}

#[test]
fn invalid_parts_of_a_name_are_refused() {
    let character = |part: &str, found| NameError::Character { part: part.to_owned(), found };
    for (part, error) in [
        ("", NameError::EmptyPart { name: String::new() }),
        (".", NameError::Dots { part: ".".to_owned() }),
        ("..", NameError::Dots { part: "..".to_owned() }),
        ("a/b", character("a/b", '/')),
        ("a\nb", character("a\nb", '\n')),
        ("a\0", character("a\0", '\0')),
    ] {
        assert_eq!(CgroupName::root().child(part), Err(error));
    }
    assert!(CgroupName::root().child("x".repeat(255)).is_ok());
    assert!(matches!(CgroupName::root().child("x".repeat(256)), Err(NameError::TooLong { .. })));
}

#[test]
fn names_that_are_no_slices_are_refused() {
    for path in [
        "",
        "kubepods",
        "/kubepods",
        "/kubepods.slice/x.scope",
        "/kubepods-burstable.slice",
        "/a.slice/b.slice",
        "/a.slice/a-b.slice/",
        "a/a-b.slice",
    ] {
        assert!(
            matches!(CgroupName::from_systemd_path(path), Err(NameError::NotASlice { .. })),
            "{path}: {:?}",
            CgroupName::from_systemd_path(path)
        );
    }
    for path in ["/a--b.slice", "-a.slice", "a-.slice", ".slice"] {
        assert!(matches!(CgroupName::from_systemd_path(path), Err(NameError::EmptyPart { .. })), "{path}");
    }
}

#[test]
fn parents_and_descendants() {
    let pod = name(&["kubepods", "burstable", "pod1"]);
    let burstable = name(&["kubepods", "burstable"]);
    assert_eq!(pod.parent().unwrap(), burstable);
    assert_eq!(burstable.child("pod1").unwrap(), pod);
    assert!(pod.starts_with(&burstable) && pod.starts_with(&pod) && pod.starts_with(&CgroupName::root()));
    assert!(!burstable.starts_with(&pod) && !name(&["kubepods2"]).starts_with(&name(&["kubepods"])));
    assert_eq!(pod.last(), Some("pod1"));
}

/// A part that a cgroup can have.
fn part() -> impl Strategy<Value = String> {
    any::<String>().prop_filter_map("no part", |text| checked(text).ok())
}

proptest! {
    #[test]
    fn a_cgroupfs_path_gives_the_same_name(parts in vec(part(), 0..6)) {
        let name = CgroupName::new(parts).unwrap();
        prop_assert_eq!(CgroupName::from_cgroupfs_path(&name.cgroupfs_path()).unwrap(), name);
    }

    #[test]
    fn a_systemd_path_gives_the_same_name_if_it_has_no_underscore(parts in vec(part(), 0..6)) {
        let name = CgroupName::new(parts.into_iter().map(|p| p.replace('_', "-"))).unwrap();
        prop_assert_eq!(&CgroupName::from_systemd_path(&name.systemd_path()).unwrap(), &name);
        let path = name.systemd_path();
        let slice = path.rsplit('/').next().filter(|slice| !slice.is_empty()).unwrap_or("/");
        prop_assert_eq!(CgroupName::from_systemd_path(slice).unwrap(), name);
    }

    #[test]
    fn a_slice_name_gives_the_path_it_was_made_of(path in "(/[a-c_-]{1,3}(\\.slice)?){0,4}") {
        if let Ok(name) = CgroupName::from_systemd_path(&path)
            && path.matches('/').count() > 1
        {
            prop_assert_eq!(name.systemd_path(), path);
        }
    }

    #[test]
    fn the_path_of_a_child_is_below_that_of_its_parent(parts in vec("[a-z_-]{1,5}", 1..5)) {
        let name = CgroupName::new(parts).unwrap();
        let parent = name.parent().unwrap();
        for (child, parent) in
            [(name.cgroupfs_path(), parent.cgroupfs_path()), (name.systemd_path(), parent.systemd_path())]
        {
            prop_assert_eq!(child.rsplit_once('/').unwrap().0, parent.trim_end_matches('/'));
        }
    }
}

mod golden {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Case {
        name: Vec<String>,
        systemd: String,
        cgroupfs: String,
        back_from_systemd: String,
        back_from_cgroupfs: String,
    }

    #[test]
    fn names_are_the_kubelets() {
        let Some(cases) = nodewarden_testing::golden::load("cgroup_names.json") else { return };
        let cases: Vec<Case> = serde_json::from_value(cases).expect("golden JSON");
        assert!(!cases.is_empty());
        for case in cases {
            let name = CgroupName::new(case.name).unwrap();
            assert_eq!(name.systemd_path(), case.systemd, "{name}");
            assert_eq!(name.cgroupfs_path(), case.cgroupfs, "{name}");
            let cgroupfs = CgroupName::from_cgroupfs_path(&case.cgroupfs).unwrap();
            assert_eq!(cgroupfs.to_string(), case.back_from_cgroupfs);
            assert_eq!(cgroupfs, name);
            let systemd = CgroupName::from_systemd_path(&case.systemd).unwrap();
            if name.is_root() {
                // The kubelet takes the root's path for a part; here it is the root again.
                assert_eq!((case.back_from_systemd.as_str(), &systemd), ("[/]", &name));
                continue;
            }
            assert_eq!(systemd.to_string(), case.back_from_systemd);
            // It reads `_` as `-`.
            assert_eq!(systemd == name, !name.to_string().contains('_'), "{name}");
        }
    }
}
