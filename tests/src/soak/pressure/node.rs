//! The node of the soak: two small disks, a private container runtime behind a proxy, an agent, pods that
//! stay from beginning to end, and what belongs to others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::foreign::Foreign;
use super::meter::{Meter, available_pids};
use super::plan::{Place, PodPlan, Pressure, RoundPlan};
use super::watch::Watch;
use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pressure::fixture::{
    NO_DISKS, POOL_MIB, RunningPod, critical, decisions, greedy, pool_config,
};
use crate::e2e::support::MIB;
use crate::fixture::{Containerd, CriProxy, ServerProgram, SmallDisk, systemd_answers};
use crate::harness::{Context, Failure, OWN_MACHINE};

/// Bytes of each disk on an ordinary and on an emulated machine.
const DISK: [u64; 2] = [600 * MIB, 128 * MIB];
/// Small blocks, and an inode for every two of them, so that a pod can have hundreds of thousands of files.
const FORMAT: &[&str] = &["-b", "1024", "-i", "2048"];
/// Bytes of a small file.
const SMALL_FILE: u64 = 2048;
/// Files of a pod that writes few.
const LARGE_FILES: u64 = 3;
/// Percent of a disk that must be available.
const LEFT_PERCENT: u64 = 40;
/// MiB of the pods' memory that must be available.
const LEFT_MIB: u64 = 150;
/// Processes that may still start, on an ordinary machine, where others come and go (a control plane that
/// starts has 150), and on an emulated one.
const PIDS: [u64; 2] = [1800, 300];
/// Seconds that a condition stays after its cause has ended.
pub const TRANSITION_S: u64 = 2;
/// The largest memory that an agent may ever have had, in MiB (`VmHWM`); more in a development build, whose
/// code is larger.
pub const MEMORY_MIB: u64 = if cfg!(debug_assertions) { 128 } else { 64 };
/// How long an answer of the agent may take.
const ANSWER: Duration = Duration::from_secs(1);
/// How often it is asked.
const ASKED: Duration = Duration::from_millis(100);
/// Where a pod's volume is in its container, and its name.
const VOLUME: (&str, &str) = ("/data", "data");
const RESIDENTS: [&str; 2] = ["resident0", "resident1"];

/// The agent evicts what is evicted for good: the round removes it.
const SECTION: &str = "eviction: {restartEvicted: false}";

pub struct Node<'c> {
    context: &'c Context,
    // Dropped in this order: the disks last.
    pub watch: Watch,
    foreign: Foreign,
    pub pods: PodFixture<'c>,
    pub proxy: CriProxy,
    program: ServerProgram,
    state_disk: SmallDisk,
    image_disk: SmallDisk,
    residents: Vec<RunningPod>,
    systemd: bool,
    /// The largest memory of every agent so far, in bytes.
    pub peak: u64,
    pub agents: u64,
}

