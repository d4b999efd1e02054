//! The eBPF program on the real kernel, with cgroups and device nodes made for the tests.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nodewarden_ebpf_abi::{DEVICE_CHAR, DEVICE_READ, DEVICE_WRITE, DeviceRecord, Record};
use nodewarden_machine::cgroup::fixture::TestTree;
use nodewarden_machine::cgroup::join;
use nodewarden_machine::ebpf::{Kernel, LoadOptions, Loaded, Requested, RingReader, Spaces};
use nodewarden_model::HostDeviceKind;
use parking_lot::Mutex;

use super::*;
use crate::policy::{Access, DeviceRule, Scope};

/// The kernel's log, a device that every machine has; opening it for reading disturbs no other process.
const KMSG: (u32, u32) = (1, 11);

/// A kubepods root for the test, the program attached to it, and device nodes without a driver.
struct Fixture {
    // Dropped in this order: the programs before the cgroups.
    _ring: RingReader,
    enforcer: Enforcer,
    kernel: Kernel,
    records: Arc<Mutex<Vec<DeviceRecord>>>,
    nodes: tempfile::TempDir,
    tree: TestTree,
}

impl Fixture {
    fn make(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            nodewarden_testing::skip("not root");
            return None;
        }
        let tree = TestTree::make(name)?;
        let mut loaded = load(&tree)?;
        let enforcer = Enforcer::start(Some(&mut loaded.kernel), &tree.layout, &tree.path(""));
        let state = enforcer.state();
        assert_eq!(state.state, HookState::On, "{}", state.reason);
        let records = Arc::new(Mutex::new(Vec::new()));
        let to = records.clone();
        let ring = RingReader::start(loaded.ring, move |record| {
            if let Record::Device(record) = record {
                to.lock().push(record);
            }
        });
        let nodes = tempfile::tempdir().unwrap();
        let fixture = Self { _ring: ring.unwrap(), enforcer, kernel: loaded.kernel, records, nodes, tree };
        fixture.node("kmsg", SFlag::S_IFCHR, KMSG);
        fixture.node("null", SFlag::S_IFCHR, (1, 3));
        // Numbers for experiments (Documentation/admin-guide/devices.txt): no driver uses them, so opening
        // them gives ENXIO.
        for minor in 0..40 {
            fixture.node(&format!("x{minor}"), SFlag::S_IFCHR, (240, minor));
        }
        Some(fixture)
    }

    fn node(&self, name: &str, kind: SFlag, (major, minor): (u32, u32)) {
        mknod(&self.path(name), kind, Mode::from_bits_truncate(0o666), makedev(major.into(), minor.into()))
            .unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.nodes.path().join(name)
    }

    /// Opens a node as a process of a cgroup. Returns the error number, 0 on success.
    fn open(&self, below: &str, node: &str, flags: i32) -> i32 {
        open_in(&self.cgroup(below), &self.path(node), flags, 1)
    }

    fn cgroup(&self, below: &str) -> PathBuf {
        join(&self.tree.layout.unified().unwrap().mount, &self.tree.path(below))
    }

    /// Creates a pod's and its container's cgroup. Returns the pod's path.
    fn pod(&self, below: &str) -> String {
        self.tree.group(&format!("{below}/c"));
        self.tree.path(below)
    }

    fn guard(&self, uid: &str, path: &str, mode: Enforcement, rules: &[DeviceRule]) {
        self.enforcer
            .guard(uid, path, PodPolicy { mode, rules: rules.to_vec(), scope: Scope::Everything })
            .unwrap();
    }

    fn counted(&self, uid: &str) -> Vec<(String, u64, u64)> {
        let of_pod = self.enforcer.denials().into_iter().filter(|count| count.uid == uid);
        of_pod.map(|count| (count.device, count.denied, count.audited)).collect()
    }

    fn records(&self, at_least: usize) -> Vec<DeviceRecord> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.records.lock().len() < at_least && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.records.lock().clone()
    }
}

fn load(tree: &TestTree) -> Option<Loaded> {
    let Some(unified) = tree.layout.unified() else {
        nodewarden_testing::skip("no unified hierarchy");
        return None;
    };
    let options = LoadOptions {
        spaces: Spaces::new(None, None, None, true),
        max_cgroups: 64,
        ring_bytes: 1 << 16,
        unified: Some(unified.mount.clone()),
        devices: true,
        requested: Requested::default(),
        empty_programs: false,
        verbose: false,
    };
    match Kernel::load(options) {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            nodewarden_testing::skip(&error);
            None
        }
    }
}

