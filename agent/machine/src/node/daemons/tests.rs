//! Which processes are moved, and real moves of the test's own processes between its own cgroups.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::process::Process;
use super::*;
use crate::cgroup::{Controller, Layout};

#[test]
fn never_kernel_threads_and_never_process_1() {
    let process = |pid, parent, is_kernel_thread, is_zombie| Process {
        pid: Pid::from_raw(pid),
        parent: Pid::from_raw(parent),
        is_kernel_thread,
        is_zombie,
    };
    for (what, process, moves) in [
        ("init", process(1, 0, false, false), false),
        ("kthreadd", process(2, 0, true, false), false),
        ("kthreadd, its flag not seen", process(2, 0, false, false), false),
        ("a kernel thread", process(10, 2, true, false), false),
        ("a kernel thread, its flag not seen", process(10, 2, false, false), false),
        ("one that the kernel started elsewhere", process(11, 1, true, false), false),
        ("a daemon", process(400, 1, false, false), true),
        ("a shell's child", process(500, 400, false, false), true),
        ("of another pid namespace's init", process(501, 0, false, false), true),
        ("a zombie", process(600, 400, false, true), false),
    ] {
        let expected = if moves { vec![process.pid] } else { vec![] };
        assert_eq!(to_move(&[process]), expected, "{what}");
    }
}

/// This machine's own kernel threads are distinguished from its processes.
#[test]
fn the_machines_processes() {
    let all = match procfs::process::all_processes() {
        Ok(all) => all,
        Err(error) => return nodewarden_testing::skip(error),
    };
    let own = to_move(&all.filter_map(|p| process::read(Pid::from_raw(p.ok()?.pid()))).collect::<Vec<_>>());
    assert!(own.contains(&Pid::this()) && !own.contains(&Pid::from_raw(1)));
    for pid in own {
        // The kubelet's sign of a kernel thread. A process may also end meanwhile: it has no program any more
        // before it counts as ended.
        let is_settled = || fs::read_link(format!("/proc/{pid}/exe")).is_ok() || is_gone(pid);
        let until = Instant::now() + Duration::from_secs(2);
        while !is_settled() {
            assert!(Instant::now() < until, "{pid} {}", process::name(pid));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether it has ended, waited for or not.
fn is_gone(pid: Pid) -> bool {
    let stat = procfs::process::Process::new(pid.as_raw()).and_then(|process| process.stat());
    stat.map_or(true, |stat| matches!(stat.state, 'Z' | 'X'))
}

/// Cgroups of the test, in the v2 tree and the hierarchy of the pids controller; removed at the end.
struct Cgroups {
    roots: Vec<PathBuf>,
}

impl Cgroups {
    fn new(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            nodewarden_testing::skip("not root");
            return None;
        }
        let layout = Layout::detect().inspect_err(|error| nodewarden_testing::skip(error)).ok()?;
        let hierarchies = [layout.unified(), layout.hierarchy(Controller::Pids)];
        let mut mounts: Vec<PathBuf> = hierarchies.into_iter().flatten().map(|h| h.mount.clone()).collect();
        mounts.dedup();
        let roots = mounts
            .into_iter()
            .map(|mount| mount.join(format!("nodewarden-test-daemons-{name}-{}", std::process::id())))
            .collect::<Vec<_>>();
        let cgroups = Self { roots };
        for directory in &cgroups.roots {
            fs::create_dir_all(directory).unwrap();
        }
        Some(cgroups)
    }

    fn place(&self, name: &str) -> Place {
        let directories: Vec<PathBuf> = self.roots.iter().map(|root| root.join(name)).collect();
        directories.iter().for_each(|directory| fs::create_dir_all(directory).unwrap());
        Place::new(directories)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for root in &self.roots {
            for child in fs::read_dir(root).into_iter().flatten().flatten() {
                if child.path().is_dir() {
                    let _removed = fs::remove_dir(child.path());
                }
            }
            if let Err(e) = fs::remove_dir(root)
                && !std::thread::panicking()
            {
                panic!("{}: {e}", root.display());
            }
        }
    }
}

/// A child process that ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        // Until the new program has its name the process has that of the thread that forked it.
        let comm = format!("/proc/{}/comm", child.id());
        while fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::sleep(Duration::from_millis(1));
        }
        Self(child)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    fn is_in(&self, place: &Place) -> bool {
        place.directories().iter().all(|d| place::members(d).unwrap().contains(&self.pid()))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

fn daemons(agent_score: i32) -> Daemons {
    Daemons { agent_score, agent: None, runtime: None, system: None }
}

#[test]
fn the_agent_is_moved_and_its_score_is_set_once() {
    let Some(cgroups) = Cgroups::new("agent") else { return };
    let place = cgroups.place("agent");
    let sleeper = Sleeper::start();
    let daemons = Daemons { agent: Some(place.clone()), ..daemons(500) };
    let report = daemons.ensure_for(sleeper.pid());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(
        report.moved,
        [Moved { pid: sleeper.pid(), name: "sleep".into(), to: place.directories()[0].clone() }]
    );
    assert_eq!((report.adjusted.len(), report.adjusted[0].to), (1, 500));
    assert!(sleeper.is_in(&place));
    assert_eq!(fs::read_to_string(format!("/proc/{}/oom_score_adj", sleeper.pid())).unwrap().trim(), "500");
    let again = daemons.ensure_for(sleeper.pid());
    assert!(!again.is_change() && again.problems.is_empty(), "{again:?}");
}

#[test]
fn what_cannot_be_done_is_reported() {
    let sleeper = Sleeper::start();
    let missing = Place::new(vec!["/nonexistent/agent".into()]);
    let report = Daemons { agent: Some(missing), ..daemons(300) }.ensure_for(sleeper.pid());
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["read /nonexistent/agent/cgroup.procs: No such file or directory (os error 2)"]);
    assert_eq!(report.adjusted.len(), 1, "the score does not wait for the place");

    let lowest = daemons(-1000).ensure_for(sleeper.pid());
    match lowest.problems.as_slice() {
        [] => assert_eq!(lowest.adjusted[0].to, -1000),
        [DaemonError::Score { from: 300, to: -1000, source, .. }] => {
            assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_process_that_has_ended_is_no_error() {
    let mut sleeper = Sleeper::start();
    sleeper.0.kill().unwrap();
    sleeper.0.wait().unwrap();
    let Some(cgroups) = Cgroups::new("gone") else { return };
    let report = Daemons { agent: Some(cgroups.place("agent")), ..daemons(0) }.ensure_for(sleeper.pid());
    assert!(!report.is_change() && report.problems.is_empty(), "{report:?}");
}

/// A cgroup of the test takes the part of the root cgroup.
#[test]
fn all_processes_are_moved_out_of_the_root() {
    let Some(cgroups) = Cgroups::new("system") else { return };
    let (root, place) = (cgroups.place("root"), cgroups.place("system"));
    let sleepers: Vec<Sleeper> = (0..5).map(|_| Sleeper::start()).collect();
    for sleeper in &sleepers {
        root.enter(sleeper.pid()).unwrap();
    }
    let system = System { root: root.directories()[0].clone(), place: place.clone() };
    let agent = Sleeper::start();
    let daemons = Daemons { system: Some(system), ..daemons(0) };
    let report = daemons.ensure_for(agent.pid());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.moved.len(), 5);
    assert!(sleepers.iter().all(|s| s.is_in(&place)) && !agent.is_in(&place));
    assert!(!daemons.ensure_for(agent.pid()).is_change());
}
