//! Pods under the resource managers: their CPUs and memory nodes as the kernel has them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::numa::RESOURCE;
use crate::e2e::hierarchy::compare::place;
use crate::e2e::pods::fixture::{PodFixture, SHORT_BACKOFF};
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pods::manifest::one;
use crate::e2e::support::eventually;
use crate::fixture::{CpuTimes, PodResources, device_ids};
use crate::harness::{Context, Failure};

/// The agent with policies, its pods, and a kubelet's directory of its own.
pub struct ManagersFixture<'c> {
    pub pods: PodFixture<'c>,
    kubelet_dir: PathBuf,
}

impl<'c> ManagersFixture<'c> {
    /// `kubelet` are lines of the kubelet's configuration.
    pub fn new(context: &'c Context, kubelet: &str) -> Result<Self, Failure> {
        Self::with_state(context, kubelet, &[])
    }

    /// With files that are in the kubelet's directory before the agent starts: name and content.
    pub fn with_state(context: &'c Context, kubelet: &str, files: &[(&str, &str)]) -> Result<Self, Failure> {
        // A short name: the path of a socket has at most 107 bytes.
        let kubelet_dir = context.temp.join("k");
        std::fs::create_dir_all(&kubelet_dir).map_err(Failure::file(&kubelet_dir))?;
        for (name, content) in files {
            let path = kubelet_dir.join(name);
            std::fs::write(&path, content).map_err(Failure::file(&path))?;
        }
        // Measuring programs on and off patches the kernel's code each time; on an emulated machine with
        // eight CPUs that once ended in a stale breakpoint instruction (int3) and a panic.
        let section = format!(
            "{SHORT_BACKOFF}\nprogramStats: Off\ndevices:\n  kubeletDir: {}\n",
            kubelet_dir.display()
        );
        Ok(Self { pods: PodFixture::with_config(context, kubelet, &section)?, kubelet_dir })
    }

