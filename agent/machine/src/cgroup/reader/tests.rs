use std::thread::sleep;

use super::super::Controller;
use super::super::fixture::TestTree;
use super::*;

fn over(layout: &Layout, reader: &mut GroupReader, asked: Asked, last: &Usage) -> Usage {
    let mut usage = last.clone();
    reader.read(layout, asked, Activity::Ran, KnownUsage::default(), &mut usage, &mut Vec::new());
    usage
}

/// A reading of a cgroup of which the caller knows that nothing has run in it.
fn while_idle(layout: &Layout, reader: &mut GroupReader, last: &Usage) -> Usage {
    let mut usage = last.clone();
    reader.read(layout, Asked::Now, Activity::None, KnownUsage::default(), &mut usage, &mut Vec::new());
    usage
}

fn limit_file(layout: &Layout) -> &'static str {
    match layout.hierarchy(Controller::Memory).map(|h| h.version) {
        Some(Version::V1) => "memory.limit_in_bytes",
        _ => "memory.max",
    }
}

#[test]
fn a_reader_takes_little_memory() {
    assert!(size_of::<GroupReader>() <= 128, "{}", size_of::<GroupReader>());
}

#[test]
fn the_machines_own_root_reads() {
    let Ok(layout) = Layout::detect() else {
        nodewarden_testing::skip("no cgroups here");
        return;
    };
    let mut reader = GroupReader::new(&ReaderFiles::new(&layout, &Budget::new(64)), "/".into());
    let first = over(&layout, &mut reader, Asked::Now, &Usage::default());
    let cpu = first.cpu.as_ref().expect("the root has CPU accounting").usage_ns;
    let second = over(&layout, &mut reader, Asked::Now, &first);
    assert!(second.cpu.unwrap().usage_ns >= cpu);
}

#[test]
fn a_busy_cgroup_is_read_and_its_last_reading_stays_when_it_is_removed() {
    let Some(tree) = TestTree::make("reader") else { return };
    let path = tree.group("busy");
    tree.write(Controller::Memory, "busy", limit_file(&tree.layout), "67108864");
    let mut reader =
        GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
    let idle = over(&tree.layout, &mut reader, Asked::Now, &Usage::default());
    assert_eq!(idle.memory.as_ref().unwrap().limit_bytes, Some(67_108_864));
    let pid = tree.run("busy", "x=$(head -c 4000000 /dev/zero | tr '\\0' x); while :; do :; done");
    sleep(Duration::from_millis(800));
    let busy = over(&tree.layout, &mut reader, Asked::Now, &idle);
    assert!(busy.cpu.as_ref().unwrap().usage_ns > idle.cpu.unwrap().usage_ns + 50_000_000);
    assert_eq!(busy.processes.unwrap().threads, 1);
    let memory = busy.memory.as_ref().unwrap();
    assert!(memory.usage_bytes > 0 && memory.working_set_bytes <= memory.usage_bytes);
    assert_eq!(memory.limit_bytes, Some(67_108_864), "limits stay between their own readings");

    tree.stop(pid);
    tree.remove("busy");
    let gone = over(&tree.layout, &mut reader, Asked::Now, &busy);
    assert!(gone.cpu.unwrap().usage_ns >= busy.cpu.unwrap().usage_ns, "the last values stay");
    assert_eq!(gone.memory.unwrap().limit_bytes, Some(67_108_864));
}

#[test]
fn a_sleeping_cgroup_is_not_read_again_without_a_request() {
    let Some(tree) = TestTree::make("asked") else { return };
    let path = tree.group("idle");
    let mut reader =
        GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
    let first = over(&tree.layout, &mut reader, Asked::Later, &Usage::default());
    assert_eq!(over(&tree.layout, &mut reader, Asked::Later, &first), first, "its time too");
    let asked = over(&tree.layout, &mut reader, Asked::Now, &first);
    assert!(asked.time > first.time);
    let pid = tree.run("idle", "while :; do :; done");
    sleep(Duration::from_millis(300));
    let ran = over(&tree.layout, &mut reader, Asked::Later, &asked);
    assert!(ran.time > asked.time && ran.cpu.unwrap().usage_ns > asked.cpu.unwrap().usage_ns);
    assert_eq!(ran.processes.unwrap().threads, 1);
    tree.stop(pid);
}

#[test]
fn of_an_idle_cgroup_only_what_may_differ_is_read() {
    let Some(tree) = TestTree::make("idle") else { return };
    let path = tree.group("idle");
    let mut reader =
        GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
    let first = while_idle(&tree.layout, &mut reader, &Usage::default());
    assert!(first.cpu.is_some() && first.memory.is_some(), "the first reading reads everything");
    // The caller is wrong: what follows from that shows what was read.
    let pid = tree.run("idle", "while :; do :; done");
    sleep(Duration::from_millis(300));
    let second = while_idle(&tree.layout, &mut reader, &first);
    let ran = |usage: &Usage| usage.cpu.as_ref().unwrap().usage_ns;
    assert_eq!(ran(&second), ran(&first), "the CPU time is not read");
    assert_eq!(second.processes.unwrap().threads, 1, "processes may be reaped at any time");
    assert!(ran(&over(&tree.layout, &mut reader, Asked::Now, &second)) > ran(&first) + 50_000_000);
    tree.stop(pid);
}

