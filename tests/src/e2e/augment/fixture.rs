//! Pods and a daemon as a kubelet and systemd make them, and an agent in mode augment beside them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::e2e::support::eventually;
use crate::fixture::{Agent, AgentOptions, Group, StandInApi, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure};
use crate::worker::report::LedgerValue;

/// What every test of mode augment needs.
pub const NEEDS: &[Capability] =
    &[Capability::Root, Capability::MemoryCgroup, Capability::CpuQuota, Capability::Loopback];

/// The node's name.
const NODE: &str = "stage";
/// The last two digits of the pods' uids, by what is special about each.
const IDLE: Uid = Uid("a1");
const OPTED_OUT: Uid = Uid("a2");
const LIMITED: Uid = Uid("a4");
pub const QUOTA_US: u64 = 50_000;
/// Ten rounds a second.
const ROUNDS: &str = "periodMilliseconds: 100";
/// Of the protected daemon: lowered to 0, which needs no privilege.
pub const SCORE: i32 = 500;

/// The end of a uid. Pods are found by their uids in all of the machine's cgroups, so those of each test's
/// process, which may run beside others, are its own.
#[derive(Clone, Copy)]
struct Uid(&'static str);

impl Uid {
    fn text(self) -> String {
        format!("0a0a0a0a-1111-4222-8333-{:010}{}", std::process::id(), self.0)
    }
}

/// The uid of the limited pod.
pub fn limited_uid() -> String {
    LIMITED.text()
}

/// The section that turns every feature to this.
pub fn features(setting: &str) -> String {
    let each =
        ["events", "protection", "memoryHigh", "cpuIdle", "cpuBurst"].map(|key| format!("{key}: {setting}"));
    each.join(", ")
}

/// The pods, the daemon and the API server. The fields are dropped in this order.
pub struct Augmented<'c> {
    daemon: Worker,
    pub idle: Group,
    pub opted_out: Group,
    pub of_manifest: Group,
    pub limited: Group,
    pub container: Group,
    pub besteffort: Group,
    daemons: Group,
    pub api: StandInApi,
    kubeconfig: PathBuf,
    root: TestRoot,
    context: &'c Context,
}

