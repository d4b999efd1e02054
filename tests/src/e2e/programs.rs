//! Every eBPF program of the object file passes this kernel's verifier, is attached to its hook, and runs
//! when the hook is reached.

use std::collections::BTreeMap;
use std::path::Path;

use nodewarden_proto::nodewarden::v1::ProgramCost;

use super::support::{MIB, die_of_memory, eventually, known, oom_of};
use crate::fixture::{Agent, AgentOptions, CgroupError, Client, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test, kernel_version};
use crate::worker::report::{Moved, Port, Processed};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] =
    &[Capability::Root, Capability::MemoryCgroup, Capability::Btf, Capability::Loopback];

pub const TESTS: &[Test] = &[
    Test::new("programs_are_attached", attached).needs(&[
        Capability::Root,
        Capability::Btf,
        Capability::Loopback,
    ]),
    Test::new("programs_run", run_common).needs(NEEDS),
    Test::new("programs_run_network", network).needs(&[
        Capability::Root,
        Capability::UnifiedTree,
        Capability::Btf,
        Capability::Loopback,
    ]),
    Test::new("programs_run_block", block).needs(&[
        Capability::Root,
        Capability::DiskTemp,
        Capability::Btf,
        Capability::Loopback,
    ]),
    Test::new("programs_run_transfer", transfer).needs(&[
        Capability::Root,
        Capability::OwnMachine,
        Capability::CpusetV1,
        Capability::Btf,
        Capability::Loopback,
    ]),
    Test::new("programs_run_node_oom", node_oom).needs(&[
        Capability::Root,
        Capability::OwnMachine,
        Capability::OomVictims,
        Capability::Btf,
        Capability::Loopback,
    ]),
];

/// What a program requires of the machine besides its hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requires {
    Nothing,
    /// The v2 tree.
    Unified,
    /// A hierarchy of the memory controller.
    Memory,
    /// That, and the OOM killer's victims.
    OomVictims,
    Cpu,
    Io,
    /// The hook may be missing: its topic works without it.
    Hook,
}

const LIFE: [&str; 4] = ["cgroup_mkdir", "cgroup_rmdir", "cgroup_notify_populated", "cgroup_attach_task"];
const TRANSFER: [&str; 1] = ["cgroup_transfer_tasks"];
const CPU: [&str; 1] = ["sched_switch"];
const PROCESS: [&str; 3] = ["sched_process_fork", "sched_process_exec", "sched_process_exit"];
const OOM: [&str; 1] = ["mark_victim"];
const RECLAIM: [&str; 2] = ["memcg_reclaim_begin", "memcg_reclaim_end"];
const DIRECT: [&str; 2] = ["direct_reclaim_begin", "direct_reclaim_end"];
const NETWORK: [&str; 2] = ["network_ingress", "network_egress"];
const BLOCK: [&str; 2] = ["block_rq_issue", "block_rq_complete"];

/// All programs of the object file, by their names in the agent's status.
const PROGRAMS: [(&[&str], Requires); 9] = [
    (&LIFE, Requires::Nothing),
    (&TRANSFER, Requires::Hook),
    (&CPU, Requires::Cpu),
    (&PROCESS, Requires::Memory),
    (&OOM, Requires::OomVictims),
    (&RECLAIM, Requires::Memory),
    (&DIRECT, Requires::Memory),
    (&NETWORK, Requires::Unified),
    (&BLOCK, Requires::Io),
];

/// Programs for older kernels, whose tracepoints have other arguments, and the one in whose place each is
/// attached.
const SUBSTITUTES: [(&str, &str); 3] = [
    ("sched_switch_without_state", "sched_switch"),
    ("sched_process_exit_of_thread", "sched_process_exit"),
    ("block_rq_issue_of_queue", "block_rq_issue"),
];

/// The name in `PROGRAMS` of a program.
fn listed(name: &str) -> &str {
    SUBSTITUTES.iter().find(|(substitute, _)| *substitute == name).map_or(name, |(_, listed)| listed)
}

