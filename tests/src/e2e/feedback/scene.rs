//! A Guaranteed pod that wakes often beside a BestEffort one that never sleeps, in cgroups that the agent keeps; the
//! tests' own processes are the containers.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use nodewarden_proto::nodewarden::v1::event::Detail;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

use crate::e2e::hierarchy::compare::{place, plain};
use crate::e2e::hierarchy::managed::{Driver, Managed};
use crate::e2e::support::{eventually, since};
use crate::fixture::{Agent, Group, Worker};
use crate::harness::{Context, Failure};
use crate::worker::report::Pulsed;

const GUARANTEED: &str = "7e57e57e-0000-4000-8000-00000000000a";
const BEST_EFFORT: &str = "7e57e57e-0000-4000-8000-00000000000b";
/// Ids as a runtime makes them.
const IDS: [&str; 2] = [
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
];
/// How often the Guaranteed pod wakes, and how long it works then, in microseconds.
const PULSE: [u64; 2] = [4_000, 500];
/// The same of each of two processes that wait for each other, within the one CPU that the pod may use.
const RIVAL: [u64; 2] = [3_000, 2_000];

/// The manifests, and the agents that keep them one after the other.
pub struct Scene<'c> {
    context: &'c Context,
    managed: Option<Managed<'c>>,
}

impl<'c> Scene<'c> {
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        // What is held back must outlast reconciles.
        let managed = Managed::new(context, Driver::Cgroupfs, 1, "failSwapOn: false\n")?;
        let limits = json!({ "limits": { "cpu": "1", "memory": "256Mi" } });
        managed.write("calm", &pod("calm", GUARANTEED, limits))?;
        managed.write("busy", &pod("busy", BEST_EFFORT, json!({})))?;
        Ok(Self { context, managed: Some(managed) })
    }

    /// An agent with these lines in its section; both pods' cgroups stand.
    pub fn agent(&mut self, section: &str) -> Result<Agent, Failure> {
        self.managed = self.managed.take().map(|managed| managed.with_section(section));
        let agent = self.managed()?.start()?;
        self.managed()?.settled(&agent, 2)?;
        Ok(agent)
    }

    fn managed(&self) -> Result<&Managed<'c>, Failure> {
        self.managed.as_ref().ok_or_else(|| Failure::Unexpected("the scene is over".into()))
    }

    /// The container of the Guaranteed pod and that of the other; made on the first call.
    pub fn groups(&self) -> Result<[Group; 2], Failure> {
        let managed = self.managed()?;
        let pods = [
            managed.level(&format!("kubepods/pod{GUARANTEED}")),
            managed.level(&format!("kubepods/besteffort/pod{BEST_EFFORT}")),
        ];
        let [calm, busy] = pods.map(|path| Group::new(self.context.layout.clone(), path));
        Ok([calm.child(IDS[0])?, busy.child(IDS[1])?])
    }

    /// Two for each CPU, until they are dropped.
    pub fn spinners(&self, group: &Group) -> Result<Vec<Worker>, Failure> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| Worker::start(self.context, Some(group), &["spin", "600000"]);
        Ok((0..2 * cpus).map(spin).collect::<Result<Vec<_>, _>>()?)
    }

    /// A worker that wakes often, for so long.
    pub fn pulse(&self, group: &Group, time: Duration) -> Result<Worker, Failure> {
        self.pulsing(group, time, PULSE)
    }

    /// Two on one CPU, that wait whatever the scheduler thinks of those beside them: a kernel may be so good to who wakes
    /// that a single process never waits long.
    pub fn waiting(&self, group: &Group, time: Duration) -> Result<[Worker; 2], Failure> {
        let rivals = [self.pulsing(group, time, RIVAL)?, self.pulsing(group, time, RIVAL)?];
        let bound = rivals.iter().try_for_each(|rival| {
            let mut one = CpuSet::new();
            let pid = Pid::from_raw(rival.pid() as i32);
            let allowed = sched_getaffinity(pid)?;
            let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
            one.set(first.unwrap_or(0))?;
            sched_setaffinity(pid, &one)
        });
        bound.map_err(|source| Failure::Unexpected(format!("sched_setaffinity: {source}")))?;
        Ok(rivals)
    }

    fn pulsing(&self, group: &Group, time: Duration, pulse: [u64; 2]) -> Result<Worker, Failure> {
        let [every, busy] = pulse.map(|us| us.to_string());
        let time = time.as_millis().to_string();
        Ok(Worker::start(self.context, Some(group), &["pulse", &time, &every, &busy])?)
    }

    /// Nanoseconds that each wake waited, of a worker that ends by itself.
    pub fn pulsed(&self, worker: Worker, time: Duration) -> Result<Vec<u64>, Failure> {
        let pulsed: Pulsed = worker.report(time + self.context.patiently(30))?;
        worker.finish(self.context.patiently(10))?;
        Ok(pulsed.waited_ns)
    }

    /// What the files of BestEffort's level say that feedback writes: quota, period, idle (as far as they are there) and,
    /// on v2, `memory.high`.
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

    /// Waits until these files are as `wanted` says.
    pub fn until(
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

    /// Waits until the journal says of the hierarchy, since a time, something for this reason with these words: it is told
    /// when the files are as they shall be, and so a little after they are.
    pub fn told(&self, agent: &Agent, begin: SystemTime, reason: &str, words: &str) -> Result<(), Failure> {
        eventually(self.context.patiently(5), &format!("no {reason} of {words:?} in the journal"), || {
            let notes = self.notes(agent, begin, reason)?;
            Ok(notes.iter().any(|note| note.contains(words)).then_some(()))
        })
    }

    /// What the journal says of the hierarchy since a time, for this reason.
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
