//! The driver on this machine's kernel, and on a v2 tree of plain files.

use std::path::PathBuf;

use super::*;
use crate::cgroup::control::{Bound, CpuQuota, CpuShare, Interface};
use crate::cgroup::fixture::TestTree;
use crate::cgroup::group_path::join;
use crate::cgroup::{Facts, MountFact};

fn limits() -> Limits {
    Limits {
        cpu: Some(CpuShare::Shares(910)),
        cpu_quota: Some(CpuQuota { quota_us: Bound::At(77_700), period_us: 100_000 }),
        memory_max: Some(Bound::At(100_000_001)),
        memsw_max: Some(Bound::At(200_000_001)),
        pids_max: Some(Bound::At(50)),
        ..Limits::default()
    }
}

#[test]
fn a_real_cgroup_is_made_changed_and_removed() {
    let Some(tree) = TestTree::make("cgroupfs") else { return };
    let driver = Cgroupfs::new(tree.layout.clone());
    let path = tree.path("pod-1");
    driver.create(&path, &limits()).unwrap();
    for (_, dir) in driver.files.directories(&path) {
        assert!(dir.is_dir(), "{}", dir.display());
    }
    let check_read = |read: Limits, wanted: &Limits| {
        // A kernel without swap accounting has no such limit.
        assert!(read.memsw_max.is_none() || read.memsw_max == wanted.memsw_max, "{:?}", read.memsw_max);
        assert_eq!(
            (read.cpu, read.cpu_quota, read.memory_max, read.pids_max),
            (wanted.cpu, wanted.cpu_quota, wanted.memory_max, wanted.pids_max)
        );
    };
    check_read(driver.files.read(&path).unwrap(), &driver.settled(&limits()));
    // Again and with other limits: up, down, another period, none.
    for (factor, period_us) in [(1, 100_000), (8, 100_000), (1, 50_000), (2, 200_000)] {
        let other = Limits {
            cpu: Some(CpuShare::Shares(910 * factor)),
            cpu_quota: Some(CpuQuota { quota_us: Bound::At(77_700 * factor), period_us }),
            memory_max: Some(Bound::At(100_000_001 * factor)),
            memsw_max: Some(Bound::At(100_000_001 * factor)),
            ..limits()
        };
        driver.create(&path, &other).unwrap();
        check_read(driver.files.read(&path).unwrap(), &driver.settled(&other));
    }
    let none = Limits {
        cpu_quota: Some(CpuQuota { quota_us: Bound::Max, period_us: 100_000 }),
        memory_max: Some(Bound::Max),
        memsw_max: Some(Bound::Max),
        pids_max: Some(Bound::Max),
        ..limits()
    };
    driver.set(&path, &none).unwrap();
    check_read(driver.files.read(&path).unwrap(), &driver.settled(&none));
    for _ in 0..2 {
        driver.remove(&path).unwrap();
        assert!(driver.files.directories(&path).all(|(_, dir)| !dir.exists()));
    }
    assert_eq!(driver.files.read(&path).unwrap(), Limits::default());
}

#[test]
fn a_partly_created_cgroup_is_completed() {
    let Some(tree) = TestTree::make("half") else { return };
    let driver = Cgroupfs::new(tree.layout.clone());
    let path = tree.path("pod-1");
    let dirs: Vec<PathBuf> = driver.files.directories(&path).map(|(_, dir)| dir).collect();
    for made in 0..dirs.len() {
        for dir in &dirs[..made] {
            fs::create_dir(dir).unwrap();
        }
        driver.create(&path, &limits()).unwrap();
        assert!(dirs.iter().all(|dir| dir.is_dir()), "{made} were there");
        if let Some(dir) = driver.files.directory(Controller::Cpuset, &path) {
            let text = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
            let effective = text("cpuset.cpus") + &text("cpuset.cpus.effective");
            assert!(!effective.trim().is_empty(), "a process could not enter {}", dir.display());
        }
        // Half removed, too.
        for dir in &dirs[made..] {
            fs::remove_dir(dir).unwrap();
        }
        driver.remove(&path).unwrap();
        assert!(dirs.iter().all(|dir| !dir.exists()));
    }
}