    pub fn context(&self) -> &'c Context {
        self.pods.context()
    }

    /// A file of the kubelet's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.kubelet_dir.join(name)
    }

    /// The content of a state file.
    pub fn state(&self, name: &str) -> Result<Value, Failure> {
        let path = self.file(name);
        let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
        serde_json::from_str(&text).map_err(|error| Failure::Unexpected(format!("{name}: {error}: {text}")))
    }

    /// The CPUs of each container by pod uid in `cpu_manager_state`, and the shared ones.
    pub fn cpu_state(&self) -> Result<(String, Value), Failure> {
        let state = self.state("cpu_manager_state")?;
        Ok((state["defaultCpuSet"].as_str().unwrap_or_default().to_owned(), state["entries"].clone()))
    }

    /// The content of a file of the container's cgroup.
    pub fn cgroup_file(&self, pod: &ListedPod, file: &str) -> Result<String, Failure> {
        self.read(&self.pods.container_cgroup(pod, "c")?, file)
    }

    /// The content of a file of the pod's cgroup.
    pub fn pod_cgroup_file(&self, pod: &ListedPod, file: &str) -> Result<String, Failure> {
        self.read(&self.pods.cgroup(pod)?, file)
    }

    fn read(&self, cgroup: &str, file: &str) -> Result<String, Failure> {
        let path = place(&self.context().layout, cgroup, file)
            .ok_or_else(|| Failure::Unexpected(format!("no controller for {file}")))?;
        Ok(std::fs::read_to_string(&path).map_err(Failure::file(&path))?.trim().to_owned())
    }

    /// A client of PodResources; waits until it is served.
    fn pod_resources(&self) -> Result<PodResources, Failure> {
        let socket = self.file("pod-resources/kubelet.sock");
        eventually(
            self.context().patiently(10),
            &format!("no process listens at {}", socket.display()),
            || Ok(PodResources::connect(&socket).ok()),
        )
    }

    /// Waits until exactly these devices of a resource can be allocated.
    pub fn wait_devices(&self, resource: &str, ids: &[&str]) -> Result<(), Failure> {
        let wanted: BTreeSet<String> = ids.iter().map(|&id| id.to_owned()).collect();
        eventually(
            self.context().patiently(20),
            &format!("{ids:?} of {resource} cannot be allocated"),
            || Ok((device_ids(&self.pod_resources()?.allocatable()?, resource) == wanted).then_some(())),
        )
    }

    /// The devices of a resource that a pod has by PodResources.
    pub fn given_devices(&self, pod: &str, resource: &str) -> Result<BTreeSet<String>, Failure> {
        let pod = self.pod_resources()?.get(pod)?;
        Ok(pod.containers.iter().flat_map(|container| device_ids(&container.devices, resource)).collect())
    }

    /// Waits until the cgroup of a pod's container has these CPUs.
    pub fn wait_cpus(&self, pod: &ListedPod, cpus: &str) -> Result<(), Failure> {
        let mut last = String::new();
        let has = eventually(self.context().patiently(15), "", || {
            last = self.cgroup_file(pod, "cpuset.cpus")?;
            Ok((last == cpus).then_some(()))
        });
        has.map_err(|_| {
            Failure::Unexpected(format!("container of {} has CPUs {last:?}, not {cpus}", pod.name()))
        })
    }

    /// Whether no CPU quota limits a pod: neither its cgroup nor that of its container.
    pub fn has_no_quota(&self, pod: &ListedPod) -> Result<bool, Failure> {
        let v2 = self.context().layout.controller("cpu").is_some_and(|hierarchy| hierarchy.v2);
        let (file, unlimited) = if v2 { ("cpu.max", "max") } else { ("cpu.cfs_quota_us", "-1") };
        let both = [self.cgroup_file(pod, file)?, self.pod_cgroup_file(pod, file)?];
        Ok(both.iter().all(|text| text.split(' ').next() == Some(unlimited)))
    }

    /// For each pod, how long its container's tasks ran on each CPU during `time`: in seconds, by the
    /// kernel's records of switches. CPUs on which it ran for less than a millisecond are left out.
    pub fn ran_on(&self, pods: &[&ListedPod], time: Duration) -> Result<Vec<BTreeMap<u32, f64>>, Failure> {
        let times = CpuTimes::of(self.pods.agent()?.pid())?;
        let paths: Result<Vec<String>, Failure> =
            pods.iter().map(|pod| self.pods.container_cgroup(pod, "c")).collect();
        let paths = paths?;
        let read = || paths.iter().map(|path| Ok(times.on_cpu(path)?)).collect::<Result<Vec<_>, Failure>>();
        let before = read()?;
        std::thread::sleep(time);
        let after = read()?;
        let differences = before.iter().zip(&after).map(|(before, after)| {
            let each = before.iter().zip(after).enumerate();
            each.map(|(cpu, (before, after))| (cpu as u32, after.saturating_sub(*before) as f64 / 1e9))
                .filter(|(_, seconds)| *seconds >= 0.001)
                .collect()
        });
        Ok(differences.collect())
    }

    /// A script that uses a part of a CPU as long as it runs. Not all of it: the container runtime and the
    /// agent need the rest of a machine with two CPUs, above all of an emulated one.
    pub fn spin(&self) -> String {
        let patience = self.context().patience;
        format!(
            "trap 'exit 0' TERM; while true; do i=0; while test $i -lt {}; do i=$((i+1)); done; \
             sleep {:.2} & wait $!; done",
            3000 / patience,
            0.02 * f64::from(patience)
        )
    }

    /// A Guaranteed pod that asks for whole CPUs and 32 MiB, and spins.
    pub fn exclusive(&self, name: &str, cpus: u32) -> Value {
        self.guaranteed(name, cpus, "32Mi", &self.spin())
    }

    /// The same with one device of the tests' plugin, [`super::numa::RESOURCE`].
    pub fn with_device(&self, name: &str, cpus: u32) -> Value {
        let limits = json!({ "limits": { "cpu": cpus.to_string(), "memory": "32Mi", RESOURCE: "1" } });
        one(name, &self.spin(), json!({ "resources": limits }))
    }

    /// A Guaranteed pod with this script.
    pub fn guaranteed(&self, name: &str, cpus: u32, memory: &str, script: &str) -> Value {
        let limits = json!({ "limits": { "cpu": cpus.to_string(), "memory": memory } });
        one(name, script, json!({ "resources": limits }))
    }

    /// A BestEffort pod that spins.
    pub fn shared(&self, name: &str) -> Value {
        one(name, &self.spin(), json!({}))
    }
}
