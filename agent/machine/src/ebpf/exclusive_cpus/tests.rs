//! Readings of made-up words, and the programs on the running kernel. That they count right is shown by the
//! end-to-end tests `exclusive_cpus_…`.

use std::thread;
use std::time::Duration;

use nodewarden_ebpf_abi::{BY_IDLE, BY_OTHER, BY_OWNER, ExclusiveCpu, VECTOR};

use super::*;
use crate::cgroup::fixture::TestTree;
use crate::cgroup::{Controller, Version};
use crate::ebpf::{LoadOptions, Loaded, Spaces};

const WORD: u64 = owner_word(7, 2, 1);

/// A CPU whose owner has run for 100 ns and runs since 1000.
fn cell() -> ExclusiveCpu {
    // SAFETY: a structure of integers.
    let mut cell: ExclusiveCpu = unsafe { std::mem::zeroed() };
    cell.task_ns[BY_OWNER] = 100;
    cell.switches[BY_OWNER] = 3;
    cell.owner = WORD;
    cell.since_ns = 1000;
    cell.kind = BY_OWNER as u32;
    cell
}

#[test]
fn the_running_turn_counts_without_its_interrupts() {
    let mut cell = cell();
    (cell.interrupt_ns, cell.interrupt_ns_before, cell.interrupts) = (30, 10, 2);
    (cell.softirq_ns, cell.softirq_ns_before, cell.softirqs) = (7, 2, 1);
    let used = totals(&cell, WORD, 1500);
    assert_eq!(used.ns(CpuUser::Owner), 100 + 500 - 20 - 5);
    assert_eq!((used.ns(CpuUser::Interrupt), used.ns(CpuUser::Softirq)), (30, 7));
    let counts = [CpuUser::Owner, CpuUser::Interrupt, CpuUser::Softirq].map(|user| used.count(user));
    assert_eq!(counts, [3, 2, 1]);
    // Read while an interrupt's handler was added up.
    assert_eq!(totals(&cell, WORD, 1010).ns(CpuUser::Owner), 100);
}

#[test]
fn a_turn_under_another_owner_does_not_count() {
    let other = owner_word(7, 2, 2);
    assert_eq!(totals(&cell(), other, 1500).ns(CpuUser::Owner), 100);
    assert_eq!(running(&cell(), other, 1500), None);
}

#[test]
fn every_kind_of_task_is_a_user() {
    for (kind, user) in [
        (BY_OWNER, CpuUser::Owner),
        (abi::BY_KERNEL_THREAD, CpuUser::KernelThread),
        (BY_OTHER, CpuUser::Other),
        (BY_IDLE, CpuUser::Idle),
    ] {
        let cell = ExclusiveCpu { kind: kind as u32, task_ns: [0; 4], ..cell() };
        assert_eq!(totals(&cell, WORD, 1001).ns(user), 1, "{user:?}");
    }
}

#[test]
fn the_longest_turns_are_those_of_the_ended_period() {
    let mut cell = cell();
    let turn = |period, ns, pid| LongestTurn {
        period,
        ns,
        pid,
        number: 0,
        command: *b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    };
    cell.longest[1][abi::LONGEST_OTHER] = turn(5, 40, 9);
    cell.longest[1][abi::LONGEST_KERNEL_THREAD] = turn(3, 50, 8);
    cell.longest[1][abi::LONGEST_SOFTIRQ] = LongestTurn { number: 3, pid: 0, ..turn(5, 6, 0) };
    cell.longest[1][abi::LONGEST_INTERRUPT] = LongestTurn { number: VECTOR | 0xec, ..turn(5, 2, 0) };
    cell.longest[0][abi::LONGEST_OTHER] = turn(6, 99, 9);
    let expected = |user, ns, pid, name: &str| CpuTurn { user, ns, pid, name: name.into() };
    assert_eq!(
        longest(&cell, 5, Some(1000)),
        [
            expected(CpuUser::Other, 40, 9, "sh"),
            expected(CpuUser::Interrupt, 2, 0, "local timer"),
            expected(CpuUser::Softirq, 6, 0, "NET_RX"),
        ]
    );
    assert_eq!(longest(&cell, 7, None), []);
}

#[test]
fn a_longer_turn_that_still_runs_is_the_longest() {
    let mut cell = cell();
    cell.kind = BY_OTHER as u32;
    cell.pid = std::process::id();
    let found = longest(&cell, 5, Some(50));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].user, found[0].ns, found[0].pid), (CpuUser::Other, 50, cell.pid));
    assert!(!found[0].name.is_empty());
}

#[test]
fn interrupts_and_softirqs_have_the_kernels_names() {
    let named = |user, number| name(user, &LongestTurn { number, ..LongestTurn::default() });
    assert_eq!(named(CpuUser::Interrupt, 36), "irq 36");
    assert_eq!(named(CpuUser::Interrupt, VECTOR | 0xfd), "rescheduling");
    assert_eq!(named(CpuUser::Interrupt, VECTOR | 0x20), "vector 0x20");
    assert_eq!(named(CpuUser::Softirq, 9), "RCU");
    assert_eq!(named(CpuUser::Softirq, 10), "softirq 10");
}