/// Whether the program for OOM kills can be attached.
fn oom_victims(context: &Context) -> bool {
    Capability::OomVictims.probe(&context.layout, context.temp.path()).is_ok()
}

/// Every program is attached unless the machine lacks what it watches; the failure shows the kernel's reason.
fn attached(context: &Context) -> Result<(), Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    let status = agent.client()?.status()?;
    let attached: Vec<&str> = status.programs.iter().map(|program| listed(&program.name)).collect();
    let has = |controller: &str| context.layout.controller(controller).is_some();
    let may_be_missing = |needs| match needs {
        Requires::Nothing => false,
        Requires::Hook => true,
        Requires::Unified => context.layout.unified().is_none(),
        Requires::Memory => !has("memory"),
        Requires::OomVictims => !has("memory") || !oom_victims(context),
        Requires::Cpu => !has("cpu"),
        Requires::Io => !has("io") && !has("blkio"),
    };
    let mut missing: Vec<&str> = Vec::new();
    for (names, needs) in PROGRAMS {
        missing
            .extend(names.iter().copied().filter(|name| !attached.contains(name) && !may_be_missing(needs)));
    }
    let reasons = status.topics.iter().filter(|topic| !topic.reason.is_empty());
    let reasons: Vec<_> = reasons.map(|topic| format!("{}: {}", topic.topic, topic.reason)).collect();
    ensure!(missing.is_empty(), "not attached: {}; {}", missing.join(", "), reasons.join("; "));
    let unknown = |name: &&str| !PROGRAMS.iter().any(|(names, _)| names.contains(name));
    ensure_eq!(attached.iter().copied().find(unknown), None, "a program that no test here covers");
    let says_misses = kernel_version().is_some_and(|version| version >= [5, 12]);
    let wrong = |program: &&ProgramCost| program.recursion_misses.is_some() != says_misses;
    let wrong = status.programs.iter().find(wrong).map(|program| &program.name);
    ensure_eq!(
        wrong,
        None,
        "a program whose skipped runs are not as Linux {} counts them",
        status.kernel_version
    );
    Ok(())
}

/// Run counts by program.
type Runs = BTreeMap<String, u64>;

/// Starts an agent that counts the runs of its programs all the time.
fn agent_with_run_counts(context: &Context) -> Result<Agent, Failure> {
    let options = AgentOptions { program_stats: Some(true), ..Default::default() };
    Ok(Agent::start(context, &options)?)
}

/// How often each program has run so far.
fn runs(client: &Client) -> Result<Runs, Failure> {
    let programs = client.status()?.programs.into_iter();
    Ok(programs.map(|program| (listed(&program.name).to_owned(), program.run_count)).collect())
}

/// Waits until each of `names` has run since `before`.
fn all_ran(context: &Context, client: &Client, before: &Runs, names: &[&str]) -> Result<(), Failure> {
    let mut not_run = Vec::new();
    let result = eventually(context.patiently(3), "", || {
        let now = runs(client)?;
        let grown = |name: &str| now.get(name) > before.get(name);
        not_run = names.iter().filter(|name| !grown(name)).copied().collect();
        Ok(not_run.is_empty().then_some(()))
    });
    result.map_err(|_| Failure::Unexpected(format!("attached, but not run: {}", not_run.join(", "))))
}

/// The programs for cgroups, processes, CPU, reclaim and OOM kills run when these happen.
fn run_common(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = agent_with_run_counts(context)?;
    let client = agent.client()?;
    let before = runs(&client)?;

    let group = root.child("life")?;
    let worker = Worker::start(context, Some(&group), &["processes", "3", "--execs", "1"])?;
    let _: Processed = worker.report(context.patiently(10))?;
    worker.finish(context.patiently(5))?;
    group.remove_when_empty(context.patiently(5))?;
    let group = root.child("victim")?;
    group.limit_memory(16 * MIB)?;
    die_of_memory(context, &group, 64 * MIB)?;
    let oom: &[&str] = if oom_victims(context) { &OOM } else { &[] };
    all_ran(context, &client, &before, &[&LIFE[..], &CPU, &PROCESS, oom, &RECLAIM].concat())
}