/// Opens `node` so many times in a process that enters a v2 cgroup first. Returns the last error number.
fn open_in(cgroup: &Path, node: &Path, flags: i32, times: u32) -> i32 {
    let node = std::ffi::CString::new(node.to_str().unwrap()).unwrap();
    // SAFETY: the string outlives the call; nothing is allocated.
    do_in(cgroup, times, move || unsafe {
        match libc::open(node.as_ptr(), flags | libc::O_NONBLOCK | libc::O_NOCTTY) {
            -1 => *libc::__errno_location(),
            opened => libc::close(opened),
        }
    })
}

/// Calls access(2) for reading on `node`: the same check, without what a driver does at an open.
fn ask_in(cgroup: &Path, node: &Path, times: u32) -> i32 {
    let node = std::ffi::CString::new(node.to_str().unwrap()).unwrap();
    // SAFETY: the string outlives the call; nothing is allocated.
    do_in(cgroup, times, move || unsafe {
        if libc::access(node.as_ptr(), libc::R_OK) == 0 { 0 } else { *libc::__errno_location() }
    })
}

/// Runs `work` so many times in a process in a v2 cgroup and returns its last result. It must only make
/// system calls.
fn do_in(cgroup: &Path, times: u32, work: impl Fn() -> i32 + Send + Sync + 'static) -> i32 {
    let procs = std::ffi::CString::new(cgroup.join("cgroup.procs").to_str().unwrap()).unwrap();
    let child = move || {
        // SAFETY: system calls on strings that outlive them, between fork and exit; nothing is allocated.
        unsafe {
            let file = libc::open(procs.as_ptr(), libc::O_WRONLY);
            if libc::write(file, c"0".as_ptr().cast(), 1) != 1 {
                libc::_exit(255);
            }
            libc::_exit((0..times).fold(0, |_, _| work()));
        }
    };
    // SAFETY: `child` only does what is allowed after fork, and never returns.
    let status = unsafe { Command::new("/bin/true").pre_exec(child).status() };
    let code = status.unwrap().code().unwrap();
    assert_ne!(code, 255, "cannot enter {}", cgroup.display());
    code
}

fn rule((major, minor): (u32, u32), access: Access) -> DeviceRule {
    DeviceRule { kind: HostDeviceKind::Char, major, minor: Some(minor), access }
}

const READ: i32 = libc::O_RDONLY;
const WRITE: i32 = libc::O_WRONLY;

#[test]
fn a_changed_policy_applies_at_the_next_open() {
    let Some(fixture) = Fixture::make("device") else { return };
    let (a, b) = (fixture.pod("burstable/poda"), fixture.pod("podb"));
    let leaf = fixture.tree.group("podleaf");
    let (in_a, in_b) = ("burstable/poda/c", "podb/c");
    assert_eq!(fixture.open(in_a, "kmsg", READ), 0, "no pod is guarded yet");
    fixture.guard("a", &a, Enforcement::Enforce, &[]);
    fixture.guard("leaf", &leaf, Enforcement::Enforce, &[]);
    assert_eq!(fixture.open(in_a, "kmsg", READ), libc::EPERM);
    assert_eq!(fixture.open("podleaf", "kmsg", READ), libc::EPERM, "the pod's own cgroup");
    assert_eq!(fixture.open(in_a, "null", libc::O_RDWR), 0, "every pod has it");
    assert_eq!(fixture.open(in_b, "kmsg", READ), 0, "another pod is not concerned");
    fixture.tree.group("burstable/else");
    assert_eq!(fixture.open("burstable/else", "kmsg", READ), 0, "not a pod's cgroup");

    fixture.guard("a", &a, Enforcement::Enforce, &[rule(KMSG, Access::READ)]);
    assert_eq!(fixture.open(in_a, "kmsg", READ), 0);
    assert_eq!(fixture.open(in_a, "kmsg", WRITE), libc::EPERM, "for reading only");
    fixture.guard("b", &b, Enforcement::Enforce, &[]);
    assert_eq!(fixture.open(in_b, "kmsg", READ), libc::EPERM, "a Guaranteed pod, one level higher");
    assert_eq!(fixture.open(in_a, "kmsg", READ), 0);

    fixture.guard("a", &a, Enforcement::Enforce, &[]);
    assert_eq!(fixture.open(in_a, "kmsg", READ), libc::EPERM, "cut off");
    let every_minor = DeviceRule { minor: None, ..rule(KMSG, Access::READ_WRITE) };
    fixture.guard("a", &a, Enforcement::Enforce, &[every_minor]);
    assert_eq!(fixture.open(in_a, "kmsg", READ), 0);
    fixture.guard("a", &a, Enforcement::Off, &[]);
    fixture.guard("b", &b, Enforcement::Enforce, &[rule((1, 12), Access::ALL)]);
    assert_eq!(fixture.open(in_a, "kmsg", READ), 0, "off");
    assert_eq!(fixture.open(in_b, "kmsg", READ), libc::EPERM, "another minor number");
    fixture.enforcer.forget("b");
    fixture.enforcer.forget("leaf");
    assert_eq!(fixture.open(in_b, "kmsg", READ), 0, "forgotten");
    let Backend::Filter(filter) = &*fixture.enforcer.backend() else { panic!("no filter") };
    assert_eq!((filter.rules_in_kernel(), filter.denials().len()), (0, 0), "the tables are empty");
}