#[test]
fn a_cgroup_is_found_with_its_level() {
    for (mount_root, path, expected) in
        [("/", "/kubepods/a/b", Some(3)), ("/", "/", Some(0)), ("/x", "/b", Some(2)), ("/..", "/b", None)]
    {
        assert_eq!(level(mount_root, path), expected, "{mount_root} {path}");
    }
    let hierarchy = crate::cgroup::fixture::fixture_hierarchy(Path::new("/nonexistent"));
    assert_eq!(hierarchy.version, Version::V2);
    assert_eq!(OwnerCgroup::find(&hierarchy, "/a").unwrap_err().kind(), io::ErrorKind::NotFound);
}

/// The programs, loaded for the cpu controller's hierarchy, and a cgroup in it.
fn load(tree: &TestTree) -> Option<(Loaded, OwnerCgroup)> {
    let Some(hierarchy) = tree.layout.hierarchy(Controller::Cpu) else {
        nodewarden_testing::skip("no cpu controller");
        return None;
    };
    let options = LoadOptions::plain(Spaces::new(None, Some(hierarchy.id), None, false), 64);
    match Kernel::load(options) {
        Ok(loaded) => Some((loaded, OwnerCgroup::find(hierarchy, &tree.group("owner")).unwrap())),
        Err(error) => {
            nodewarden_testing::skip(&error);
            None
        }
    }
}

#[test]
fn the_programs_are_attached_only_while_a_cpu_is_exclusive() {
    let Some(tree) = TestTree::make("exclusive") else { return };
    let Some((mut loaded, owner)) = load(&tree) else { return };
    let kernel = &mut loaded.kernel;
    let mut cpus = kernel.exclusive_cpus().unwrap();
    assert_eq!(kernel.exclusive_cpus_status().state, HookState::On);
    assert!(!cpus.is_attached() && kernel.attached.iter().all(|own| own.topic != Topic::ExclusiveCpus));

    cpus.set(kernel, &BTreeMap::from([(0, owner)])).unwrap();
    assert!(cpus.is_attached());
    assert_eq!(kernel.exclusive_cpus_status().reason, "");
    assert_eq!(kernel.exclusive_cpus_status().state, HookState::On);
    thread::sleep(Duration::from_millis(300));
    let first = cpus.read().unwrap();
    assert!(first[&0].since_switch && first[&0].used.total_ns() > 0, "{first:?}");

    cpus.set(kernel, &BTreeMap::new()).unwrap();
    assert!(!cpus.is_attached() && cpus.read().unwrap().is_empty());

    // Again: nothing is counted of the time in between.
    thread::sleep(Duration::from_millis(700));
    let begin = std::time::Instant::now();
    cpus.set(kernel, &BTreeMap::from([(0, owner)])).unwrap();
    thread::sleep(Duration::from_millis(100));
    let second = cpus.read().unwrap()[&0].used;
    let counted = second.since(&first[&0].used).total_ns();
    // Between the first reading and the end of the first time some may have been counted too.
    let most = begin.elapsed() + Duration::from_millis(200);
    assert!(counted > 0 && counted < most.as_nanos() as u64, "{counted} ns in {most:?}");
}

#[test]
fn a_cpu_that_does_not_exist_leaves_none_exclusive() {
    let Some(tree) = TestTree::make("no-cpu") else { return };
    let Some((mut loaded, owner)) = load(&tree) else { return };
    let mut cpus = loaded.kernel.exclusive_cpus().unwrap();
    cpus.set(&mut loaded.kernel, &BTreeMap::from([(0, owner)])).unwrap();
    let error = cpus.set(&mut loaded.kernel, &BTreeMap::from([(0, owner), (1 << 20, owner)])).unwrap_err();
    assert!(error.to_string().starts_with("the machine has no CPU 1048576"), "{error}");
    assert!(!cpus.is_attached() && cpus.read().unwrap().is_empty());
}

#[test]
fn a_kernel_that_lacks_a_field_or_an_argument_is_named() {
    let Some(tree) = TestTree::make("lacking") else { return };
    let Some((mut loaded, _)) = load(&tree) else { return };
    let kernel = &mut loaded.kernel;
    kernel.layout.missing.insert(Topic::ExclusiveCpus, vec!["cgroup.ancestors".to_owned()]);
    let error = kernel.exclusive_cpus().map(drop).unwrap_err();
    assert_eq!(error.to_string(), "this kernel has no cgroup.ancestors");
    let status = kernel.exclusive_cpus_status();
    assert_eq!(
        (status.state, status.reason.as_str()),
        (HookState::Off, "this kernel has no cgroup.ancestors")
    );
}
