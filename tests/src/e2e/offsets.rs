//! Fields that the eBPF programs read at offsets from BTF, compared with `/proc` of the same process: shows a
//! wrong offset that the verifier cannot detect.

use nodewarden_proto::nodewarden::v1::event::Detail;

use super::support::{MIB, known, oom_of};
use crate::fixture::{Agent, AgentOptions, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::{End, Ended, Ready};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("oom_fields_match_proc", oom_fields).needs(&[
        Capability::Root,
        Capability::MemoryCgroup,
        Capability::Btf,
        Capability::OomVictims,
        Capability::Loopback,
    ]),
    Test::new("exit_fields_in_a_namespace", exit_fields).needs(&[
        Capability::Root,
        Capability::Btf,
        Capability::Loopback,
    ]),
];

const LIMIT: u64 = 48 * MIB;
/// Each has a different size, so that reading one in place of another fails.
const ANONYMOUS: u64 = 20 * MIB;
const SHARED: u64 = 5 * MIB;
const FILE: u64 = 9 * MIB;
const SCORE: i32 = 321;

/// The kernel keeps these counters for each CPU and sums them in batches: they may be off by this many bytes.
const DRIFT: u64 = MIB;
/// Bytes of the worker's binary that it touches between the reading of `/proc` and its death; the kernel maps
/// 16 pages for each fault (`do_fault_around`): 3.4 MiB were seen.
const PROGRAM: u64 = 5 * MIB;

/// Memory, scores and pids of an OOM event agree with `/proc` of the process before its death.
fn oom_fields(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let group = root.child("measured")?;
    group.limit_memory(LIMIT)?;

    let sizes = [ANONYMOUS, SHARED, FILE, 4 * LIMIT].map(|bytes| bytes.to_string());
    let mut worker =
        Worker::spawn(context, Some(&group), &["balloon", &sizes[0], &sizes[1], &sizes[2], &sizes[3]])?;
    let pid = worker.pid();
    let path = format!("/proc/{pid}/oom_score_adj");
    std::fs::write(&path, SCORE.to_string()).map_err(Failure::file(&path))?;
    worker.go()?;
    let Ready { .. } = worker.report(context.patiently(10))?;
    let [anon, shmem, file, all] = ["RssAnon", "RssShmem", "RssFile", "VmSize"];
    let anon = status_bytes(pid, anon)?;
    // The kernel counts a binary in the initial ramfs as shared memory.
    let shmem = status_bytes(pid, shmem)?;
    let file = status_bytes(pid, file)?;
    let all = status_bytes(pid, all)?;
    ensure!(
        anon + DRIFT >= ANONYMOUS && shmem + DRIFT >= SHARED,
        "the worker has {anon} bytes of anonymous and {shmem} of shared memory"
    );

    worker.go()?;
    worker.wait(context.patiently(20))?;
    let received = events.find(context.patiently(5), |event| event.cgroup == group.path())?;
    let received = known(received, "an OOM kill")?;
    let oom = known(oom_of(&received.event), "the details of the kill")?;
    println!("before: anon {anon}, shmem {shmem}, file {file}, all {all}; the event: {oom:?}");
    ensure_eq!((oom.pid, oom.trigger_pid), (pid, pid), "pids");
    ensure_eq!((oom.command.as_str(), oom.trigger_command.as_str()), ("nw-eater", "nw-eater"), "commands");
    ensure_eq!(oom.oom_score_adj, SCORE, "oom_score_adj");
    near("total_vm", oom.total_vm_bytes, all, 0)?;
    near("file_rss", oom.file_rss_bytes, file, PROGRAM)?;
    near("shmem_rss", oom.shmem_rss_bytes, shmem, PROGRAM)?;
    ensure!(
        oom.anon_rss_bytes + DRIFT >= anon && oom.anon_rss_bytes <= LIMIT + DRIFT,
        "anon_rss of the event is {}, before it was {anon} and the limit is {LIMIT}",
        oom.anon_rss_bytes
    );
    let charged = oom.anon_rss_bytes + SHARED;
    ensure!(charged >= LIMIT * 3 / 4, "only {charged} bytes were charged of a limit of {LIMIT}");
    Ok(())
}

/// Checks that a field of the event differs from `/proc` by no more than the drift, and `more` upwards.
fn near(field: &str, seen: u64, expected: u64, more: u64) -> Result<(), Failure> {
    let bounds = expected.saturating_sub(DRIFT)..=expected + DRIFT + more;
    ensure!(bounds.contains(&seen), "{field} of the event is {seen}, /proc said {expected}");
    Ok(())
}

/// A value of `/proc/<pid>/status` that is in kB, in bytes.
pub fn status_bytes(pid: u32, key: &str) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kib = value.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Failure::Unexpected(format!("{path} has no {key}")))
}

/// The exit event of process 1 of a pid namespace has both of its pids, its exit code and its command.
fn exit_fields(context: &Context) -> Result<(), Failure> {
    const CODE: u8 = 42;
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["exit"])?;
    let group = root.child("namespace")?;
    let worker = Worker::start(context, Some(&group), &["exit-in-namespace", &CODE.to_string()])?;
    let ended: Ended = worker.report(context.patiently(10))?;
    ensure_eq!(ended.end, End::Code(i32::from(CODE)), "how the process ended");

    let received = events.find(context.patiently(3), |event| event.cgroup == group.path())?;
    let Some(Detail::Exit(exit)) = known(received, "the exit event")?.event.detail else {
        return Err(Failure::Unexpected("an exit event without its details".into()));
    };
    ensure_eq!((exit.pid, exit.namespace_pid), (ended.pid, 1), "pid outside and inside the namespace");
    ensure_eq!((exit.code, exit.signal), (u32::from(CODE), 0), "code and signal");
    // The name of this binary, cut to TASK_COMM_LEN - 1.
    let own = context.own.file_name().unwrap_or_default().to_string_lossy();
    ensure_eq!(exit.command, own.chars().take(15).collect::<String>(), "command");
    Ok(())
}