#[test]
fn of_devices_that_are_not_watched_nothing_is_said() {
    let Some(fixture) = Fixture::make("device-watched") else { return };
    let pod = fixture.pod("burstable/poda");
    let in_pod = "burstable/poda/c";
    // What a process gets where the program lets it pass: there is no driver.
    let open = |node| fixture.open(in_pod, node, READ);
    let x = |minor| (HostDeviceKind::Char, 240, minor);
    let guard = |mode, rules: &[DeviceRule]| {
        let policy = PodPolicy { mode, rules: rules.to_vec(), scope: Scope::Watched };
        fixture.enforcer.guard("a", &pod, policy).unwrap();
    };
    let watch =
        |minors: &[u32]| fixture.enforcer.watch(&minors.iter().map(|minor| x(*minor)).collect()).unwrap();
    guard(Enforcement::Enforce, &[rule((240, 2), Access::READ)]);
    assert_eq!((open("kmsg"), open("x1"), open("x2")), (0, libc::ENXIO, libc::ENXIO), "nothing is watched");
    watch(&[1, 2]);
    assert_eq!((open("kmsg"), open("x1"), open("x2")), (0, libc::EPERM, libc::ENXIO));
    assert_eq!(fixture.open(in_pod, "x2", WRITE), libc::EPERM, "for reading only");
    guard(Enforcement::Audit, &[]);
    assert_eq!((open("kmsg"), open("x1"), open("x3")), (0, libc::ENXIO, libc::ENXIO));
    let counted = fixture.counted("a");
    assert_eq!(counted, [("c 240:1".to_owned(), 1, 1), ("c 240:2".to_owned(), 1, 0)]);
    // Watching is by device, and apart from pods.
    guard(Enforcement::Enforce, &[]);
    watch(&[3]);
    assert_eq!((open("x1"), open("x3")), (libc::ENXIO, libc::EPERM));
    watch(&[]);
    fixture.enforcer.forget("a");
    assert_eq!(open("x3"), libc::ENXIO);
    let Backend::Filter(filter) = &*fixture.enforcer.backend() else { panic!("no filter") };
    assert_eq!(filter.rules_in_kernel(), 0, "the tables are empty");
}

#[test]
fn a_pod_cgroup_created_again_is_guarded_again_and_a_missing_one_is_an_error() {
    let Some(fixture) = Fixture::make("device-again") else { return };
    let pod = fixture.pod("poda");
    fixture.guard("a", &pod, Enforcement::Enforce, &[rule(KMSG, Access::READ)]);
    fixture.tree.remove("poda/c");
    fixture.tree.remove("poda");
    let policy = || PodPolicy { mode: Enforcement::Enforce, rules: Vec::new(), scope: Scope::Everything };
    let error = fixture.enforcer.guard("a", &pod, policy()).unwrap_err();
    assert!(matches!(&error, EnforceError::Cgroup { path, .. } if path.ends_with("poda")), "{error}");
    for elsewhere in ["/x", "", "/poda/c/d"] {
        let error = fixture.enforcer.guard("x", &format!("{pod}{elsewhere}x"), policy()).unwrap_err();
        assert!(matches!(&error, EnforceError::NotAPod { .. } | EnforceError::Cgroup { .. }), "{error}");
    }
    fixture.pod("poda");
    fixture.guard("a", &pod, Enforcement::Enforce, &[]);
    assert_eq!(fixture.open("poda/c", "kmsg", READ), libc::EPERM);
    let Backend::Filter(filter) = &*fixture.enforcer.backend() else { panic!("no filter") };
    assert_eq!(filter.rules_in_kernel(), 0, "the old cgroup's rules are gone");
}

