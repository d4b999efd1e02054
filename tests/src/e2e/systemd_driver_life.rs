//! Creation and removal of slices by nodewarden's systemd driver: whole and partial ones, with and without
//! processes, and while systemd re-executes itself or is unreachable.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nodewarden_machine::cgroup::control::{Bound, Driver, Limits};

use super::support::eventually;
use super::systemd_driver::{Tree, Values, check_values, level, pages, pod, test, unit};
use crate::fixture::{SystemctlError, Worker, show_unit, systemctl};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    test("systemd_driver_removes_units", removes),
    test("systemd_driver_removes_no_process", removes_no_process),
    test("systemd_driver_keeps_controllers", keeps_controllers),
    test("systemd_driver_completes_partial_pods", completes),
    test("systemd_driver_works_during_reexec", works_during_reexec),
    test("systemd_driver_uses_either_bus", either_bus),
];

/// Where systemd keeps unit files and drop-ins that were set at run time.
const UNIT_FILES: [&str; 2] = ["/run/systemd/transient", "/run/systemd/system.control"];

/// Files that systemd keeps of units with this text in their names.
fn unit_files(stem: &str) -> Vec<String> {
    let names = UNIT_FILES.iter().flat_map(|directory| {
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
    });
    names.map(|path| path.display().to_string()).filter(|path| path.contains(stem)).collect()
}

/// Checks that a cgroup has no directory, no active unit, and no file that systemd keeps of it.
fn is_gone(context: &Context, tree: &Tree, path: &str) -> Result<(), Failure> {
    ensure!(!tree.directory(path).exists(), "{path} is still there");
    let state = show_unit(unit(path), &["ActiveState", "SubState"])?;
    ensure_eq!(state["ActiveState"], "inactive", "ActiveState of {path} after its removal");
    // systemd frees units when it has nothing else to do.
    eventually(context.patiently(5), &format!("{:?} is still there", unit_files(unit(path))), || {
        Ok(unit_files(unit(path)).is_empty().then_some(()))
    })
}

/// Removing a slice removes its directory, its unit and systemd's files of it; removing it again is no error.
fn removes(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let mut paths = tree.make_pod()?;
    // Twice: the second time everything is created again.
    for _ in 0..2 {
        paths = tree.make_pod()?;
        for path in paths.iter().rev() {
            tree.driver.remove(path)?;
            is_gone(context, &tree, path)?;
        }
    }
    for path in &paths {
        tree.driver.remove(path)?;
    }
    // A directory without a unit.
    let stray = &paths[0];
    create(&tree.directory(stray))?;
    tree.driver.remove(stray)?;
    is_gone(context, &tree, stray)
}

/// Creates a cgroup's directory without systemd.
fn create(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir(directory).map_err(Failure::file(directory))
}

/// Removing a cgroup that still has a process is an error that names the process, and does not kill it.
fn removes_no_process(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let [_, _, level, pod] = tree.make_pod()?;
    let command = tree.slice.scope(unit(&pod), "nwtest-forgotten.scope", &[]);
    let worker = Worker::spawn_through(context, command, &["spin", "1"])?;
    for path in [&pod, &level] {
        let Err(error) = tree.driver.remove(path) else {
            return Err(Failure::Unexpected(format!("{path} was removed with a process in it")));
        };
        let (text, pid) = (error.to_string(), worker.pid());
        ensure!(text.contains(&format!("process {pid} ")), "the error does not name {pid}: {text}");
    }
    worker.finish(context.patiently(5))?;
    eventually(context.patiently(5), "the scope does not end", || {
        Ok((!tree.directory(&format!("{pod}/nwtest-forgotten.scope")).exists()).then_some(()))
    })?;
    tree.driver.remove(&pod)?;
    is_gone(context, &tree, &pod)
}

