//! The thread: follows which container has which CPUs, reads each second who else ran on them, and reports it
//! for the pod beyond a bound.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tracing::{info, warn};

use crate::recent::Recent;
use crate::report::{Disturbed, Interval};
use nodewarden_config::ExclusiveCpuBounds;
use nodewarden_machine::cgroup::Controller;
use nodewarden_machine::ebpf::{CpuReading, ExclusiveCpus, ExclusiveCpusError, Kernel, OwnerCgroup};
use nodewarden_model::{
    CpuOwner, CpuOwners, CpuUse, Detail, ExclusiveCpu, ExclusiveCpusView, HookState, Topic, TopicStatus,
};
use nodewarden_observer::Observer;
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts::{self, Part};

/// How often the counters are read.
const TICK: Duration = Duration::from_secs(1);

/// How long a tick may take: in the first one the kernel's types are read and the programs verified, which
/// takes seconds on an emulated machine.
const LIMIT: Duration = Duration::from_secs(120);

/// What the thread depends on.
#[derive(Debug)]
pub struct Deps {
    /// The kernel programs and the cgroups.
    pub observer: Arc<Observer>,
    /// Where events are recorded.
    pub journal: Journal,
    /// The names of pods and containers.
    pub pods: PodStatusCache,
    /// What is reported.
    pub bounds: ExclusiveCpuBounds,
    /// On which the thread waits.
    pub runtime: Handle,
}

/// The thread that does it; ended when this is dropped. Then no CPU counts as exclusive any more.
#[derive(Debug)]
pub struct ExclusiveCpuWatch {
    shown: ShownExclusiveCpus,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What was read last. Clones share it.
#[derive(Debug, Clone)]
pub struct ShownExclusiveCpus {
    view: Arc<Mutex<ExclusiveCpusView>>,
    observer: Arc<Observer>,
}

impl ExclusiveCpuWatch {
    /// Starts to follow `owners`.
    ///
    /// # Errors
    /// The thread cannot be started. Where the kernel programs do not work, the view and the topic's state
    /// say so.
    pub fn start(deps: Deps, owners: watch::Receiver<CpuOwners>) -> io::Result<Self> {
        let Deps { observer, journal, pods, bounds, runtime } = deps;
        let shown = ShownExclusiveCpus { view: Arc::default(), observer };
        let mut watcher = Watcher {
            shown: shown.clone(),
            journal,
            pods,
            bounds,
            counters: Err(String::new()),
            wanted: CpuOwners::new(),
            set: BTreeMap::new(),
            before: BTreeMap::new(),
            recent: BTreeMap::new(),
            disturbed: BTreeMap::new(),
        };
        let (stop, stopped) = oneshot::channel();
        let part = parts::register("exclusive CPUs", LIMIT);
        let thread = thread::Builder::new().name("exclusive-cpus".into()).spawn(move || {
            watcher.counters = watcher.shown.counters();
            run(&mut watcher, owners, stopped, &runtime, &part);
            watcher.follow(CpuOwners::new());
            part.end();
        })?;
        Ok(Self { shown, stop: Some(stop), thread: Some(thread) })
    }

    /// What was read last.
    pub fn shown(&self) -> &ShownExclusiveCpus {
        &self.shown
    }
}

impl Drop for ExclusiveCpuWatch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ShownExclusiveCpus {
    /// Every exclusive CPU as of the last reading, at most a second ago.
    pub fn view(&self) -> ExclusiveCpusView {
        self.view.lock().clone()
    }

    /// Whether the kernel programs work, as far as that is known: they are loaded with the first exclusive
    /// CPU.
    pub fn topic(&self) -> TopicStatus {
        match &*self.observer.kernel.lock() {
            Some(kernel) => kernel.exclusive_cpus_status(),
            None => {
                TopicStatus { topic: Topic::ExclusiveCpus, state: HookState::Off, reason: NO_EBPF.to_owned() }
            }
        }
    }

