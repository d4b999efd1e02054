//! The fixture for tests of devices: pods, and an agent with a directory for device plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::e2e::pods::fixture::{PodFixture, SHORT_BACKOFF};
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pods::manifest::one;
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::{
    Behaviour, NativePlugin, Plugin, PodResources, PythonPlugin, Sample, device_ids, parse_samples,
};
use crate::harness::{Context, Failure};

/// The domain of the tests' resource names.
pub const DOMAIN: &str = "nodewarden.test";

/// Pods, and the directories of device plugins.
pub struct DeviceFixture<'c> {
    pub pods: PodFixture<'c>,
    kubelet_dir: PathBuf,
    begun: SystemTime,
}

impl<'c> DeviceFixture<'c> {
    /// `devices` are further lines of `nodewarden.devices`.
    pub fn new(context: &'c Context, devices: &str) -> Result<Self, Failure> {
        Self::with_kubelet(context, "", devices)
    }

    /// The same with further lines of the kubelet's configuration.
    pub fn with_kubelet(context: &'c Context, kubelet: &str, devices: &str) -> Result<Self, Failure> {
        let kubelet_dir = Self::prepare(context)?;
        let begun = SystemTime::now();
        let lines = format!("kubeletDir: {}\n{devices}", kubelet_dir.display());
        let lines: String = lines.lines().map(|line| format!("  {line}\n")).collect();
        let section = format!("{SHORT_BACKOFF}\ndevices:\n{lines}");
        Ok(Self { pods: PodFixture::with_config(context, kubelet, &section)?, kubelet_dir, begun })
    }

    /// Creates the directories, for tests that put files into them before the agent starts. Returns the
    /// kubelet's directory.
    pub fn prepare(context: &Context) -> Result<PathBuf, Failure> {
        // A short name: the path of a socket has at most 107 bytes.
        let kubelet_dir = context.temp.join("k");
        for folder in [
            kubelet_dir.join("device-plugins"),
            kubelet_dir.join("plugins_registry"),
            context.temp.join("plugins"),
        ] {
            std::fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
        }
        Ok(kubelet_dir)
    }

