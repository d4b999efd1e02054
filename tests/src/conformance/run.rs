//! Starts a cluster of one node and runs the suite against it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::Args;
use super::junit::{self, Case, Outcome};
use super::node::{KUBELET, NODEWARDEN, Node, Place};
use super::results::Results;
use super::{images, turns};
use crate::fixture::{
    ADMIN_TOKEN, CgroupError, ClusterError, ClusterPrograms, ContainerdError, ControlPlane,
    ControlPlaneOptions, Layout, PrivateContainerd, PrivateOptions, TestRoot, busybox, die_with_parent,
    end_leftover_containerd, remove_tree,
};
use crate::harness::Problems;

/// The cgroup of all pods: tests of the suite look for it there.
const PODS_CGROUP: &str = "/kubepods";
/// A file that says that [`PODS_CGROUP`] is ours: left by a run that was killed.
const MARKER: &str = "pods-cgroup-is-ours";
/// The bridge of the pods' network.
const LINK: &str = "nwconf";
const NODE_NAME: &str = "conformance";
/// How often the progress is looked at.
const TURN: Duration = Duration::from_millis(200);

/// Why the suite cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Containerd(#[from] ContainerdError),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{0} is there, of a kubelet of this machine: the suite needs a machine without pods")]
    OthersPods(PathBuf),
    #[error("the suite wrote no report: see {0}")]
    NoReport(PathBuf),
}

