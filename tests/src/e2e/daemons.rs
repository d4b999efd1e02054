//! `systemCgroups` and `runtimeCgroups` on a machine of the tests' own: daemons are moved out of the root
//! cgroup, and a real container runtime into its cgroup.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;
use nodewarden_machine::node::daemons::{Daemons, Place, RUNTIME_SCORE, Runtime, System};

use crate::fixture::{Containerd, Group, TestRoot};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("system_cgroups_empty_the_root", empty_the_root)
        .needs(&[Capability::Root, Capability::OwnMachine, Capability::PidsCgroup])
        .without_agent(),
    Test::new("runtime_cgroups_hold_the_runtime", hold_the_runtime)
        .needs(&[
            Capability::Root,
            Capability::OwnMachine,
            Capability::MemoryV2,
            Capability::LowerOomScore,
            Capability::Cri,
        ])
        .without_agent(),
];

/// Moves processes back to the cgroups they came from, also when the test fails: processes left in a test's
/// cgroups are killed.
struct MoveBack {
    from: Vec<PathBuf>,
    to: Vec<PathBuf>,
}

impl Drop for MoveBack {
    fn drop(&mut self) {
        for (from, to) in self.from.iter().zip(&self.to) {
            for pid in members(from).into_iter().flatten() {
                // Fails for a process that has ended meanwhile.
                let _moved = std::fs::write(to.join("cgroup.procs"), pid.to_string());
            }
        }
    }
}

/// The directories of a group, one for each hierarchy.
fn directories(group: &Group) -> Vec<PathBuf> {
    group.procs_files().iter().filter_map(|file| file.parent().map(Path::to_owned)).collect()
}

/// The processes in a cgroup directory.
fn members(directory: &Path) -> Result<BTreeSet<i32>, Failure> {
    let path = directory.join("cgroup.procs");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Whether a process is a kernel thread: as in the kubelet, one that has no executable.
fn is_kernel_thread(pid: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_err() && Path::new(&format!("/proc/{pid}")).exists()
}

/// Every process but process 1 and the kernel threads is moved from the root cgroup to the system cgroup,
/// once.
fn empty_the_root(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let system = root.child("system")?;
    let targets = directories(&system);
    let root_directories = directories(&Group::new(context.layout.clone(), "/".to_owned()));
    ensure_eq!(root_directories.len(), targets.len(), "hierarchies");
    let Some(pids) = context.layout.controller("pids").map(|h| h.mount.clone()) else {
        return Err(Failure::Skip("no pids controller".into()));
    };
    let kernel_threads =
        |members: BTreeSet<i32>| members.into_iter().filter(|p| is_kernel_thread(*p)).count();
    let before = kernel_threads(members(&pids)?);
    let _move_back = MoveBack { from: targets.clone(), to: root_directories };

    let daemons = Daemons {
        agent_score: score(std::process::id() as i32)?,
        agent: None,
        runtime: None,
        system: Some(System { root: pids.clone(), place: Place::new(targets.clone()) }),
    };
    let report = daemons.ensure();
    ensure!(report.problems.is_empty(), "{:?}", report.problems);
    let left: Vec<i32> =
        members(&pids)?.into_iter().filter(|pid| *pid != 1 && !is_kernel_thread(*pid)).collect();
    ensure!(left.is_empty(), "processes still in the root cgroup: {left:?}");
    ensure!(kernel_threads(members(&pids)?) >= before.min(1), "no kernel thread is left in the root cgroup");
    for directory in &targets {
        let moved = members(directory)?;
        ensure!(!moved.contains(&1), "process 1 was moved to {}", directory.display());
        ensure_eq!(kernel_threads(moved), 0, "kernel threads in {}", directory.display());
    }
    for moved in &report.moved {
        ensure!(moved.pid != Pid::from_raw(1), "process 1 was moved");
    }
    ensure!(!daemons.ensure().is_change(), "a second call still changes something");
    Ok(())
}

/// The container runtime is moved to its cgroup and gets the kubelet's oom_score_adj, once.
fn hold_the_runtime(context: &Context) -> Result<(), Failure> {
    let containerd = Containerd::start(context)?;
    let root = TestRoot::new(context)?;
    let runtime = root.child("runtime")?;
    let targets = directories(&runtime);
    let found = nodewarden_machine::node::daemons::find_runtime(containerd.socket());
    let pids = found.map_err(|error| Failure::Unexpected(error.to_string()))?;
    ensure_eq!(pids.len(), 1, "runtimes");
    let pid = pids[0].as_raw();
    let own_path = unified_path(pid)?;
    let Some(top) = context.layout.unified().map(|h| h.mount.clone()) else {
        return Err(Failure::Skip("no cgroup v2".into()));
    };
    let score_before = score(pid)?;
    let _move_back = MoveBack { from: targets.clone(), to: vec![top.join(own_path.trim_start_matches('/'))] };

    let daemons = Daemons {
        agent_score: score(std::process::id() as i32)?,
        agent: None,
        runtime: Some(Runtime { socket: containerd.socket().to_owned(), place: Place::new(targets) }),
        system: None,
    };
    let report = daemons.ensure();
    ensure!(report.problems.is_empty(), "{:?}", report.problems);
    ensure_eq!(report.moved.len(), 1, "moved: {:?}", report.moved);
    ensure_eq!(report.moved[0].name.as_str(), "containerd", "name of the moved process");
    ensure_eq!(unified_path(pid)?, runtime.path().to_owned(), "the runtime's cgroup");
    ensure_eq!(score(pid)?, RUNTIME_SCORE, "the runtime's oom_score_adj");
    ensure!(!daemons.ensure().is_change(), "a second call still changes something");
    let path = format!("/proc/{pid}/oom_score_adj");
    std::fs::write(&path, score_before.to_string()).map_err(Failure::file(&path))
}

/// A process's `oom_score_adj`.
fn score(pid: i32) -> Result<i32, Failure> {
    let path = format!("/proc/{pid}/oom_score_adj");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    text.trim().parse().map_err(|_| Failure::Unexpected(format!("{path}: {text:?}")))
}

/// The path of a process's cgroup in the v2 tree.
fn unified_path(pid: i32) -> Result<String, Failure> {
    let path = format!("/proc/{pid}/cgroup");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let line = text.lines().find_map(|line| line.strip_prefix("0::"));
    line.map(str::to_owned).ok_or_else(|| Failure::Unexpected(format!("{path}: {text:?}")))
}
