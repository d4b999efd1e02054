//! Layouts of real machines, as facts.

use super::*;

fn mount(version: Version, point: &str, root: &str, controllers: &[&str]) -> MountFact {
    MountFact {
        root: root.to_owned(),
        mount_point: PathBuf::from(point),
        version,
        controllers: controllers.iter().map(|&c| c.to_owned()).collect(),
        visible: true,
    }
}

fn v1(name: &str) -> MountFact {
    let point = format!("/sys/fs/cgroup/{name}");
    mount(Version::V1, &point, "/", &name.split(',').chain(["rw"]).collect::<Vec<_>>())
}

fn memberships(text: &str) -> Vec<Membership> {
    parse_memberships(text)
}

const V1_IDS: &str =
    "9:name=systemd:/\n7:freezer:/\n5:pids:/\n4:memory:/a\n3:blkio:/\n1:cpu,cpuacct:/\n0::/\n";

fn v1_mounts() -> Vec<MountFact> {
    vec![v1("cpu,cpuacct"), v1("memory"), v1("blkio"), v1("pids"), v1("name=systemd"), v1("freezer")]
}

#[test]
fn pure_v1() {
    let layout = Layout::decide(&Facts { mounts: v1_mounts(), memberships: memberships(V1_IDS) }).unwrap();
    assert_eq!(layout.kind(), LayoutKind::V1);
    assert!(layout.unified().is_none());
    assert_eq!(layout.all().map(|h| h.id).collect::<Vec<_>>(), [1, 3, 4, 5, 7, 9]);
    assert_eq!(layout.freezer(), Some(Path::new("/sys/fs/cgroup/freezer")));
    assert_eq!(layout.hierarchies().iter().map(|h| h.id).collect::<Vec<_>>(), [1, 3, 4, 5]);
    assert_eq!(layout.hierarchy(Controller::CpuAcct), layout.hierarchy(Controller::Cpu));
    assert_eq!(layout.missing(), [Controller::Cpuset, Controller::Hugetlb]);
    assert_eq!(
        layout.describe_controllers(),
        ["cpu (v1)", "cpuacct (v1)", "memory (v1)", "pids (v1)", "blkio (v1)"]
    );
}

#[test]
fn hybrid_keeps_v1_controllers_and_takes_the_rest_from_v2() {
    let mut mounts = v1_mounts();
    mounts.push(mount(Version::V2, "/sys/fs/cgroup/unified", "/", &["hugetlb", "memory"]));
    let layout = Layout::decide(&Facts { mounts, memberships: memberships(V1_IDS) }).unwrap();
    assert_eq!(layout.kind(), LayoutKind::Hybrid);
    assert_eq!(layout.hierarchy(Controller::Memory).unwrap().id, 4);
    assert_eq!(layout.hierarchy(Controller::Hugetlb).unwrap().version, Version::V2);
    assert_eq!(layout.unified().unwrap().controllers, [Controller::Hugetlb]);
}

#[test]
fn pure_v2_also_with_a_named_v1_hierarchy() {
    let v2 = mount(Version::V2, "/sys/fs/cgroup", "/", &["cpuset", "cpu", "io", "memory", "hugetlb", "pids"]);
    for extra in [vec![], vec![v1("name=systemd")]] {
        let mounts = [vec![v2.clone()], extra].concat();
        let facts = Facts { mounts, memberships: memberships("1:name=systemd:/\n0::/\n") };
        let layout = Layout::decide(&facts).unwrap();
        assert_eq!(layout.kind(), LayoutKind::V2);
        assert_eq!((layout.hierarchies().len(), layout.all().count()), (1, 1));
        assert_eq!(layout.freezer(), None);
        assert!(layout.missing().is_empty());
        assert_eq!(layout.hierarchy(Controller::CpuAcct).unwrap().id, 0);
    }
}

#[test]
fn missing_cpu_or_memory_is_an_error() {
    for (listed, gone) in [("cpu", Controller::Memory), ("memory", Controller::Cpu)] {
        let mounts = vec![mount(Version::V2, "/sys/fs/cgroup", "/", &[listed])];
        let err = Layout::decide(&Facts { mounts, memberships: memberships("0::/\n") }).unwrap_err();
        assert!(matches!(err, CgroupError::ControllerMissing { controller } if controller == gone), "{err}");
    }
    assert!(matches!(Layout::decide(&Facts::default()), Err(CgroupError::NotMounted { .. })));
}

#[test]
fn of_several_mounts_the_whole_and_shortest_is_taken() {
    let all = ["cpu", "memory"];
    let mounts = vec![
        mount(Version::V2, "/x", "/docker/abc", &all),
        mount(Version::V2, "/host/sys/fs/cgroup", "/", &all),
        mount(Version::V2, "/sys/fs/cgroup", "/", &all),
    ];
    let facts = Facts { mounts, memberships: vec![] };
    assert_eq!(Layout::decide(&facts).unwrap().unified().unwrap().mount, Path::new("/sys/fs/cgroup"));
    let facts = Facts { mounts: facts.mounts[..1].to_vec(), memberships: vec![] };
    assert_eq!(Layout::decide(&facts).unwrap().unified().unwrap().mount_root, "/docker/abc");
}

#[test]
fn a_covered_mount_is_ignored() {
    let mut mounts = vec![mount(Version::V2, "/sys/fs/cgroup", "/", &["cpu", "memory"])];
    mounts[0].visible = false;
    assert!(matches!(
        Layout::decide(&Facts { mounts, memberships: vec![] }),
        Err(CgroupError::NotMounted { .. })
    ));
}

#[test]
fn a_v1_hierarchy_without_an_id_is_an_error() {
    let err = Layout::decide(&Facts { mounts: v1_mounts(), memberships: vec![] }).unwrap_err();
    assert!(matches!(err, CgroupError::UnknownHierarchy { .. }));
}

#[test]
fn fixture_tree() {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    put("proc/self/cgroup", "0::/system.slice/x.service\n");
    put("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids\n");
    let layout = Layout::detect_at(dir.path()).unwrap();
    assert_eq!(layout.unified().unwrap().mount, dir.path().join("sys/fs/cgroup"));
    assert_eq!(layout.missing(), [Controller::Cpuset, Controller::Hugetlb]);
}

#[test]
fn this_machine_has_a_layout() {
    let layout = Layout::detect().unwrap();
    for controller in [Controller::Cpu, Controller::Memory] {
        let hierarchy = layout.hierarchy(controller).unwrap();
        assert!(hierarchy.mount.join("cgroup.procs").exists());
        assert_eq!(hierarchy.id == 0, hierarchy.version == Version::V2);
    }
}

#[test]
fn only_cgroup_mounts_are_gathered() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let table = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 /.. /sys/fs/cg\\040roup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
broken line
";
    put("proc/self/mountinfo", table);
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cg roup/cgroup.controllers", "cpu memory\n");
    let mounts = Facts::gather(root.path()).unwrap().mounts;
    let found: Vec<_> = mounts
        .iter()
        .map(|m| {
            let point = m.mount_point.strip_prefix(root.path()).unwrap().to_str().unwrap();
            (m.version, m.root.as_str(), point, m.controllers.join(" "))
        })
        .collect();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        found,
        [
            (Version::V1, "/", "sys/fs/cgroup/cpu,cpuacct", text("cpu cpuacct rw")),
            (Version::V1, "/", "sys/fs/cgroup/systemd", text("name=systemd rw xattr")),
            (Version::V2, "/..", "sys/fs/cg roup", text("cpu memory")),
        ]
    );
}