impl<'c> Augmented<'c> {
    /// Makes them: two BestEffort pods, of which one has opted out, one of a manifest that the API server
    /// does not have, and a Burstable one with a limit of half a CPU.
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        let api = StandInApi::start().map_err(Failure::file("the stand-in API server"))?;
        let kubeconfig = api.kubeconfig(context.temp.path()).map_err(Failure::file(context.temp.path()))?;
        let root = TestRoot::new(context)?;
        let kubepods = root.child("kubepods")?;
        let (besteffort, burstable) = (kubepods.child("besteffort")?, kubepods.child("burstable")?);
        let idle = besteffort.child(&format!("pod{}", IDLE.text()))?;
        let opted_out = besteffort.child(&format!("pod{}", OPTED_OUT.text()))?;
        let of_manifest = besteffort.child(&format!("pod0a0a0a0a{:024}", std::process::id()))?;
        let limited = burstable.child(&format!("pod{}", LIMITED.text()))?;
        let container = limited.child(&"a".repeat(64))?;
        for pod in [&besteffort, &idle, &opted_out, &of_manifest] {
            set_weight(pod)?;
        }
        for group in [&limited, &container] {
            set_quota(group)?;
        }
        let daemons = root.child("daemon")?;
        let daemon = Worker::start(context, Some(&daemons), &["sleep"])?;
        let score = format!("/proc/{}/oom_score_adj", daemon.pid());
        std::fs::write(&score, SCORE.to_string()).map_err(Failure::file(&score))?;
        let this = Self {
            daemon,
            idle,
            opted_out,
            of_manifest,
            limited,
            container,
            besteffort,
            daemons,
            api,
            kubeconfig,
            root,
            context,
        };
        this.create("idle", IDLE, json!({}), json!({}));
        this.create("opted-out", OPTED_OUT, json!({ "nodewarden.io/augment": "off" }), json!({}));
        this.create(
            "limited",
            LIMITED,
            json!({}),
            json!({ "limits": { "cpu": "500m" }, "requests": { "cpu": "100m" } }),
        );
        Ok(this)
    }

    fn create(&self, name: &str, uid: Uid, annotations: Value, resources: Value) {
        let container = json!({ "name": "main", "image": "any", "resources": resources });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "uid": uid.text(), "annotations": annotations },
            "spec": { "containers": [container] },
        });
        self.api.create_pod(NODE, pod);
    }

    /// A cgroup beside the pods.
    pub fn child(&self, name: &str) -> Result<Group, Failure> {
        Ok(self.root.child(name)?)
    }

    /// The options of an agent with these settings and this state directory.
    pub fn options(&self, settings: &str, state: &Path) -> AgentOptions {
        let arguments = ["--mode", "augment", "--kubeconfig"].map(str::to_owned);
        let more = [self.kubeconfig.display().to_string(), "--hostname-override".into(), NODE.into()];
        let daemons = self.daemons.path();
        AgentOptions {
            state: Some(state.to_owned()),
            kubelet: format!("cgroupRoot: {}\n", self.root.group().path()),
            section: format!(
                "augment: {{{settings}, {ROUNDS}, protectedUnits: [{daemons}], protectedMemory: 1Mi, \
                 protectedOomScoreAdj: 0}}"
            ),
            arguments: arguments.into_iter().chain(more).collect(),
            ..AgentOptions::default()
        }
    }

    pub fn start(&self, settings: &str, state: &Path) -> Result<Agent, Failure> {
        Ok(Agent::start(self.context, &self.options(settings, state))?)
    }

    /// The same with a round a second, as by default: ten take much of an emulated CPU.
    pub fn start_with_few_rounds(&self, settings: &str, state: &Path) -> Result<Agent, Failure> {
        let mut options = self.options(settings, state);
        options.section = options.section.replace(ROUNDS, "periodMilliseconds: 1000");
        Ok(Agent::start(self.context, &options)?)
    }

    /// Every file of every cgroup of the test that can be read and holds a setting, and the daemon's score.
    pub fn settings(&self) -> Result<BTreeMap<PathBuf, String>, Failure> {
        let mut all = BTreeMap::new();
        for hierarchy in self.root.group().layout().hierarchies() {
            settings_below(&self.root.group().directory(hierarchy), &mut all)?;
        }
        let score = PathBuf::from(format!("/proc/{}/oom_score_adj", self.daemon.pid()));
        let text = std::fs::read_to_string(&score).map_err(Failure::file(&score))?;
        all.insert(score, text.trim().to_owned());
        Ok(all)
    }

    /// What differs between two readings.
    pub fn differences(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) -> Vec<String> {
        let changed = before.iter().filter(|(path, text)| after.get(*path) != Some(text));
        changed.map(|(path, text)| format!("{}: {text} -> {:?}", path.display(), after.get(path))).collect()
    }

    /// Waits until everything that is enforced is written: idle, both bursts and the score.
    pub fn wait_written(&self) -> Result<(), Failure> {
        eventually(self.context.patiently(20), "not everything is written", || {
            let is_written = read(&self.idle, "cpu.idle")? == "1"
                && read(&self.limited, burst_file(&self.limited)?)? == (QUOTA_US / 2).to_string()
                && read(&self.container, burst_file(&self.container)?)? == (QUOTA_US / 2).to_string()
                && self.score()? == "0";
            Ok(is_written.then_some(()))
        })
    }

    pub fn score(&self) -> Result<String, Failure> {
        let path = format!("/proc/{}/oom_score_adj", self.daemon.pid());
        Ok(std::fs::read_to_string(&path).map_err(Failure::file(&path))?.trim().to_owned())
    }

    /// What can be written through the ledger without an agent, each with the values to choose from.
    pub fn ledger_values(&self) -> Result<Vec<(LedgerValue, Vec<String>)>, Failure> {
        let burst = burst_file(&self.limited)?;
        let own = |pod: String, directory, file: &str, values: &[u64]| {
            let own = LedgerValue { pod, directory, file: file.to_owned(), value: String::new() };
            (own, values.iter().map(u64::to_string).collect::<Vec<_>>())
        };
        let bursts = [QUOTA_US / 10, QUOTA_US / 2, QUOTA_US];
        let process = PathBuf::from(format!("/proc/{}", self.daemon.pid()));
        let mut all = vec![
            own(IDLE.text(), directory(&self.idle)?, "cpu.idle", &[1]),
            own(OPTED_OUT.text(), directory(&self.opted_out)?, "cpu.idle", &[1]),
            own(LIMITED.text(), directory(&self.limited)?, burst, &bursts),
            own(LIMITED.text(), directory(&self.container)?, burst, &bursts),
            own(String::new(), process, "oom_score_adj", &[0, 100, 300]),
        ];
        let memory = self.limited.hierarchy("memory")?;
        if memory.v2 {
            let high = [64 << 20, 128 << 20];
            all.push(own(LIMITED.text(), self.limited.directory(memory), "memory.high", &high));
            all.push(own(String::new(), self.daemons.directory(memory), "memory.min", &[1 << 20, 2 << 20]));
        }
        Ok(all)
    }

    /// Runs `nodewarden undo` for this state directory.
    pub fn undo(&self, state: &Path) -> Result<Output, Failure> {
        let mut command = Command::new(&self.context.agent);
        command.args(["undo", "--state-dir"]).arg(state).stdin(Stdio::null());
        command.output().map_err(Failure::file("nodewarden undo"))
    }

    pub fn wait(&self, seconds: u64) -> Duration {
        self.context.patiently(seconds)
    }
}