    pub fn context(&self) -> &'c Context {
        self.pods.context()
    }

    /// The directory of plugins' sockets.
    pub fn dir(&self) -> PathBuf {
        self.kubelet_dir.join("device-plugins")
    }

    /// The directory that the plugin watcher reads.
    pub fn registry(&self) -> PathBuf {
        self.kubelet_dir.join("plugins_registry")
    }

    /// The kubelet's checkpoint file.
    pub fn checkpoint(&self) -> PathBuf {
        self.dir().join("kubelet_internal_checkpoint")
    }

    /// A plugin with healthy devices that sets the variable `DEVICES` to the allocated ids.
    pub fn behaviour(&self, resource: &str, ids: &[&str]) -> Behaviour {
        Behaviour::new(&self.dir(), &full_name(resource), ids).with_env("DEVICES")
    }

    /// Starts a plugin and waits until its healthy devices can be allocated.
    pub fn start_plugin(&self, behaviour: &Behaviour) -> Result<Plugin, Failure> {
        let plugin = Plugin::start(&self.folder(), behaviour)?;
        self.wait_offered(behaviour)?;
        Ok(plugin)
    }

    /// The same for a plugin in this process.
    pub fn start_native(
        &self,
        behaviour: &Behaviour,
        hook: Option<crate::fixture::Hook>,
    ) -> Result<NativePlugin, Failure> {
        let plugin = NativePlugin::start(behaviour, hook).map_err(Failure::file("a plugin's threads"))?;
        self.wait_offered(behaviour)?;
        Ok(plugin)
    }

    /// Starts a plugin that misbehaves as `misbehaviour` says; waits for nothing.
    pub fn start_misbehaving(
        &self,
        behaviour: &Behaviour,
        misbehaviour: Value,
    ) -> Result<PythonPlugin, Failure> {
        PythonPlugin::start(&self.folder(), behaviour, &misbehaviour)
    }

    fn folder(&self) -> PathBuf {
        self.context().temp.join("plugins")
    }

    fn wait_offered(&self, behaviour: &Behaviour) -> Result<(), Failure> {
        let healthy = behaviour.devices.iter().filter(|item| item.health == "Healthy");
        let ids: Vec<_> = healthy.map(|item| item.id.as_str()).collect();
        self.wait_allocatable(&behaviour.resource, &ids)
    }

    /// Waits until exactly these devices can be allocated.
    pub fn wait_allocatable(&self, resource: &str, ids: &[&str]) -> Result<(), Failure> {
        let wanted: BTreeSet<String> = ids.iter().map(|&id| id.to_owned()).collect();
        let resource = full_name(resource);
        let mut last = BTreeSet::new();
        let found = eventually(self.context().patiently(10), "", || {
            last = device_ids(&self.pod_resources()?.allocatable()?, &resource);
            Ok((last == wanted).then_some(()))
        });
        found.map_err(|failure| {
            Failure::Unexpected(format!("of {resource} {last:?} are allocatable, not {wanted:?}{failure}"))
        })
    }

    /// A client of PodResources; waits until it is served.
    pub fn pod_resources(&self) -> Result<PodResources, Failure> {
        let socket = self.kubelet_dir.join("pod-resources/kubelet.sock");
        eventually(
            self.context().patiently(5),
            &format!("no process listens at {}", socket.display()),
            || Ok(PodResources::connect(&socket).ok()),
        )
    }

    /// The devices of each pod by PodResources.
    pub fn allocated(&self) -> Result<Allocated, Failure> {
        let mut given = Allocated::new();
        for pod in self.pod_resources()?.list()? {
            for container in pod.containers {
                for devices in container.devices {
                    let of_pod = given.entry(pod.name.clone()).or_default();
                    of_pod.entry(devices.resource_name).or_default().extend(devices.device_ids);
                }
            }
        }
        Ok(given)
    }

    /// The devices of one pod and resource by PodResources.
    pub fn allocated_to(&self, pod: &str, resource: &str) -> Result<BTreeSet<String>, Failure> {
        let given = self.allocated()?;
        Ok(given.get(pod).and_then(|of_pod| of_pod.get(&full_name(resource))).cloned().unwrap_or_default())
    }

    /// Waits until a pod is pending with this reason. Returns the message.
    pub fn wait_pending(&self, pod: &str, reason: &str) -> Result<String, Failure> {
        let waits = self.pods.wait_until(pod, reason, 20, |seen| {
            seen.phase() == "Pending" && seen.text("/status/reason") == reason
        })?;
        Ok(waits.text("/status/message").to_owned())
    }

    /// The ids in a container's variable `DEVICES`, which it prints as `devices=`.
    pub fn printed_devices(&self, pod: &ListedPod, container: &str) -> Result<BTreeSet<String>, Failure> {
        let printed = self.pods.printed_values(pod, container)?;
        let ids = printed.get("devices").cloned().unwrap_or_default();
        Ok(ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect())
    }

    /// Output of `nodewarden events` of a pod since the start of the test, as JSON.
    pub fn events(&self, pod: &str) -> Result<Vec<Value>, Failure> {
        let seconds = self.begun.elapsed().map_or(0, |since| since.as_secs()) + 1;
        let since = format!("{seconds}s");
        let command = ["events", "--since", &since, "--pod", pod, "--no-follow", "-o", "json"];
        let output = self.pods.command(&command)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?}: {}: {error}", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        let line = |line: &str| {
            serde_json::from_str(line).map_err(|e| Failure::Unexpected(format!("{command:?}: {e}: {line}")))
        };
        text.lines().map(line).collect()
    }

    /// Waits for an event of a pod that has all of these words in its JSON.
    pub fn wait_event(&self, pod: &str, words: &[&str]) -> Result<Value, Failure> {
        let mut last = Vec::new();
        let found = eventually(self.context().patiently(10), "", || {
            last = self.events(pod)?;
            let has = |event: &&Value| words.iter().all(|word| event.to_string().contains(word));
            Ok(last.iter().find(has).cloned())
        });
        found.map_err(|failure| {
            let printed: Vec<_> = last.iter().map(Value::to_string).collect();
            Failure::Unexpected(format!("no event of {pod} with {words:?}{failure}: {}", printed.join("\n")))
        })
    }

    /// Samples of one metric in `/metrics`.
    pub fn samples(&self, name: &str) -> Result<Vec<Sample>, Failure> {
        let text = self.pods.agent()?.get("/metrics")?.text();
        Ok(parse_samples(&text).into_iter().filter(|sample| sample.name == name).collect())
    }

    /// Waits for a line with all of these words, in any case, in the agent's log or journal.
    pub fn wait_logged(&self, words: &[&str]) -> Result<(), Failure> {
        let words: Vec<_> = words.iter().map(|word| word.to_lowercase()).collect();
        eventually(self.context().patiently(10), &format!("no line of the agent has {words:?}"), || {
            let output = self.pods.command(&["events", "--since", "1h", "--no-follow"])?;
            let text = self.pods.agent()?.log() + &String::from_utf8_lossy(&output.stdout);
            let has = |line: &str| words.iter().all(|word| line.to_lowercase().contains(word.as_str()));
            Ok(text.lines().any(has).then_some(()))
        })
    }
}

/// Pod → resource → ids.
pub type Allocated = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The full name of a resource: with the tests' domain, unless it has one.
pub fn full_name(resource: &str) -> String {
    if resource.contains('/') { resource.to_owned() } else { format!("{DOMAIN}/{resource}") }
}

/// A container's `resources` with limits of devices.
pub fn limits(wanted: &[(&str, u32)]) -> Value {
    let limits: BTreeMap<_, _> =
        wanted.iter().map(|(resource, count)| (full_name(resource), count.to_string())).collect();
    json!({ "resources": { "limits": limits } })
}

/// A script that prints the container's devices and keeps running.
pub const PRINT_DEVICES: &str = "echo devices=$DEVICES; echo done; \
                       trap 'exit 0' TERM; while true; do sleep 600 & wait $!; done";

/// A pod with one container `c` that wants devices, prints them, and keeps running.
pub fn requesting(name: &str, wanted: &[(&str, u32)]) -> Value {
    one(name, PRINT_DEVICES, limits(wanted))
}

/// A directory of the test as a volume `notes`: the pod's `volumes`, and the container's `volumeMounts`.
pub fn notes(folder: &Path) -> Result<(Value, Value), Failure> {
    std::fs::create_dir_all(folder).map_err(Failure::file(folder))?;
    let volumes = json!([{ "name": "notes", "hostPath": { "path": folder } }]);
    Ok((volumes, json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] })))
}

/// What must not change of a pod: uid, container id and number of restarts.
pub fn identity(pod: &ListedPod) -> Result<(String, String, u64), Failure> {
    let c = pod.container("c")?;
    Ok((pod.uid().to_owned(), c.id().to_owned(), c.restarts()))
}

/// A set of ids.
pub fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}