impl ConformanceError {
    /// For `map_err` on a file operation.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

/// Runs the suite, prints every test's outcome and keeps the results. Fails if a test failed.
///
/// # Errors
/// Something cannot be started, or the suite does not come to its end.
pub fn run(agent: &Path, args: &Args) -> Result<ExitCode, ConformanceError> {
    // Before any thread starts, since threads inherit the mask.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    let _unblocked = signals.thread_block();
    let programs = ClusterPrograms::find_node_suite()?;
    fs::create_dir_all(&args.directory).map_err(ConformanceError::file(&args.directory))?;
    let directory = args.directory.canonicalize().map_err(ConformanceError::file(&args.directory))?;
    let problems = Problems::default();
    let cases = in_cluster(agent, args, &programs, &directory, &problems);
    for problem in problems.take() {
        eprintln!("left behind: {problem}");
    }
    let cases = cases?;
    let node = if args.kubelet { KUBELET } else { NODEWARDEN };
    let mut results = Results::load(&directory, node)?;
    results.add(&cases);
    results.save(&directory, node)?;
    Ok(print(&cases))
}

/// Prints the tests like the end-to-end tests do.
fn print(cases: &[Case]) -> ExitCode {
    let count = |wanted: fn(&Outcome) -> bool| cases.iter().filter(|case| wanted(&case.outcome)).count();
    for case in cases {
        match &case.outcome {
            Outcome::Passed => println!("test {} ... ok ({:.1} s)", case.name, case.seconds),
            Outcome::Skipped => println!("test {} ... skipped: by itself", case.name),
            Outcome::Failed(message) => {
                println!("test {} ... FAILED ({:.1} s)", case.name, case.seconds);
                message.lines().take(12).for_each(|line| println!("    {line}"));
            }
        }
    }
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let (passed, skipped) =
        (count(|outcome| *outcome == Outcome::Passed), count(|outcome| *outcome == Outcome::Skipped));
    println!("e2e: {passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn in_cluster(
    agent: &Path,
    args: &Args,
    programs: &ClusterPrograms,
    directory: &Path,
    problems: &Problems,
) -> Result<Vec<Case>, ConformanceError> {
    let layout = Arc::new(Layout::detect()?);
    clear(directory, &layout)?;
    eprintln!("starting a control plane …");
    let options = ControlPlaneOptions {
        folder: directory.join("cluster"),
        timeout: Duration::from_secs(120),
        port: None,
        signed_for: None,
        audit: false,
        node_gone: None,
    };
    let control_plane = ControlPlane::start(&options)?;
    eprintln!("starting containerd and importing the suite's images …");
    let mut containerd = PrivateContainerd::start(PrivateOptions {
        folder: runtime_folder(directory),
        link: LINK.to_owned(),
        log: directory.join("containerd.log"),
        timeout: Duration::from_secs(60),
        systemd: false,
    })?;
    let archive = directory.join("images.tar");
    images::write(programs, &busybox(), &archive).map_err(ConformanceError::file(&archive))?;
    containerd.ctr(&["images", "import", "--no-unpack", &archive.to_string_lossy()])?;
    fs::remove_file(&archive).map_err(ConformanceError::file(&archive))?;
    let root = TestRoot::at(layout, PODS_CGROUP.to_owned(), problems.clone())?;
    let place = Place {
        directory,
        cluster: control_plane.cluster(),
        name: NODE_NAME,
        runtime: containerd.socket(),
        cgroup_root: "/",
        problems: problems.clone(),
    };
    let node = Node::start((!args.kubelet).then_some(agent), &place)?;
    let runtime = format!("unix://{}", containerd.socket().display());
    let cases = suite(args, programs, directory, control_plane.cluster().server(), &runtime);
    eprintln!("ending the node and its pods …");
    let ended = Instant::now();
    drop(node);
    containerd.end().into_iter().for_each(|problem| problems.add(problem));
    drop(root);
    drop(control_plane);
    let marker = directory.join(MARKER);
    fs::remove_file(&marker).map_err(ConformanceError::file(&marker))?;
    eprintln!("ended after {:.0} s", ended.elapsed().as_secs_f64());
    cases
}

/// Runs the suite's program until it ends or this process is asked to.
fn suite(
    args: &Args,
    programs: &ClusterPrograms,
    directory: &Path,
    server: &str,
    runtime: &str,
) -> Result<Vec<Case>, ConformanceError> {
    let reports = directory.join("reports");
    fs::create_dir_all(&reports).map_err(ConformanceError::file(&reports))?;
    let program = programs.path("e2e_node.test");
    let jobs = args.jobs.max(1);
    let turns = turns::serve().map_err(ConformanceError::file(Path::new("a port of loopback")))?;
    let mut children = Vec::new();
    for job in 1..=jobs {
        let log = log(directory, job);
        let output = File::create(&log).map_err(ConformanceError::file(&log))?;
        let errors = output.try_clone().map_err(ConformanceError::file(&log))?;
        let mut command = Command::new(&program);
        command.args(["--start-services=false", "--stop-services=false", "--prepull-images=false"]);
        command.arg(format!("--node-name={NODE_NAME}")).arg(format!("--host={server}"));
        command.arg(format!("--bearer-token={ADMIN_TOKEN}")).arg("--container-runtime=remote");
        command.arg(format!("--container-runtime-endpoint={runtime}"));
        command.arg(format!("--image-service-endpoint={runtime}"));
        command.arg(format!("--report-dir={}", reports.display()));
        command
            .arg(format!("--ginkgo.focus={}", args.focus))
            .args(["--ginkgo.noColor", "--test.timeout=24h"]);
        if let Some(skip) = &args.skip {
            command.arg(format!("--ginkgo.skip={skip}"));
        }
        if jobs > 1 {
            // One order for all, since a turn is a number in it.
            command.args(["--ginkgo.seed=1", &format!("--ginkgo.parallel.node={job}")]);
            command.arg(format!("--ginkgo.parallel.total={jobs}"));
            command.arg(format!("--ginkgo.parallel.synchost={turns}"));
        }
        command.current_dir(directory).stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        die_with_parent(&mut command);
        children.push(command.spawn().map_err(ConformanceError::file(&program))?);
    }
    eprintln!("running the suite; what it says is in {} …", log(directory, 1).display());
    wait(&mut children).map_err(ConformanceError::file(&program))?;
    let mut cases = Vec::new();
    for job in 1..=jobs {
        let report = reports.join(format!("junit__{job:02}.xml"));
        let text = fs::read_to_string(&report);
        cases.extend(junit::ran(&text.map_err(|_| ConformanceError::NoReport(log(directory, job)))?));
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// What a process of the suite says.
fn log(directory: &Path, job: usize) -> PathBuf {
    directory.join(format!("suite-{job}.log"))
}

/// Waits for the end of all processes. They are interrupted when this one is, and then write their reports.
fn wait(children: &mut [Child]) -> std::io::Result<()> {
    let mut interrupted: Option<Instant> = None;
    loop {
        let mut running = false;
        for child in &mut *children {
            running |= child.try_wait()?.is_none();
        }
        if !running {
            return Ok(());
        }
        if interrupted.is_none() && is_interrupted() {
            interrupted = Some(Instant::now());
            for child in &*children {
                let _gone = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
            }
        }
        if interrupted.is_some_and(|at| at.elapsed() > Duration::from_secs(60)) {
            children.iter_mut().try_for_each(Child::kill)?;
        }
        std::thread::sleep(TURN);
    }
}

/// Whether SIGINT or SIGTERM, which are blocked, has come.
fn is_interrupted() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pending = status.lines().filter(|line| line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"));
    let bits = pending.filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok());
    let bits = bits.fold(0, |all, one| all | one);
    [Signal::SIGINT, Signal::SIGTERM].iter().any(|signal| bits >> (*signal as i32 - 1) & 1 == 1)
}

/// Removes what an earlier run left, except results.
fn clear(directory: &Path, layout: &Layout) -> Result<(), ConformanceError> {
    end_leftover_containerd(&runtime_folder(directory));
    for mounted in crate::fixture::unmount_below(directory) {
        eprintln!("{} is still mounted", mounted.display());
    }
    let marker = directory.join(MARKER);
    for hierarchy in layout.hierarchies() {
        let left = hierarchy.mount.join(PODS_CGROUP.trim_start_matches('/'));
        if left.exists() && !marker.exists() {
            return Err(ConformanceError::OthersPods(left));
        }
        remove_tree(&left, Instant::now() + Duration::from_secs(5))?;
    }
    fs::write(&marker, "").map_err(ConformanceError::file(&marker))?;
    for name in ["cluster", "k", "kd", "state", "reports", "manifests"] {
        let path = directory.join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(ConformanceError::file(&path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// containerd's directory, whose path has to be short because of its socket.
fn runtime_folder(directory: &Path) -> PathBuf {
    let preferred = directory.join("containerd");
    if preferred.as_os_str().len() > 80 { PathBuf::from("/run/nodewarden-conformance") } else { preferred }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_not_asked_to_end_is_not_interrupted() {
        assert!(!is_interrupted());
    }
}
