//! Pods as a kubelet makes them in a limited pool of memory, and an agent in mode augment that may evict
//! them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nodewarden_model::Decision;
use serde_json::{Value, json};

use crate::e2e::pressure::fixture::{NO_DISKS, decisions};
use crate::e2e::support::{MIB, eventually};
use crate::ensure;
use crate::fixture::{Agent, AgentOptions, Group, StandInApi, TestRoot, Worker};
use crate::harness::{Context, Failure};

const NODE: &str = "stage";
/// MiB of memory for all pods together, and how much of it is available at the hard threshold.
const POOL_MIB: u64 = 400;
pub const LEFT_MIB: u64 = 150;
/// Lines with that threshold.
pub const OWN_THRESHOLDS: &str = "evictionHard: {memory.available: 150Mi, NO_DISKS}";

/// A pod: its name, annotations, and whether the API server has it.
#[derive(Clone, Copy)]
pub enum Kind {
    Plain,
    OptedOut,
    /// Of a manifest of the kubelet: the API server has at most a mirror pod of another uid.
    Static,
    Critical,
}

/// The pods and the API server. The fields are dropped in this order.
pub struct Evicting<'c> {
    workers: BTreeMap<&'static str, Worker>,
    pods: BTreeMap<&'static str, (String, Group)>,
    burstable: Group,
    pub api: StandInApi,
    kubeconfig: PathBuf,
    root: TestRoot,
    context: &'c Context,
}