/// When the last pod is removed, its parents keep the files of every controller, also after a reload.
fn keeps_controllers(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let [root, node, level, first] = tree.make_pod()?;
    let levels = [root, node, level];
    let second = tree.path(&["kubepods", "burstable", "podtwo"]);
    tree.driver.create(&second, &pod())?;
    let all = || levels.iter().map(|path| tree.values(path)).collect::<Result<Vec<Values>, _>>();
    let before = all()?;
    for path in &levels {
        let values = tree.values(path)?;
        let missing: Vec<_> =
            values.iter().filter(|(_, value)| *value == "-").map(|(name, _)| name).collect();
        ensure!(missing.is_empty(), "{path} has no {missing:?}");
    }
    // A container of the pod is removed with it.
    let command = tree.slice.scope(unit(&first), "nwtest-container.scope", &["Delegate=yes"]);
    let worker = Worker::spawn_through(context, command, &["spin", "1"])?;
    worker.finish(context.patiently(5))?;
    eventually(context.patiently(5), "the scope does not end", || {
        Ok((!tree.directory(&format!("{first}/nwtest-container.scope")).exists()).then_some(()))
    })?;
    tree.driver.remove(&first)?;
    tree.driver.remove(&second)?;
    for ((path, before), after) in levels.iter().zip(&before).zip(all()?) {
        for (name, before) in before {
            ensure_eq!(after[name], *before, "{name} of {path} without pods");
        }
    }
    tree.unchanged_by_reload(context, &levels)
}

/// Creating a pod of which a part is there already gives the same values as creating it from nothing.
fn completes(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let [_, _, level_path, whole] = tree.make_pod()?;
    let expected = tree.values(&whole)?;
    let finished = |path: &String, how: &str| {
        tree.driver.create(path, &pod())?;
        let values = tree.values(path)?;
        for (name, expected) in expected.iter().filter(|(name, _)| *name != "ControlGroup") {
            ensure_eq!(values[name], *expected, "{name} of {path}, {how}");
        }
        check_values(&values, path, &[("ControlGroup", path)])?;
        tree.unchanged_by(context, &["daemon-reload"], std::slice::from_ref(path))
    };

    let path = tree.path(&["kubepods", "burstable", "podhalf"]);
    create(&tree.directory(&path))?;
    finished(&path, "whose directory was there")?;
    finished(&path, "which was whole")?;
    tree.driver.set(&path, &Limits { pids_max: Some(Bound::At(7)), ..Limits::default() })?;
    finished(&path, "which had another limit")?;
    let directory = tree.directory(&path);
    std::fs::remove_dir(&directory).map_err(Failure::file(&directory))?;
    finished(&path, "whose directory was removed")?;

    // Its unit is stopped by another process, and its directory created again.
    systemctl(&["stop", unit(&path)])?;
    if !directory.exists() {
        create(&directory)?;
    }
    tree.driver.set(&path, &pod())?;
    check_values(
        &tree.values(&path)?,
        &path,
        &[("ActiveState", "active"), ("memory.max", &pages(123_456_789))],
    )?;
    finished(&path, "which was set while its unit was stopped")?;
    tree.unchanged_by(context, &["daemon-reexec"], std::slice::from_ref(&path))?;
    tree.driver.remove(&path)?;
    is_gone(context, &tree, &path)?;

    // A slice that systemd created implicitly for a scope in it. It has another name, since systemd still
    // believes from its last reload that the unit `podhalf` has a file, which was removed with it.
    let path = tree.path(&["kubepods", "burstable", "podscoped"]);
    let command = tree.slice.scope(unit(&path), "nwtest-first.scope", &[]);
    let worker = Worker::spawn_through(context, command, &["spin", "1"])?;
    finished(&path, "which systemd had made")?;
    worker.finish(context.patiently(5))?;
    eventually(context.patiently(5), "the scope does not end", || {
        Ok((!tree.directory(&format!("{path}/nwtest-first.scope")).exists()).then_some(()))
    })?;
    tree.driver.remove(&path)?;
    is_gone(context, &tree, &path)?;

    // Limits of a QoS class while it has pods.
    tree.driver.create(&level_path, &level(2))?;
    check_values(&tree.values(&level_path)?, &level_path, &[("cpu.weight", "1"), ("CPUWeight", "1")])
}