#[test]
fn what_cannot_be_done_is_an_error() {
    let Some(tree) = TestTree::make("refused") else { return };
    let driver = Cgroupfs::new(tree.layout.clone());
    let error = driver.create(&tree.path("none/pod"), &Limits::default()).unwrap_err();
    assert!(error.to_string().starts_with("mkdir /"), "{error}");
    for path in ["/", "", "x", "/a/../b", "/a//b"] {
        assert!(
            matches!(driver.create(path, &Limits::default()), Err(CgroupError::Root | CgroupError::Name(_))),
            "{path:?}"
        );
        assert!(matches!(driver.remove(path), Err(CgroupError::Root | CgroupError::Name(_))), "{path:?}");
    }
    // A parent with a child stays.
    let (outer, inner) = (tree.path("outer"), tree.path("outer/inner"));
    driver.create(&outer, &Limits::default()).unwrap();
    driver.create(&inner, &Limits::default()).unwrap();
    let error = driver.remove(&outer).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EBUSY), "{error}");
    // Required limits cannot be set on a cgroup that is gone.
    let error = driver.set(&tree.path("gone"), &limits()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ENOENT), "{error}");
    // One refusal does not keep the other limits from being set.
    let mut bad = limits();
    bad.cpu_quota = Some(CpuQuota { quota_us: Bound::At(1), period_us: 100_000 });
    let error = driver.set(&inner, &bad).unwrap_err();
    assert!(matches!(&error, CgroupError::Write { text, .. } if text.starts_with('1')), "{error}");
    assert_eq!(driver.files.read(&inner).unwrap().memory_max, driver.settled(&bad).memory_max);
}

/// v2 as plain files: the controllers that are enabled, and in which files.
#[test]
fn on_v2_controllers_are_enabled_from_the_top_down() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path();
    let all = "cpuset cpu io memory hugetlb pids rdma misc";
    fs::create_dir_all(mount.join("kubepods/pod1")).unwrap();
    for (group, controllers, on) in
        [("", all, "cpu memory"), ("kubepods", all, ""), ("kubepods/pod1", all, "cpu")]
    {
        fs::write(mount.join(group).join("cgroup.controllers"), format!("{controllers}\n")).unwrap();
        fs::write(mount.join(group).join("cgroup.subtree_control"), format!("{on}\n")).unwrap();
    }
    for file in ["cpu.weight", "cpu.max", "memory.max", "pids.max"] {
        fs::write(mount.join("kubepods/pod1").join(file), "").unwrap();
    }
    let facts = Facts {
        mounts: vec![MountFact {
            root: "/".to_owned(),
            mount_point: mount.to_owned(),
            version: Version::V2,
            controllers: all.split(' ').map(str::to_owned).collect(),
            visible: true,
        }],
        memberships: Vec::new(),
    };
    let layout = Arc::new(Layout::decide(&facts).unwrap());
    let interface = Interface::new(&layout, 4096, Vec::new());
    let driver = Cgroupfs { files: GroupFiles::with(layout, interface), warned: Mutex::default() };
    driver.create("/kubepods/pod1", &limits()).unwrap();
    let text = |file: &str| fs::read_to_string(mount.join(file)).unwrap();
    assert!(text("cgroup.subtree_control").starts_with("+cpuset +io +hugetlb +pids +rdma +misc"));
    let given: String = all.split(' ').map(|c| format!("+{c}")).collect::<Vec<_>>().join(" ");
    assert!(text("kubepods/cgroup.subtree_control").starts_with(&given));
    assert_eq!(text("kubepods/pod1/cgroup.subtree_control"), "cpu\n", "its own children are not made yet");
    assert_eq!(text("kubepods/pod1/cpu.weight"), "35");
    assert_eq!(text("kubepods/pod1/cpu.max"), "77700 100000");
    assert_eq!(text("kubepods/pod1/memory.max"), "100000001");

    // Controllers that are enabled already are not written, and a required one that cannot be enabled is an
    // error.
    fs::write(mount.join("kubepods/pod1/cgroup.controllers"), "cpu pids\n").unwrap();
    let error = driver.create("/kubepods/pod1", &limits()).unwrap_err();
    assert!(matches!(error, CgroupError::NotHandedDown { controller: Controller::Memory, .. }), "{error}");
}

#[test]
fn paths_and_kind() {
    let Ok(layout) = Layout::detect() else {
        nodewarden_testing::skip("no cgroups here");
        return;
    };
    let driver = Cgroupfs::new(Arc::new(layout));
    assert_eq!(driver.kind(), DriverKind::Cgroupfs);
    assert_eq!(driver.path(&CgroupName::new(["kubepods", "a-b"]).unwrap()), "/kubepods/a-b");
    assert_eq!(join(Path::new("/m"), "/kubepods"), Path::new("/m/kubepods"));
}