#[test]
fn denials_are_counted_and_reported_once_a_second() {
    let Some(fixture) = Fixture::make("device-reports") else { return };
    let (a, b) = (fixture.pod("besteffort/poda"), fixture.pod("besteffort/podb"));
    fixture.guard("a", &a, Enforcement::Enforce, &[]);
    fixture.guard("b", &b, Enforcement::Audit, &[]);
    let (cgroup, node) = (fixture.cgroup("besteffort/poda/c"), fixture.path("x7"));
    let begin = Instant::now();
    assert_eq!(open_in(&cgroup, &node, libc::O_RDWR, 1000), libc::EPERM);
    assert!(begin.elapsed() < Duration::from_secs(1), "too slow for this test");
    assert_eq!(fixture.counted("a"), [("c 240:7".to_owned(), 1000, 0)]);
    // No driver uses it: once the policy allows it, the error is ENXIO.
    assert_eq!(fixture.open("besteffort/podb/c", "x7", WRITE), libc::ENXIO, "audit allows");
    assert_eq!(fixture.counted("b"), [("c 240:7".to_owned(), 0, 1)]);
    let records = fixture.records(2);
    assert_eq!(records.len(), 2);
    let (first, audited) = (records[0], records[1]);
    assert_eq!((first.count, first.wanted), (1, DEVICE_READ | DEVICE_WRITE));
    assert_eq!((first.device.kind, first.device.major, first.device.minor), (DEVICE_CHAR, 240, 7));
    assert_eq!((audited.count, audited.wanted, audited.refused_before), (1, DEVICE_WRITE, 0));
    assert_eq!(
        first.header.cgroup,
        fs::metadata(&cgroup).map(|m| std::os::unix::fs::MetadataExt::ino(&m)).unwrap()
    );
    assert_ne!((first.mode, first.device.pod), (audited.mode, audited.device.pod));
    assert!(first.pid > 0 && first.command[0] != 0);

    // From now on, since a busy machine may have refused the first one late.
    std::thread::sleep(Duration::from_millis(1050));
    assert_eq!(open_in(&cgroup, &node, libc::O_RDWR, 1), libc::EPERM);
    let records = fixture.records(3);
    assert_eq!((records.len(), records[2].count), (3, 1000), "999 that were not reported, and this one");
}

#[test]
fn counts_of_one_pod_are_limited_to_a_number_of_devices() {
    let Some(fixture) = Fixture::make("device-many") else { return };
    let pod = fixture.pod("poda");
    fixture.guard("a", &pod, Enforcement::Enforce, &[]);
    for minor in 0..40 {
        assert_eq!(fixture.open("poda/c", &format!("x{minor}"), READ), libc::EPERM);
    }
    let counted = fixture.counted("a");
    assert_eq!(counted.len(), 17, "{counted:?}");
    assert_eq!(counted.iter().map(|(_, denied, _)| denied).sum::<u64>(), 40);
    assert_eq!(counted.last().unwrap(), &("other".to_owned(), 24, 0));
}

/// The runtime's program on the container's cgroup refuses first. Here a second copy of the agent's program
/// takes the place of the runtime's.
#[test]
fn accesses_that_the_runtime_refused_first_are_marked() {
    let Some(fixture) = Fixture::make("device-runtime") else { return };
    let pod = fixture.pod("poda");
    let Some(mut runtime) = load(&fixture.tree) else { return };
    let below = Enforcer::start(Some(&mut runtime.kernel), &fixture.tree.layout, &pod);
    assert_eq!(below.state().state, HookState::On, "{}", below.state().reason);
    let container = fixture.tree.path("poda/c");
    let none = || PodPolicy { mode: Enforcement::Enforce, rules: Vec::new(), scope: Scope::Everything };
    below.guard("c", &container, none()).unwrap();
    fixture.guard("a", &pod, Enforcement::Enforce, &[rule(KMSG, Access::ALL)]);
    assert_eq!(fixture.open("poda/c", "kmsg", READ), libc::EPERM, "both must allow");
    assert_eq!(fixture.counted("a"), [], "ours allows it");
    assert_eq!(fixture.open("poda/c", "x1", READ), libc::EPERM);
    fixture.tree.group("poda/d");
    assert_eq!(fixture.open("poda/d", "x2", READ), libc::EPERM);
    let records = fixture.records(2);
    let of = |minor| records.iter().find(|r| r.device.minor == minor).unwrap().refused_before;
    assert_eq!((of(1), of(2)), (1, 0));
}