/// Whether this kernel has what the tests wait for.
pub fn is_possible(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::named(context, "-probe")?;
    let probe = root.child("probe")?;
    let has = |file: &str| Ok::<_, Failure>(directory(&probe)?.join(file).exists());
    if has("cpu.idle")? && has(burst_file(&probe)?)? {
        return Ok(());
    }
    Err(Failure::Skip("this kernel has no cpu.idle or no burst of quotas (Linux 5.15)".into()))
}

fn directory(group: &Group) -> Result<PathBuf, Failure> {
    Ok(group.directory(group.hierarchy("cpu")?))
}

/// The text of a file of the CPU controller.
pub fn read(group: &Group, file: &str) -> Result<String, Failure> {
    let path = directory(group)?.join(file);
    Ok(std::fs::read_to_string(&path).map_err(Failure::file(&path))?.trim().to_owned())
}

/// The text of a file of the memory controller.
pub fn read_memory(group: &Group, file: &str) -> Result<String, Failure> {
    let path = group.directory(group.hierarchy("memory")?).join(file);
    Ok(std::fs::read_to_string(&path).map_err(Failure::file(&path))?.trim().to_owned())
}

/// Writes a file of the CPU controller.
pub fn write(group: &Group, file: &str, text: &str) -> Result<(), Failure> {
    let path = directory(group)?.join(file);
    std::fs::write(&path, text).map_err(Failure::file(&path))
}

pub fn burst_file(group: &Group) -> Result<&'static str, Failure> {
    Ok(if group.hierarchy("cpu")?.v2 { "cpu.max.burst" } else { "cpu.cfs_burst_us" })
}

/// As a kubelet does for BestEffort.
fn set_weight(group: &Group) -> Result<(), Failure> {
    match group.hierarchy("cpu")?.v2 {
        true => write(group, "cpu.weight", "1"),
        false => write(group, "cpu.shares", "2"),
    }
}

fn set_quota(group: &Group) -> Result<(), Failure> {
    match group.hierarchy("cpu")?.v2 {
        true => write(group, "cpu.max", &format!("{QUOTA_US} 100000")),
        false => write(group, "cpu.cfs_quota_us", &QUOTA_US.to_string()),
    }
}

/// Files of which the kernel changes the content by itself.
const CHANGES: [&str; 14] = [
    "cgroup.events",
    "cgroup.procs",
    "cgroup.stat",
    "current",
    "events",
    "failcnt",
    "numa_stat",
    "peak",
    "pressure",
    "stat",
    "tasks",
    "threads",
    "usage",
    "local",
];

/// Every file of the cgroups at and below `directory` that can be read and holds a setting.
///
/// # Errors
/// A directory cannot be read.
pub fn settings_below(directory: &Path, all: &mut BTreeMap<PathBuf, String>) -> Result<(), Failure> {
    for entry in std::fs::read_dir(directory).map_err(Failure::file(directory))? {
        let entry = entry.map_err(Failure::file(directory))?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().map_err(Failure::file(&path))?.is_dir() {
            settings_below(&path, all)?;
        } else if name.contains('.') && !CHANGES.iter().any(|part| name.contains(part)) {
            // Some can only be written.
            if let Ok(text) = std::fs::read_to_string(&path) {
                all.insert(path, text.trim().to_owned());
            }
        }
    }
    Ok(())
}