/// All calls succeed while systemd re-executes itself and reloads its units.
fn works_during_reexec(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    tree.make_pod()?;
    let done = AtomicBool::new(false);
    let rounds = context.scaled([50, 10]);
    let reexecs = std::thread::scope(|scope| {
        let reexecuting = scope.spawn(|| {
            let mut times = 0;
            while !done.load(Ordering::Relaxed) {
                systemctl(&["daemon-reexec"])?;
                systemctl(&["daemon-reload"])?;
                times += 1;
                // Without a pause systemd would do nothing else.
                std::thread::sleep(Duration::from_millis(200) * context.patience);
            }
            Ok::<u32, SystemctlError>(times)
        });
        let path = tree.path(&["kubepods", "burstable", "podbusy"]);
        let result = (0..rounds).try_for_each(|round| {
            tree.driver.create(&path, &pod())?;
            let limits = Limits { memory_max: Some(Bound::At(64 << 20)), ..Limits::default() };
            tree.driver.set(&path, &limits)?;
            let memory = tree.directory(&path).join("memory.max");
            let text = std::fs::read_to_string(&memory).map_err(Failure::file(&memory))?;
            ensure_eq!(text.trim_end(), "67108864", "memory.max of {path} in round {round}");
            tree.driver.remove(&path)?;
            ensure!(!tree.directory(&path).exists(), "{path} is still there in round {round}");
            Ok::<(), Failure>(())
        });
        done.store(true, Ordering::Relaxed);
        let reexecs = reexecuting.join().map_err(|_| Failure::Unexpected("a thread panicked".into()))??;
        result.map(|()| reexecs)
    })?;
    println!("{rounds} pods were created and removed while systemd re-executed itself {reexecs} times");
    ensure!(reexecs > 1, "systemd re-executed itself only {reexecs} times");
    Ok(())
}

/// Directory of systemd's private socket.
const PRIVATE: &str = "/run/systemd";
/// Directory of the system bus's socket.
const BUS: &str = "/run/dbus";

/// Without systemd's private socket the driver uses the system bus; without either it fails at once and names
/// both.
fn either_bus(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let paths = tree.make_pod()?;
    let in_own_namespace = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Only this thread sees the mounts below.
            unshare(CloneFlags::CLONE_NEWNS)?;
            let none: Option<&str> = None;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            mount(Some("none"), PRIVATE, Some("tmpfs"), MsFlags::empty(), none)?;
            let by_bus = tree.driver.create(&paths[3], &pod()).and_then(|()| tree.driver.remove(&paths[3]));
            mount(Some("none"), BUS, Some("tmpfs"), MsFlags::empty(), none)?;
            let begun = Instant::now();
            let without = tree.driver.create(&paths[3], &pod());
            Ok::<_, nix::Error>((by_bus, without, begun.elapsed()))
        });
        thread.join().map_err(|_| Failure::Unexpected("a thread panicked".into()))
    })?;
    let namespace_failure = |errno: nix::Error| Failure::Unexpected(format!("own mount namespace: {errno}"));
    let (by_bus, without, took) = in_own_namespace.map_err(namespace_failure)?;
    by_bus?;
    is_gone(context, &tree, &paths[3])?;
    let Err(error) = without else {
        return Err(Failure::Unexpected("a unit was created without a connection to systemd".into()));
    };
    let text = error.to_string();
    let expected =
        ["connect to systemd: /run/systemd/private: ", "the system bus: ", "No such file or directory"];
    ensure!(expected.iter().all(|part| text.contains(part)), "the error does not name both sockets: {text}");
    ensure!(took < context.patiently(2), "it took {took:?} to fail without a connection");
    Ok(())
}