    /// The handle of the kernel programs.
    fn counters(&self) -> Result<ExclusiveCpus, String> {
        let mut kernel = self.observer.kernel.lock();
        let kernel = kernel.as_mut().ok_or_else(|| NO_EBPF.to_owned())?;
        kernel.exclusive_cpus().map_err(|error| error.to_string())
    }
}

const NO_EBPF: &str = "no eBPF here";

/// Runs until the sender of `stopped` is dropped.
fn run(
    watcher: &mut Watcher,
    mut owners: watch::Receiver<CpuOwners>,
    mut stopped: oneshot::Receiver<()>,
    runtime: &Handle,
    part: &Part,
) {
    let begun = Instant::now();
    let mut read = begun;
    loop {
        let wanted = owners.borrow_and_update().clone();
        let idle = wanted.is_empty();
        watcher.follow(wanted);
        if !idle && read.elapsed() >= TICK {
            let elapsed = read.elapsed();
            read = Instant::now();
            watcher.read(elapsed, begun.elapsed());
        }
        part.waits();
        let wait = TICK.saturating_sub(read.elapsed());
        let stop = runtime.block_on(async {
            let changed = async {
                if owners.changed().await.is_err() {
                    // They stay as they are.
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                _ = &mut stopped => true,
                () = changed => false,
                () = tokio::time::sleep(wait), if !idle => false,
            }
        });
        if stop {
            return;
        }
        part.progress();
    }
}

/// A container: the pod's uid and the container's name.
type ContainerKey = (String, String);

struct Watcher {
    shown: ShownExclusiveCpus,
    journal: Journal,
    pods: PodStatusCache,
    bounds: ExclusiveCpuBounds,
    /// Or why there are none.
    counters: Result<ExclusiveCpus, String>,
    wanted: CpuOwners,
    /// Those of `wanted` whose owner's cgroup exists, as the kernel programs have them.
    set: BTreeMap<u32, OwnerCgroup>,
    /// The reading before, and whose the CPU was then.
    before: BTreeMap<u32, (CpuOwner, CpuUse)>,
    recent: BTreeMap<u32, Recent>,
    disturbed: BTreeMap<ContainerKey, Disturbed>,
}

impl Watcher {
    /// Has the kernel programs count on these CPUs: on those whose owner's cgroup exists. Looks for the
    /// cgroups again at each call, since a container's comes after its CPUs.
    fn follow(&mut self, wanted: CpuOwners) {
        self.before.retain(|cpu, (owner, _)| wanted.get(cpu) == Some(owner));
        self.recent.retain(|cpu, _| wanted.contains_key(cpu));
        self.disturbed.retain(|key, _| wanted.values().any(|owner| key_of(owner) == *key));
        let changed = self.wanted != wanted;
        self.wanted = wanted;
        if let Ok(counters) = &mut self.counters {
            let found = found(&self.shown.observer, &self.wanted);
            if found != self.set {
                let mut kernel = self.shown.observer.kernel.lock();
                let result = kernel.as_mut().map(|kernel| set(counters, kernel, &found));
                drop(kernel);
                self.set = found;
                match result {
                    Some(Err(reason)) => self.turn_off(reason),
                    None => self.turn_off(NO_EBPF.to_owned()),
                    Some(Ok(())) => {}
                }
            }
        }
        if changed {
            self.show(&BTreeMap::new());
        }
    }

    /// Counts no more: a kernel that refused once refuses again.
    fn turn_off(&mut self, reason: String) {
        let message = format!("{} is off: {reason}", Topic::ExclusiveCpus.name());
        warn!("{message}");
        let detail = Detail::Agent { reason: "FeatureOff".into(), message };
        self.journal.append(Timestamp::now(), "", None, detail);
        self.counters = Err(reason);
        self.show(&BTreeMap::new());
    }

    /// Reads the counters `now`, a time since the start, `elapsed` after the last reading.
    fn read(&mut self, elapsed: Duration, now: Duration) {
        let Ok(counters) = &mut self.counters else { return };
        let readings = match counters.read() {
            Ok(readings) => readings,
            Err(error) => return self.turn_off(error.to_string()),
        };
        let mut intervals: BTreeMap<ContainerKey, Vec<Interval>> = BTreeMap::new();
        for (cpu, reading) in &readings {
            let Some(owner) = self.wanted.get(cpu) else { continue };
            self.recent.entry(*cpu).or_default().take(&reading.longest, now);
            let before = self.before.insert(*cpu, (owner.clone(), reading.used));
            // The first reading contains what was before.
            let Some((_, before)) = before else { continue };
            let used = reading.used.since(&before);
            let interval = Interval { cpu: *cpu, used, longest: reading.longest.clone() };
            intervals.entry(key_of(owner)).or_default().push(interval);
        }
        for (key, intervals) in intervals {
            let disturbed = self.disturbed.entry(key.clone()).or_default();
            if let Some(message) = disturbed.take(&self.bounds, &intervals, elapsed, now) {
                self.record(key, message);
            }
        }
        self.show(&readings);
    }

    /// Writes the event into the journal, from where the API server gets it too.
    fn record(&self, key: ContainerKey, message: String) {
        let owner = self.wanted.values().find(|owner| key_of(owner) == key);
        let cgroup = owner.map(|owner| owner.cgroup.clone()).unwrap_or_default();
        let (uid, container) = key;
        let pod = self.pods.container_ref(&uid, &container);
        info!(pod = %format_args!("{}/{}", pod.namespace, pod.name), container = pod.container_name, "{message}");
        let detail = Detail::Pod { reason: "ExclusiveCpuDisturbed".into(), message };
        self.journal.append(Timestamp::now(), cgroup, Some(pod), detail);
    }

    fn show(&self, readings: &BTreeMap<u32, CpuReading>) {
        let cpus = self.wanted.iter().map(|(cpu, owner)| ExclusiveCpu {
            cpu: *cpu,
            owner: owner.clone(),
            used: readings.get(cpu).map(|reading| reading.used),
            longest: self.recent.get(cpu).map(Recent::longest).unwrap_or_default(),
        });
        let problem = self.counters.as_ref().err().cloned().unwrap_or_default();
        *self.shown.view.lock() = ExclusiveCpusView { cpus: cpus.collect(), problem };
    }
}

fn key_of(owner: &CpuOwner) -> ContainerKey {
    (owner.uid.clone(), owner.container.clone())
}

/// The CPUs whose owner's cgroup exists.
fn found(observer: &Observer, wanted: &CpuOwners) -> BTreeMap<u32, OwnerCgroup> {
    let Some(hierarchy) = observer.facts.layout.hierarchy(Controller::Cpu) else { return BTreeMap::new() };
    let found = |(cpu, owner): (&u32, &CpuOwner)| {
        OwnerCgroup::find(hierarchy, &owner.cgroup).ok().map(|cgroup| (*cpu, cgroup))
    };
    wanted.iter().filter_map(found).collect()
}

/// Makes exactly these CPUs exclusive. One that the machine does not have is left out: its owner was meant
/// for another machine.
///
/// # Errors
/// What the kernel lacks or refuses.
fn set(
    counters: &mut ExclusiveCpus,
    kernel: &mut Kernel,
    found: &BTreeMap<u32, OwnerCgroup>,
) -> Result<(), String> {
    let mut found = found.clone();
    loop {
        match counters.set(kernel, &found) {
            Err(error @ ExclusiveCpusError::NoCpu { cpu, .. }) => {
                warn!("{error}");
                found.remove(&cpu);
            }
            other => return other.map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