#[test]
fn of_an_idle_cgroup_a_known_figure_is_not_read() {
    let Some(tree) = TestTree::make("known") else { return };
    let path = tree.group("idle");
    let mut reader =
        GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
    // Not what the files contain: that shows which is taken.
    let known = KnownUsage { memory_bytes: Some(12_288), threads: Some(3) };
    let mut last = Usage::default();
    let mut read = |activity| {
        let has_changed = reader.read(&tree.layout, Asked::Now, activity, known, &mut last, &mut Vec::new());
        (has_changed, last.memory.as_ref().unwrap().usage_bytes, last.processes.unwrap().threads)
    };
    assert_eq!(read(Activity::None), (true, 0, 0), "the first reading reads everything");
    assert_eq!(read(Activity::None), (true, 12_288, 3));
    assert_eq!(read(Activity::None), (false, 12_288, 3));
    assert_eq!(read(Activity::Ran), (true, 0, 0), "where something ran the files are read");
    assert_eq!(read(Activity::NoneInPod { same_sums: false }), (true, 12_288, 3));
}

#[test]
fn below_an_idle_pod_nothing_is_read_while_its_sums_are_the_same() {
    let Some(tree) = TestTree::make("sums") else { return };
    let pod = tree.group("pod");
    let path = tree.group("pod/part");
    let all = ReaderFiles::new(&tree.layout, &Budget::new(64));
    let [mut of_pod, mut reader] = [pod, path].map(|path| GroupReader::new(&all, path.as_str().into()));
    let mut sums = || {
        let usage = over(&tree.layout, &mut of_pod, Asked::Now, &Usage::default());
        of_pod.sums(&usage).expect("memory and processes are counted")
    };
    let (_, same) = sums();
    assert!(!same, "there was none before");
    let mut last = over(&tree.layout, &mut reader, Asked::Now, &Usage::default());
    reader.unstalled = true;
    let mut read = |same_sums| {
        let (before, activity) = (last.time, Activity::NoneInPod { same_sums });
        let has_read = reader.read(
            &tree.layout,
            Asked::Now,
            activity,
            KnownUsage::default(),
            &mut last,
            &mut Vec::new(),
        );
        assert_eq!(has_read, !same_sums);
        assert!(last.time > before);
        last.processes.unwrap().threads
    };
    assert!(sums().1);
    // The caller is wrong the first time: that shows what was read.
    let pid = tree.run("pod/part", "while :; do :; done");
    assert_eq!((read(true), read(false)), (0, 1));
    assert!(!sums().1, "it is one more process");
    tree.stop(pid);
}

#[test]
fn limits_of_an_idle_cgroup_are_read_after_a_minute_or_a_change() {
    let Some(tree) = TestTree::make("limits") else { return };
    let path = tree.group("idle");
    let mut reader =
        GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
    let mut last = while_idle(&tree.layout, &mut reader, &Usage::default());
    let write = |mib: u64| {
        let bytes = mib << 20;
        tree.write(Controller::Memory, "idle", limit_file(&tree.layout), &bytes.to_string());
        Some(bytes)
    };
    let mut read = |reader: &mut GroupReader, seconds: u64, idle: bool| {
        // As if the limits were read so long ago, and something had run before that.
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        (reader.slow_read, reader.ran) = (Some(ago(seconds)), ago(seconds + 1));
        let activity = if idle { Activity::None } else { Activity::Ran };
        reader.read(&tree.layout, Asked::Now, activity, KnownUsage::default(), &mut last, &mut Vec::new());
        last.memory.as_ref().unwrap().limit_bytes
    };
    let first = write(64);
    assert_eq!(read(&mut reader, 61, true), first, "after a minute");
    // Other tests of this process change limits too.
    let (before, second) = (limit_changes::count(), write(65));
    let seen = read(&mut reader, 20, true);
    if limit_changes::count() == before && reader.limit_changes == before {
        assert_eq!(seen, first, "not after 20 s");
    }
    limit_changes::record();
    assert_eq!(read(&mut reader, 20, true), second, "after a change");
    let third = write(66);
    assert_eq!(read(&mut reader, 20, false), third, "something has run");
}

#[test]
fn of_an_idle_cgroup_few_files_stay_open() {
    let Some(tree) = TestTree::make("open") else { return };
    let path = tree.group("idle");
    let mut reader =
        GroupReader::new(&ReaderFiles::new(&tree.layout, &Budget::new(64)), path.as_str().into());
    let open = |reader: &GroupReader| (0..64).filter(|file| reader.files.is_open(*file)).count();
    let first = over(&tree.layout, &mut reader, Asked::Now, &Usage::default());
    let (all, ago) = (open(&reader), Instant::now().checked_sub(Duration::from_secs(61)));
    (reader.slow_read, reader.ran, reader.unstalled) = (ago, ago.unwrap(), true);
    let second = while_idle(&tree.layout, &mut reader, &first);
    let few = open(&reader);
    assert!(few < all && few <= 4, "{few} of {all}");
    while_idle(&tree.layout, &mut reader, &second);
    assert_eq!(open(&reader), few);
    let third = over(&tree.layout, &mut reader, Asked::Now, &second);
    assert_eq!(open(&reader), all, "something runs again");
    over(&tree.layout, &mut reader, Asked::Later, &third);
    assert_eq!(open(&reader), 0, "no client asks, and nothing has run");
}