impl<'c> Evicting<'c> {
    /// Without pods, beside a kubelet of this version.
    pub fn new(context: &'c Context, kubelet: &str) -> Result<Self, Failure> {
        let api = StandInApi::start().map_err(Failure::file("the stand-in API server"))?;
        let kubeconfig = api.kubeconfig(context.temp.path()).map_err(Failure::file(context.temp.path()))?;
        api.create_node(NODE, kubelet);
        let root = TestRoot::new(context)?;
        let kubepods = root.child("kubepods")?;
        kubepods.limit_memory(POOL_MIB * MIB)?;
        let burstable = kubepods.child("burstable")?;
        let (workers, pods) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { workers, pods, burstable, api, kubeconfig, root, context })
    }

    /// Makes a pod, Burstable with a request of a MiB, without processes.
    pub fn pod(&mut self, name: &'static str, kind: Kind) -> Result<(), Failure> {
        let number = self.pods.len();
        // No other test has these uids: pods are found by them in all of the machine's cgroups.
        let uid = match kind {
            Kind::Static => format!("0b0b0b0b{:08}{number:016}", std::process::id()),
            _ => format!("0b0b0b0b-{:04}-4222-8333-{number:012}", std::process::id() % 10_000),
        };
        let group = self.burstable.child(&format!("pod{uid}"))?;
        let letter = char::from(b'a' + u8::try_from(number % 6).unwrap_or(0));
        let container = group.child(&letter.to_string().repeat(64))?;
        let annotations = match kind {
            Kind::OptedOut => json!({ "nodewarden.io/augment": "off" }),
            _ => json!({}),
        };
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "uid": uid, "annotations": annotations },
            "spec": {
                "terminationGracePeriodSeconds": 7,
                "containers": [{
                    "name": "main", "image": "any", "resources": { "requests": { "memory": "1Mi" } },
                }],
            },
            "status": { "phase": "Running" },
        });
        if let Kind::Critical = kind {
            pod["spec"]["priority"] = json!(2_000_001_000);
        }
        if let Kind::Static = kind {
            pod["metadata"]["uid"] =
                json!(format!("0b0b0b0b-{:04}-4222-9333-{number:012}", std::process::id() % 10_000));
            pod["metadata"]["annotations"] =
                json!({ "kubernetes.io/config.mirror": uid, "kubernetes.io/config.source": "file" });
        }
        self.api.create_pod(NODE, pod);
        self.pods.insert(name, (uid, container));
        Ok(())
    }

    /// A process of the pod uses so much memory from now on, and does nothing else.
    pub fn eat(&mut self, name: &'static str, mib: u64) -> Result<(), Failure> {
        let bytes = (mib * MIB).to_string();
        let (_, group) = self.pods.get(name).ok_or_else(|| unknown(name))?;
        let worker = Worker::start(self.context, Some(group), &["eat-memory", &bytes])?;
        self.workers.insert(name, worker);
        Ok(())
    }

    /// Waits until the pod's process was killed. Returns how long that took.
    pub fn wait_killed(&mut self, name: &str, seconds: u64) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let mut worker = self.workers.remove(name).ok_or_else(|| unknown(name))?;
        let status = worker.wait(self.wait(seconds))?;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        ensure!(signal == Some(9), "the process of {name} ended with {status}");
        Ok(begun.elapsed())
    }

    /// The pod's process ends, as a kubelet would have it.
    pub fn end(&mut self, name: &str) {
        self.workers.remove(name);
    }

    /// Checks that every process that was neither killed nor ended still runs.
    pub fn check_alive(&mut self, names: &[&'static str]) -> Result<(), Failure> {
        for name in names {
            let worker = self.workers.get_mut(name).ok_or_else(|| unknown(name))?;
            if let Ok(status) = worker.wait(Duration::ZERO) {
                return Err(Failure::Unexpected(format!("the process of {name} ended with {status}")));
            }
        }
        Ok(())
    }

    pub fn uid(&self, name: &str) -> &str {
        self.pods.get(name).map_or("", |(uid, _)| uid)
    }

    pub fn state(&self) -> PathBuf {
        self.context.temp.join("state")
    }

    /// The options of an agent with eviction set to this, and these lines of the kubelet's keys.
    pub fn options(&self, eviction: &str, thresholds: &str) -> AgentOptions {
        let arguments = ["--mode", "augment", "--kubeconfig"].map(str::to_owned);
        let more = [self.kubeconfig.display().to_string(), "--hostname-override".into(), NODE.into()];
        AgentOptions {
            state: Some(self.state()),
            kubelet: format!(
                "cgroupRoot: {}\nevictionPressureTransitionPeriod: 1s\n{}\n",
                self.root.group().path(),
                thresholds.replace("NO_DISKS", NO_DISKS)
            ),
            section: format!(
                "augment: {{events: Off, protection: Off, memoryHigh: Off, cpuIdle: Off, cpuBurst: Off, eviction: {eviction}}}"
            ),
            arguments: arguments.into_iter().chain(more).collect(),
            ..AgentOptions::default()
        }
    }

    /// Starts an agent, and waits until it has read the pods.
    pub fn start(&self, eviction: &str, thresholds: &str) -> Result<Agent, Failure> {
        let agent = Agent::start(self.context, &self.options(eviction, thresholds))?;
        std::thread::sleep(self.wait(2));
        Ok(agent)
    }

    /// Waits until the pod's status at the API server is that of an evicted one.
    pub fn wait_failed(&self, name: &str, seconds: u64) -> Result<Value, Failure> {
        eventually(self.wait(seconds), &format!("{name} is not Failed at the API server"), || {
            Ok(self.api.pod(name).filter(|pod| pod["status"]["phase"] == "Failed"))
        })
    }

    /// Waits for a decision of the agent that chose this pod.
    pub fn decision_on(&self, agent: &Agent, name: &str) -> Result<Decision, Failure> {
        let uid = self.uid(name);
        eventually(self.wait(10), &format!("there is no decision on {name}"), || {
            let chose = |one: &Decision| {
                one.candidates.iter().any(|candidate| candidate.chosen && candidate.uid == uid)
            };
            Ok(decisions(agent)?.into_iter().find(chose))
        })
    }

    pub fn wait(&self, seconds: u64) -> Duration {
        self.context.patiently(seconds)
    }
}

/// Writes a kubelet's configuration file.
pub fn kubelet_file(directory: &Path, text: &str) -> Result<PathBuf, Failure> {
    let path = directory.join("kubelet.yaml");
    std::fs::write(&path, text).map_err(Failure::file(&path))?;
    Ok(path)
}

fn unknown(name: &str) -> Failure {
    Failure::Unexpected(format!("there is no process of {name}"))
}