impl<'c> Node<'c> {
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        let disk = |at: &Path, name: &str| {
            let image = context.temp.join(name);
            SmallDisk::mount_with(at, &image, context.scaled(DISK), FORMAT).map_err(Failure::file(at))
        };
        let (images, state) = (Containerd::root(context), context.temp.join("managed-state"));
        let (image_disk, state_disk) = (disk(&images, "images.img")?, disk(&state, "state.img")?);
        if !image_disk.kind().starts_with("ext4") {
            return Err(Failure::Skip(format!("disks have no limited inodes: {}", image_disk.kind())));
        }
        // systemd's slices are at the top of the tree, which only a machine of the soak's own may lend.
        let systemd = std::env::var_os(OWN_MACHINE).is_some() && systemd_answers().is_ok();
        let containerd = match systemd {
            true => Containerd::private_with_systemd(context)?,
            false => Containerd::private(context)?,
        };
        let socket = context.temp.join("proxy.sock");
        let proxy = CriProxy::start(containerd.socket(), &socket, &images).map_err(Failure::file(&socket))?;
        let calm = format!("evictionHard: {{memory.available: 1Mi, {NO_DISKS}}}\n");
        let pods = PodFixture::with_runtime(context, containerd, &socket, &common(&calm), SECTION)?;
        let kubepods = (!systemd).then(|| pods.managed().level("kubepods"));
        let folders = [images, state, context.temp.join("pod-logs")];
        let foreign = Foreign::new(context, kubepods.as_deref(), &folders)?;
        let watch = Watch::new(ANSWER * context.patience, ASKED * context.patience);
        watch.follow(pods.agent()?);
        let mut this = Self {
            context,
            watch,
            foreign,
            pods,
            proxy,
            program: ServerProgram::new(context)?,
            state_disk,
            image_disk,
            residents: Vec::new(),
            systemd,
            peak: 0,
            agents: 1,
        };
        // They are critical: whatever is short, only the round's pods can be evicted.
        let residents = RESIDENTS.map(|name| greedy(&this.program, name, json!({}), &[], critical()));
        this.pods.put(residents)?;
        for name in RESIDENTS {
            let pod = this.pods.wait_up(name)?;
            this.residents.push(RunningPod::of(&pod)?);
        }
        Ok(this)
    }

    /// A description of disks and cgroups.
    pub fn disks(&self) -> String {
        let mib = self.context.scaled(DISK) / MIB;
        let driver = if self.systemd { "systemd" } else { "cgroupfs" };
        format!("two disks of {mib} MiB: {}; cgroups by {driver}", self.image_disk.kind())
    }

    fn disk(&self, pressure: Pressure) -> &Path {
        match pressure {
            Pressure::Bytes(Place::Layer) | Pressure::Inodes(Place::Layer) => self.image_disk.path(),
            _ => self.state_disk.path(),
        }
    }

    /// Starts an agent that has a threshold for this pressure alone. Returns what is available at the
    /// threshold.
    pub fn configure(&mut self, round: &RoundPlan) -> Result<u64, Failure> {
        let pressure = round.pressure;
        self.end_agent(round.kills_before)?;
        let disks = |signal: &str| {
            let signals =
                ["nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"];
            let percent = |one: &str| if one == signal { LEFT_PERCENT } else { 0 };
            let all: Vec<_> = signals.iter().map(|one| format!("{one}: {}%", percent(one))).collect();
            format!("evictionHard: {{memory.available: 1Mi, {}}}\n", all.join(", "))
        };
        let share = |all: u64| all * LEFT_PERCENT / 100;
        let disk = self.disk(pressure).to_owned();
        let stat = || nix::sys::statvfs::statvfs(&disk).map_err(|error| Failure::file(&disk)(error.into()));
        let (lines, threshold) = match pressure {
            Pressure::Memory => {
                self.reclaim();
                (pool_config(LEFT_MIB, "")?, (POOL_MIB - LEFT_MIB) * MIB)
            }
            Pressure::Processes => {
                let threshold = available_pids()?.saturating_sub(self.context.scaled(PIDS));
                let own = format!("memory.available: 1Mi, pid.available: '{threshold}'");
                (format!("evictionHard: {{{own}, {NO_DISKS}}}\n"), threshold)
            }
            Pressure::Bytes(place) => {
                let signal = if place == Place::Layer { "imagefs.available" } else { "nodefs.available" };
                let found = stat()?;
                (disks(signal), share(found.blocks() * found.fragment_size()))
            }
            Pressure::Inodes(place) => {
                let signal = if place == Place::Layer { "imagefs.inodesFree" } else { "nodefs.inodesFree" };
                (disks(signal), share(stat()?.files()))
            }
        };
        self.pods.set_kubelet(&common(&lines));
        self.start_agent()?;
        Ok(threshold)
    }

    /// Has the kernel forget what pods of earlier rounds left in the pods' memory: inodes of removed files
    /// count as used until there is need. Where the kernel cannot do that, less is left for the round.
    fn reclaim(&self) {
        let Some(memory) = self.context.layout.controller("memory") else { return };
        let pool = memory.mount.join(self.pods.managed().level("kubepods").trim_start_matches('/'));
        let (file, text) = if memory.v2 { ("memory.reclaim", "1G") } else { ("memory.force_empty", "0") };
        // It fails with EAGAIN when less than 1 GiB could be reclaimed.
        let _less = std::fs::write(pool.join(file), text);
    }

    /// Ends the agent, by SIGKILL or by SIGTERM.
    pub fn end_agent(&mut self, kills: bool) -> Result<(), Failure> {
        self.note_memory()?;
        self.watch.pause();
        if kills {
            self.pods.kill_agent()?;
        } else {
            self.pods.stop_agent();
        }
        Ok(())
    }

    pub fn start_agent(&mut self) -> Result<(), Failure> {
        self.pods.start_agent()?;
        self.watch.follow(self.pods.agent()?);
        self.agents += 1;
        Ok(())
    }

    /// Reads the largest memory that the agent has had.
    pub fn note_memory(&mut self) -> Result<(), Failure> {
        let path = format!("/proc/{}/status", self.pods.agent()?.pid());
        let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        let kib: u64 = kib.ok_or_else(|| Failure::Unexpected(format!("{path} has no VmHWM")))?;
        self.peak = self.peak.max(kib << 10);
        Ok(())
    }

    /// Starts the round's pods. `room` is what is available above the threshold. Returns them in order.
    pub fn start_pods(&mut self, round: &RoundPlan, room: u64) -> Result<Vec<ListedPod>, Failure> {
        for plan in &round.pods {
            let manifest = self.manifest(round.pressure, plan, room);
            self.pods.put([manifest])?;
        }
        round.pods.iter().map(|plan| self.pods.wait_up(&plan.name)).collect()
    }

    fn manifest(&self, pressure: Pressure, plan: &PodPlan, room: u64) -> Value {
        let mut resources = json!({});
        if let Some(resource) = pressure.requested().filter(|_| plan.request > 0) {
            resources = json!({ "requests": { resource: request(plan, room).to_string() } });
        }
        let mut pod = greedy(&self.program, &plan.name, resources, &[], json!({ "priority": plan.priority }));
        let (path, name) = VOLUME;
        let add = |list: &mut Value, one: Value| list.as_array_mut().map(|list| list.push(one));
        add(&mut pod["spec"]["volumes"], json!({ "name": name, "emptyDir": {} }));
        let mounts = &mut pod["spec"]["containers"][0]["volumeMounts"];
        add(mounts, json!({ "name": name, "mountPath": path }));
        pod
    }

    /// Orders a pod to use `more` in addition to `before` of what is short; `step` counts the orders.
    pub fn grow(
        &self,
        pressure: Pressure,
        plan: &PodPlan,
        step: u64,
        before: u64,
        more: u64,
    ) -> Result<(), Failure> {
        let name = &plan.name;
        match pressure {
            Pressure::Memory => self.program.hold(name, before + more, 0),
            Pressure::Processes => self.program.fork(name, before + more),
            Pressure::Bytes(place) | Pressure::Inodes(place) => {
                let folder = match place {
                    Place::Layer => format!("/fill{step}"),
                    Place::Volume => format!("{}/fill{step}", VOLUME.0),
                };
                let (count, bytes) = match (pressure, plan.small_files) {
                    (Pressure::Inodes(_), _) => (more, 0),
                    (_, true) => (more / SMALL_FILE, SMALL_FILE),
                    (_, false) => (LARGE_FILES, more / LARGE_FILES),
                };
                self.program.write_files(name, &folder, count, bytes)
            }
        }
    }

    /// Whether a pod has carried out so many orders.
    pub fn has_grown(&self, name: &str, orders: usize) -> Result<bool, Failure> {
        let noted = self.program.noted(name);
        if let Some(refused) = noted.iter().find(|one| one.answer == "refused") {
            return Err(Failure::Unexpected(format!("{name} could not take what it was to: {refused:?}")));
        }
        Ok(noted.iter().filter(|one| one.answer == "done").count() >= orders)
    }

    pub fn meter(&self, round: &RoundPlan, pods: &[ListedPod], threshold: u64) -> Result<Meter, Failure> {
        let disk = self.disk(round.pressure);
        Meter::new(round.pressure, &self.context.layout, &self.pods, pods, disk, threshold)
    }

    /// The directory of a pod's volume on the machine.
    pub fn volume(&self, pod: &ListedPod) -> Result<PathBuf, Failure> {
        Ok(self.pods.pod_dir(pod)?.join("volumes/kubernetes.io~empty-dir").join(VOLUME.1))
    }

    /// The number of the last decision.
    pub fn last_decision(&self) -> Result<u64, Failure> {
        Ok(decisions(self.pods.agent()?)?.iter().map(|one| one.number).max().unwrap_or(0))
    }

    /// What is not as it has to be at any time. `may_restart`: containers of residents may have been started
    /// again.
    pub fn violations(&mut self, may_restart: bool) -> Result<Vec<String>, Failure> {
        let mut found = self.foreign.changes();
        found.extend(self.watch.seen().violations);
        found.extend(self.proxy.violations());
        let listed = self.pods.list_pods()?;
        for resident in &mut self.residents {
            let now = listed.iter().find(|pod| pod.name() == resident.name);
            match now.and_then(|pod| RunningPod::of(pod).ok()) {
                Some(now) if now == *resident => {}
                Some(now) if may_restart && now.uid == resident.uid => *resident = now,
                now => found.push(format!("{} is not as it was: {now:?}", resident.name)),
            }
        }
        self.note_memory()?;
        if self.peak > MEMORY_MIB * MIB {
            found.push(format!("the agent has used {} MiB, more than {MEMORY_MIB}", self.peak / MIB));
        }
        Ok(found)
    }

    /// Removes the round's pods and waits until they are gone.
    pub fn remove_pods(&mut self, round: &RoundPlan) -> Result<(), Failure> {
        for plan in &round.pods {
            self.pods.remove(&plan.name)?;
        }
        let names: Vec<_> = round.pods.iter().map(|plan| plan.name.as_str()).collect();
        self.pods.wait_gone(&names)?;
        names.iter().try_for_each(|name| self.program.forget(name))
    }

    /// Ends everything, and looks for what is left.
    pub fn finish(self) -> Result<(), Failure> {
        let Self { pods, watch, foreign, proxy, state_disk, image_disk, .. } = self;
        let done = pods.finish();
        drop((watch, foreign, proxy, state_disk, image_disk));
        done
    }
}

/// What a pod requests of what is short.
pub fn request(plan: &PodPlan, room: u64) -> u64 {
    plan.request * room / 100
}

/// Lines that every configuration has in addition to its thresholds.
fn common(lines: &str) -> String {
    let transition = if lines.contains("evictionPressureTransitionPeriod") {
        String::new()
    } else {
        format!("evictionPressureTransitionPeriod: {TRANSITION_S}s\n")
    };
    format!("imageGCHighThresholdPercent: 100\nimageGCLowThresholdPercent: 80\n{transition}{lines}")
}