/// The network programs run when packets are sent and received.
fn network(context: &Context) -> Result<(), Failure> {
    let agent = agent_with_run_counts(context)?;
    let client = agent.client()?;
    let before = runs(&client)?;
    let receiver = Worker::start(context, None, &["udp-receive", "10"])?;
    let Port { port } = receiver.report(context.patiently(5))?;
    let sender = Worker::start(context, None, &["udp-send", &port.to_string(), "10", "100"])?;
    let _: Moved = sender.report(context.patiently(5))?;
    all_ran(context, &client, &before, &NETWORK)
}

/// The block programs run when blocks are written.
fn block(context: &Context) -> Result<(), Failure> {
    let agent = agent_with_run_counts(context)?;
    let client = agent.client()?;
    let before = runs(&client)?;
    let path = context.temp.join("direct").display().to_string();
    let worker = Worker::start(context, None, &["write-direct", &path, "5", "65536"])?;
    let _: Moved = worker.report(context.patiently(10))?;
    all_ran(context, &client, &before, &BLOCK)
}

/// The transfer program runs when a v1 cpuset loses its last CPU and the kernel moves its processes to the
/// parent.
fn transfer(context: &Context) -> Result<(), Failure> {
    let switch = Path::new("/sys/devices/system/cpu/cpu1/online");
    if !switch.exists() {
        return Err(Failure::Skip("no second CPU that can be taken offline".into()));
    }
    let root = TestRoot::new(context)?;
    let agent = agent_with_run_counts(context)?;
    let client = agent.client()?;
    let before = runs(&client)?;
    if !before.contains_key(TRANSFER[0]) {
        return Err(Failure::Skip("this kernel has no hook for transfers".into()));
    }
    let group = root.child("one-cpu")?;
    let hierarchy = group.hierarchy("cpuset")?;
    let cpus = group.directory(hierarchy).join("cpuset.cpus");
    std::fs::write(&cpus, "1").map_err(Failure::file(&cpus))?;
    let _worker = Worker::spawn(context, Some(&group), &["sleep"])?;
    std::fs::write(switch, "0").map_err(Failure::file(switch))?;
    let ran = all_ran(context, &client, &before, &TRANSFER);
    std::fs::write(switch, "1").map_err(Failure::file(switch))?;
    ran
}

/// When the whole machine runs out of memory the programs for direct reclaim and OOM run, and the event has
/// scope `global` and no limit.
fn node_oom(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = agent_with_run_counts(context)?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let before = runs(&client)?;

    let group = root.child("greedy")?;
    let bytes = (2 * machine_memory()?).to_string();
    let mut worker = Worker::spawn(context, Some(&group), &["eat-memory", &bytes])?;
    let path = format!("/proc/{}/oom_score_adj", worker.pid());
    std::fs::write(&path, "1000").map_err(Failure::file(&path))?;
    worker.go()?;
    worker.wait(context.patiently(20))?;
    let received = events.find(context.patiently(5), |event| event.cgroup == group.path())?;
    let received = known(received, "an OOM kill")?;
    let oom = known(oom_of(&received.event), "the details of the kill")?;
    ensure_eq!((oom.pid, oom.scope.as_str()), (worker.pid(), "global"), "victim and scope");
    ensure_eq!((oom.limit_cgroup.as_str(), oom.limit_bytes), ("", None), "the limit");
    let own = group.kernel_oom_kills();
    ensure!(matches!(own, Ok(1) | Err(CgroupError::NoController { .. })), "the kernel's own count: {own:?}");
    all_ran(context, &client, &before, &[&OOM[..], &DIRECT].concat())
}

/// `MemTotal` in bytes.
fn machine_memory() -> Result<u64, Failure> {
    let path = "/proc/meminfo";
    let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Failure::Unexpected(format!("{path} has no MemTotal")))
}