#[test]
fn the_substitute_program_decides_like_the_usual_one() {
    if !nix::unistd::geteuid().is_root() {
        return nodewarden_testing::skip("not root");
    }
    let Some(tree) = TestTree::make("device-substitute") else { return };
    let Some(mut loaded) = load(&tree) else { return };
    let unified = tree.layout.unified().unwrap();
    let filter = Filter::attach_substitute(&mut loaded.kernel, unified, &tree.path("")).unwrap();
    let backend = Arc::new(Mutex::new(Backend::Filter(Box::new(filter))));
    let state = TopicStatus { topic: Topic::Device, state: HookState::On, reason: String::new() };
    let enforcer = Enforcer { backend, state: Arc::new(state) };
    let cgroup = |below: &str| join(&unified.mount, &tree.path(below));
    tree.group("burstable/poda/c/deeper");
    for below in ["burstable/poda/d", "burstable/else", "else", "podb/c"] {
        tree.group(below);
    }
    let kmsg = Path::new("/dev/kmsg");
    if !kmsg.exists() {
        return nodewarden_testing::skip("no /dev/kmsg");
    }
    let policy = |rules| PodPolicy { mode: Enforcement::Enforce, rules, scope: Scope::Everything };
    enforcer.guard("a", &tree.path("burstable/poda"), policy(Vec::new())).unwrap();
    enforcer.guard("b", &tree.path("podb"), policy(vec![rule(KMSG, Access::READ)])).unwrap();
    for (below, expected) in [
        ("burstable/poda/d", libc::EPERM),
        ("burstable/poda/c/deeper", libc::EPERM),
        ("burstable/else", 0),
        ("else", 0),
        ("podb/c", 0),
    ] {
        assert_eq!(open_in(&cgroup(below), kmsg, READ, 1), expected, "{below}");
    }
}

/// `cargo test -p nodewarden --lib cost_of_a_check -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn cost_of_a_check() {
    const TIMES: u32 = 1_000_000;
    let Some(mut fixture) = Fixture::make("device-cost") else { return };
    for pod in 0..200 {
        let path = fixture.pod(&format!("burstable/pod{pod}"));
        let rules: Vec<DeviceRule> = (0..10)
            .map(|n| rule((200 + pod % 50, pod * 10 + n), Access::ALL))
            .chain([rule(KMSG, Access::ALL)])
            .collect();
        fixture.guard(&pod.to_string(), &path, Enforcement::Enforce, &rules);
    }
    let guaranteed = fixture.pod("podg");
    fixture.guard("g", &guaranteed, Enforcement::Enforce, &[rule(KMSG, Access::ALL)]);
    let null = fixture.path("null");
    let kmsg = fixture.path("kmsg");
    let other = fixture.path("x1");
    let (burstable, guaranteed) = (fixture.cgroup("burstable/pod120/c"), fixture.cgroup("podg/c"));
    let open = |cgroup, node| open_in(cgroup, node, READ, TIMES);
    let ask = |cgroup, node| ask_in(cgroup, node, TIMES);
    let cases: [(&str, &dyn Fn() -> i32, i32); 5] = [
        ("/dev/null", &|| open(&burstable, &null), 0),
        ("/dev/null, only asked", &|| ask(&burstable, &null), 0),
        ("a device of its own, only asked", &|| ask(&burstable, &kmsg), 0),
        ("a Guaranteed pod's, only asked", &|| ask(&guaranteed, &kmsg), 0),
        ("refused", &|| open(&burstable, &other), libc::EPERM),
    ];
    for (what, work, outcome) in cases {
        let runs = |kernel: &Kernel| {
            let cost = kernel.costs().into_iter().find(|c| c.name.starts_with("device_access")).unwrap();
            (cost.run_count, cost.run_time_ns)
        };
        fixture.kernel.measure(true);
        let before = runs(&fixture.kernel);
        assert_eq!(work(), outcome, "{what}");
        let after = runs(&fixture.kernel);
        fixture.kernel.measure(false);
        let (count, time) = (after.0 - before.0, after.1 - before.1);
        assert!(count >= u64::from(TIMES), "{count} runs were measured");
        println!("{what}: {:.1} ns a check, {count} checks", time as f64 / count as f64);
    }
}
