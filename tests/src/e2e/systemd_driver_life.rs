//! The life of slices made by nodewarden's systemd driver: removed with all that systemd kept of them, finished where
//! somebody else left off, with the controllers of their parents staying on, and while systemd starts itself anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nodewarden_machine::cgroup::control::{Bound, Driver, Limits};

use super::support::eventually;
use super::systemd_driver::{Tree, Values, are, level, pod, test, unit};
use crate::fixture::{SystemctlError, Worker, show_unit, systemctl};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    test("systemd_driver_removes_units", removes),
    test("systemd_driver_spares_processes", spares_processes),
    test("systemd_driver_keeps_controllers", keeps_controllers),
    test("systemd_driver_finishes_what_is_half_made", finishes),
    test("systemd_driver_outlives_reexec", outlives_reexec),
    test("systemd_driver_goes_either_way", either_way),
];

/// Where systemd keeps what it was told at run time.
const KEPT: [&str; 2] = ["/run/systemd/transient", "/run/systemd/system.control"];

/// Files that systemd keeps of units with this name in theirs.
fn kept(stem: &str) -> Vec<String> {
    let names = KEPT.iter().flat_map(|directory| {
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
    });
    names.map(|path| path.display().to_string()).filter(|path| path.contains(stem)).collect()
}

/// No directory, no unit, and nothing that systemd keeps of it.
fn is_gone(context: &Context, tree: &Tree, path: &str) -> Result<(), Failure> {
    ensure!(!tree.directory(path).exists(), "{path} is still there");
    let state = show_unit(unit(path), &["ActiveState", "SubState"])?;
    ensure_eq!(state["ActiveState"], "inactive", "{path} once removed");
    // systemd collects units when it has nothing else to do.
    eventually(context.patiently(5), &format!("{:?} is kept", kept(unit(path))), || {
        Ok(kept(unit(path)).is_empty().then_some(()))
    })
}

fn removes(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let mut paths = tree.make_pod()?;
    // Twice: the second time all of it is made anew.
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
    // A directory that no unit stands for.
    let stray = &paths[0];
    make(&tree.directory(stray))?;
    tree.driver.remove(stray)?;
    is_gone(context, &tree, stray)
}

fn make(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir(directory).map_err(Failure::file(directory))
}

/// Removing a cgroup whose processes were forgotten is an error that names one of them, and harms none.
fn spares_processes(context: &Context) -> Result<(), Failure> {
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

/// When the last pod goes, the levels keep every file; also after systemd looked at its units again.
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
    // A container of the pod goes with it.
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

/// Whatever of a pod is there already, making it comes to the same end.
fn finishes(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let [_, _, level_path, whole] = tree.make_pod()?;
    let expected = tree.values(&whole)?;
    let finished = |path: &String, how: &str| {
        tree.driver.create(path, &pod())?;
        let values = tree.values(path)?;
        for (name, expected) in expected.iter().filter(|(name, _)| *name != "ControlGroup") {
            ensure_eq!(values[name], *expected, "{name} of {path}, {how}");
        }
        are(&values, path, &[("ControlGroup", path)])?;
        tree.unchanged_by_reload(context, std::slice::from_ref(path))
    };

    let path = tree.path(&["kubepods", "burstable", "podhalf"]);
    make(&tree.directory(&path))?;
    finished(&path, "whose directory was there")?;
    finished(&path, "which was whole")?;
    tree.driver.set(&path, &Limits { pids_max: Some(Bound::At(7)), ..Limits::default() })?;
    finished(&path, "which had another limit")?;
    let directory = tree.directory(&path);
    std::fs::remove_dir(&directory).map_err(Failure::file(&directory))?;
    finished(&path, "whose directory was removed")?;

    // Stopped behind our back, its directory made anew.
    systemctl(&["stop", unit(&path)])?;
    if !directory.exists() {
        make(&directory)?;
    }
    tree.driver.set(&path, &pod())?;
    are(&tree.values(&path)?, &path, &[("ActiveState", "active"), ("memory.max", "123453440")])?;
    finished(&path, "which was set while its unit was stopped")?;
    tree.driver.remove(&path)?;
    is_gone(context, &tree, &path)?;

    // A slice that systemd made on its own for a scope in it. By another name: what it knew of units at the last reload
    // still says that this one has a file, which went with it.
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

    // Limits of a level while it has pods.
    tree.driver.create(&level_path, &level(2))?;
    are(&tree.values(&level_path)?, &level_path, &[("cpu.weight", "1"), ("CPUWeight", "1")])
}

/// Calls that come while systemd starts itself anew, or reads its units, all come to their end.
fn outlives_reexec(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    tree.make_pod()?;
    let over = AtomicBool::new(false);
    let rounds = context.scaled([50, 10]);
    let disturbed = std::thread::scope(|scope| {
        let disturbing = scope.spawn(|| {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) {
                systemctl(&["daemon-reexec"])?;
                systemctl(&["daemon-reload"])?;
                times += 1;
                // A machine that does nothing else would come to nothing else.
                std::thread::sleep(Duration::from_millis(200) * context.patience);
            }
            Ok::<u32, SystemctlError>(times)
        });
        let path = tree.path(&["kubepods", "burstable", "podbusy"]);
        let lived = (0..rounds).try_for_each(|round| {
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
        over.store(true, Ordering::Relaxed);
        let disturbed = disturbing.join().map_err(|_| Failure::Unexpected("a thread panicked".into()))??;
        lived.map(|()| disturbed)
    })?;
    println!("{rounds} pods came and went while systemd began anew {disturbed} times");
    ensure!(disturbed > 1, "systemd began anew {disturbed} times");
    Ok(())
}

/// Where the private socket is.
const PRIVATE: &str = "/run/systemd";
/// Where the system bus is.
const BUS: &str = "/run/dbus";

/// Without the private socket it goes by the system bus; without either it says at once what was tried.
fn either_way(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let paths = tree.make_pod()?;
    let in_another_space = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // What is mounted below is seen by this thread alone.
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
    let space = |errno: nix::Error| Failure::Unexpected(format!("a mount space of its own: {errno}"));
    let (by_bus, without, took) = in_another_space.map_err(space)?;
    by_bus?;
    is_gone(context, &tree, &paths[3])?;
    let Err(error) = without else {
        return Err(Failure::Unexpected("a unit was made without a way to systemd".into()));
    };
    let text = error.to_string();
    let told =
        ["connect to systemd: /run/systemd/private: ", "the system bus: ", "No such file or directory"];
    ensure!(told.iter().all(|part| text.contains(part)), "the error does not tell what was tried: {text}");
    ensure!(took < context.patiently(2), "it took {took:?} to find that there is no way");
    Ok(())
}
