//! A fixture with a Guaranteed pod that wakes often and a BestEffort pod that never sleeps, in cgroups that
//! the agent manages; the tests' own processes play the containers.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use nodewarden_proto::nodewarden::v1::event::Detail;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

use crate::e2e::hierarchy::compare::{place, plain};
use crate::e2e::hierarchy::fixture::{Driver, HierarchyFixture};
use crate::e2e::support::{eventually, since};
use crate::fixture::{Agent, Group, Worker};
use crate::harness::{Context, Failure};
use crate::worker::report::Pulsed;

const GUARANTEED: &str = "7e57e57e-0000-4000-8000-00000000000a";
const BEST_EFFORT: &str = "7e57e57e-0000-4000-8000-00000000000b";
/// Container ids, in a runtime's form.
const IDS: [&str; 2] = [
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
];
/// How often a process of the Guaranteed pod wakes, and how long it then works, in microseconds.
const PULSE: [u64; 2] = [4_000, 500];
/// The same for each of two processes that wait for each other, within the pod's limit of one CPU.
const RIVAL: [u64; 2] = [3_000, 2_000];

/// The pods' manifests, and the configuration of the agents that the test starts one after the other.
pub struct ThrottleFixture<'c> {
    context: &'c Context,
    managed: Option<HierarchyFixture<'c>>,
}

impl<'c> ThrottleFixture<'c> {
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        // Reconciles every second: throttling must stay through them.
        let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 1, "failSwapOn: false\n")?;
        let limits = json!({ "limits": { "cpu": "1", "memory": "256Mi" } });
        managed.write("calm", &pod("calm", GUARANTEED, limits))?;
        managed.write("busy", &pod("busy", BEST_EFFORT, json!({})))?;
        Ok(Self { context, managed: Some(managed) })
    }

    /// Starts an agent with this section in its configuration; returns when both pods' cgroups exist.
    pub fn agent(&mut self, section: &str) -> Result<Agent, Failure> {
        self.managed = self.managed.take().map(|managed| managed.with_section(section));
        let agent = self.managed()?.start()?;
        self.managed()?.wait_settled(&agent, 2)?;
        Ok(agent)
    }

    fn managed(&self) -> Result<&HierarchyFixture<'c>, Failure> {
        self.managed
            .as_ref()
            .ok_or_else(|| Failure::Unexpected("the fixture has no configuration any more".into()))
    }

    /// The container cgroups of the Guaranteed and of the BestEffort pod, created by the first call.
    pub fn groups(&self) -> Result<[Group; 2], Failure> {
        let managed = self.managed()?;
        let pods = [
            managed.level(&format!("kubepods/pod{GUARANTEED}")),
            managed.level(&format!("kubepods/besteffort/pod{BEST_EFFORT}")),
        ];
        let [guaranteed, best_effort] = pods.map(|path| Group::new(self.context.layout.clone(), path));
        Ok([guaranteed.child(IDS[0])?, best_effort.child(IDS[1])?])
    }

    /// Two busy processes for each CPU, which run until they are dropped.
    pub fn spinners(&self, group: &Group) -> Result<Vec<Worker>, Failure> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| Worker::start(self.context, Some(group), &["spin", "600000"]);
        Ok((0..2 * cpus).map(spin).collect::<Result<Vec<_>, _>>()?)
    }

    /// A worker that wakes often during `time`.
    pub fn pulse(&self, group: &Group, time: Duration) -> Result<Worker, Failure> {
        self.pulsing(group, time, PULSE)
    }

    /// Two processes on one CPU that wait for each other. A single process might never wait long, however
    /// busy the others are: some kernels strongly prefer a process that has just woken.
    pub fn waiting(&self, group: &Group, time: Duration) -> Result<[Worker; 2], Failure> {
        let rivals = [self.pulsing(group, time, RIVAL)?, self.pulsing(group, time, RIVAL)?];
        let pinned = rivals.iter().try_for_each(|rival| {
            let mut cpus = CpuSet::new();
            let pid = Pid::from_raw(rival.pid() as i32);
            let allowed = sched_getaffinity(pid)?;
            let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
            cpus.set(first.unwrap_or(0))?;
            sched_setaffinity(pid, &cpus)
        });
        pinned.map_err(|source| Failure::Unexpected(format!("sched_setaffinity: {source}")))?;
        Ok(rivals)
    }

    /// A worker that wakes every `pulse[0]` and works for `pulse[1]` microseconds, during `time`.
    fn pulsing(&self, group: &Group, time: Duration, pulse: [u64; 2]) -> Result<Worker, Failure> {
        let [every, work] = pulse.map(|us| us.to_string());
        let time = time.as_millis().to_string();
        Ok(Worker::start(self.context, Some(group), &["pulse", &time, &every, &work])?)
    }

    /// How many nanoseconds a worker waited for a CPU at each wake; waits until it ends by itself.
    pub fn pulsed(&self, worker: Worker, time: Duration) -> Result<Vec<u64>, Failure> {
        let pulsed: Pulsed = worker.report(time + self.context.patiently(30))?;
        worker.finish(self.context.patiently(10))?;
        Ok(pulsed.waited_ns)
    }

    /// Contents of those files of the BestEffort cgroup that throttling writes, as far as they exist: quota,
    /// period, shares or weight, idle and, on v2, `memory.high`.
    pub fn files(&self) -> Result<Vec<String>, Failure> {
        let level = self.managed()?.level("kubepods/besteffort");
        let files = [
            "cpu.cfs_quota_us",
            "cpu.cfs_period_us",
            "cpu.max",
            "cpu.shares",
            "cpu.weight",
            "cpu.idle",
            "memory.high",
        ];
        let read = |file: &&str| std::fs::read_to_string(place(&self.context.layout, &level, file)?).ok();
        let found = files.iter().filter_map(|file| Some(format!("{file} {}", plain(&read(file)?))));
        Ok(found.collect())
    }

    /// Waits until `wanted` is true of these files.
    pub fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&[String]) -> bool,
    ) -> Result<(), Failure> {
        let mut last = Vec::new();
        let found = eventually(limit, "", || {
            last = self.files()?;
            Ok(wanted(&last).then_some(()))
        });
        found.map_err(|failure| Failure::Unexpected(format!("BestEffort is not {what}{failure}: {last:?}")))
    }

    /// Waits until the journal has a note on the hierarchy since `begin`, with this reason and these words.
    /// It is written a little after the files.
    pub fn expect_note(
        &self,
        agent: &Agent,
        begin: SystemTime,
        reason: &str,
        words: &str,
    ) -> Result<(), Failure> {
        eventually(self.context.patiently(5), &format!("no {reason} of {words:?} in the journal"), || {
            let notes = self.notes(agent, begin, reason)?;
            Ok(notes.iter().any(|note| note.contains(words)).then_some(()))
        })
    }

    /// Messages of the journal's notes on the hierarchy since `begin` with this reason.
    pub fn notes(&self, agent: &Agent, begin: SystemTime, reason: &str) -> Result<Vec<String>, Failure> {
        let quiet = self.context.patiently(5);
        let events = agent.client()?.watch(since(begin, &[]))?.collect(quiet, quiet, |_| true)?;
        let notes = events.into_iter().filter_map(|received| match received.event.detail {
            Some(Detail::Hierarchy(note)) if note.reason == reason => Some(note.message),
            _ => None,
        });
        Ok(notes.collect())
    }
}

fn pod(name: &str, uid: &str, resources: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "uid": uid },
        "spec": { "containers": [{ "name": "c", "image": "nodewarden.test/none:1", "resources": resources }] },
    })
}
