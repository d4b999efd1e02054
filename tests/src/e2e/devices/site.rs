//! What tests of devices stand on: a stage whose agent has a directory for device plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::e2e::pods::manifest::{merged, one};
use crate::e2e::pods::seen::Seen;
use crate::e2e::pods::stage::{SHORT_BACKOFF, Stage};
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::{
    Behaviour, NativePlugin, Plugin, PodResources, PythonPlugin, Sample, device_ids, parse_samples,
};
use crate::harness::{Context, Failure};

/// The domain of the tests' resources.
pub const DOMAIN: &str = "nodewarden.test";

/// A stage, and where its plugins are.
pub struct Site<'c> {
    pub stage: Stage<'c>,
    home: PathBuf,
    begun: SystemTime,
}

impl<'c> Site<'c> {
    /// `devices` are more lines of `nodewarden.devices`.
    pub fn new(context: &'c Context, devices: &str) -> Result<Self, Failure> {
        Self::with_kubelet(context, "", devices)
    }

    /// The same with more lines of the kubelet's configuration.
    pub fn with_kubelet(context: &'c Context, kubelet: &str, devices: &str) -> Result<Self, Failure> {
        let home = Self::prepare(context)?;
        let begun = SystemTime::now();
        let lines = format!("kubeletDir: {}\n{devices}", home.display());
        let lines: String = lines.lines().map(|line| format!("  {line}\n")).collect();
        let section = format!("{SHORT_BACKOFF}\ndevices:\n{lines}");
        Ok(Self { stage: Stage::with(context, kubelet, &section)?, home, begun })
    }

    /// Makes the directories that the agent will find: for what is to be in them before it starts.
    pub fn prepare(context: &Context) -> Result<PathBuf, Failure> {
        // Short: the path of a socket may have 107 bytes.
        let home = context.temp.join("k");
        for folder in
            [home.join("device-plugins"), home.join("plugins_registry"), context.temp.join("plugins")]
        {
            std::fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
        }
        Ok(home)
    }

    pub fn context(&self) -> &'c Context {
        self.stage.context()
    }

    /// Where plugins have their sockets.
    pub fn dir(&self) -> PathBuf {
        self.home.join("device-plugins")
    }

    /// Where the plugin watcher looks.
    pub fn registry(&self) -> PathBuf {
        self.home.join("plugins_registry")
    }

    /// The kubelet's checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        self.dir().join("kubelet_internal_checkpoint")
    }

    /// Healthy devices that say their ids in `DEVICES`.
    pub fn behaviour(&self, resource: &str, ids: &[&str]) -> Behaviour {
        Behaviour::new(&self.dir(), &full(resource), ids).with_env("DEVICES")
    }

    /// Starts a plugin and waits until its healthy devices can be allocated.
    pub fn plugin(&self, behaviour: &Behaviour) -> Result<Plugin, Failure> {
        let plugin = Plugin::start(&self.folder(), behaviour)?;
        self.until_offered(behaviour)?;
        Ok(plugin)
    }

    /// The same in this process.
    pub fn native(
        &self,
        behaviour: &Behaviour,
        hook: Option<crate::fixture::Hook>,
    ) -> Result<NativePlugin, Failure> {
        let plugin = NativePlugin::start(behaviour, hook).map_err(Failure::file("a plugin's threads"))?;
        self.until_offered(behaviour)?;
        Ok(plugin)
    }

    /// One that lies, without waiting for anything.
    pub fn liar(&self, behaviour: &Behaviour, lies: Value) -> Result<PythonPlugin, Failure> {
        PythonPlugin::start(&self.folder(), behaviour, &lies)
    }

    fn folder(&self) -> PathBuf {
        self.context().temp.join("plugins")
    }

    fn until_offered(&self, behaviour: &Behaviour) -> Result<(), Failure> {
        let healthy = behaviour.devices.iter().filter(|item| item.health == "Healthy");
        let ids: Vec<_> = healthy.map(|item| item.id.as_str()).collect();
        self.until_allocatable(&behaviour.resource, &ids)
    }

    /// Waits until exactly these devices can be allocated.
    pub fn until_allocatable(&self, resource: &str, ids: &[&str]) -> Result<(), Failure> {
        let wanted: BTreeSet<String> = ids.iter().map(|&id| id.to_owned()).collect();
        let resource = full(resource);
        let mut last = BTreeSet::new();
        let found = eventually(self.context().patiently(10), "", || {
            last = device_ids(&self.pod_resources()?.allocatable()?, &resource);
            Ok((last == wanted).then_some(()))
        });
        found.map_err(|failure| {
            Failure::Unexpected(format!("of {resource} {last:?} are allocatable, not {wanted:?}{failure}"))
        })
    }

    /// As soon as it is served.
    pub fn pod_resources(&self) -> Result<PodResources, Failure> {
        let socket = self.home.join("pod-resources/kubelet.sock");
        eventually(self.context().patiently(5), &format!("nobody listens at {}", socket.display()), || {
            Ok(PodResources::connect(&socket).ok())
        })
    }

    /// The devices of each pod, by PodResources: pod → resource → ids.
    pub fn given(&self) -> Result<Given, Failure> {
        let mut given = Given::new();
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

    /// Of one pod and resource.
    pub fn given_to(&self, pod: &str, resource: &str) -> Result<BTreeSet<String>, Failure> {
        let given = self.given()?;
        Ok(given.get(pod).and_then(|of_pod| of_pod.get(&full(resource))).cloned().unwrap_or_default())
    }

    /// Waits until a pod waits for devices, and gives what it says.
    pub fn waits(&self, pod: &str, reason: &str) -> Result<String, Failure> {
        let waits = self.stage.until(pod, reason, 20, |seen| {
            seen.phase() == "Pending" && seen.text("/status/reason") == reason
        })?;
        Ok(waits.text("/status/message").to_owned())
    }

    /// The ids that a container was told in `DEVICES`, which it says as `devices=`.
    pub fn told(&self, pod: &Seen, container: &str) -> Result<BTreeSet<String>, Failure> {
        let told = self.stage.told(pod, container)?;
        let ids = told.get("devices").cloned().unwrap_or_default();
        Ok(ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect())
    }

    /// Lines of `nodewarden events` about a pod since the test began, as JSON.
    pub fn events(&self, pod: &str) -> Result<Vec<Value>, Failure> {
        let seconds = self.begun.elapsed().map_or(0, |since| since.as_secs()) + 1;
        let since = format!("{seconds}s");
        let command = ["events", "--since", &since, "--pod", pod, "--no-follow", "-o", "json"];
        let output = self.stage.command(&command)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?}: {}: {error}", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        let line = |line: &str| {
            serde_json::from_str(line).map_err(|e| Failure::Unexpected(format!("{command:?}: {e}: {line}")))
        };
        text.lines().map(line).collect()
    }

    /// Waits for an event of a pod that has all of these words somewhere.
    pub fn until_event(&self, pod: &str, words: &[&str]) -> Result<Value, Failure> {
        let mut last = Vec::new();
        let found = eventually(self.context().patiently(10), "", || {
            last = self.events(pod)?;
            let has = |event: &&Value| words.iter().all(|word| event.to_string().contains(word));
            Ok(last.iter().find(has).cloned())
        });
        found.map_err(|failure| {
            let told: Vec<_> = last.iter().map(Value::to_string).collect();
            Failure::Unexpected(format!("no event of {pod} with {words:?}{failure}: {}", told.join("\n")))
        })
    }

    /// Samples of one name in `/metrics`.
    pub fn samples(&self, name: &str) -> Result<Vec<Sample>, Failure> {
        let text = self.stage.agent()?.get("/metrics")?.text();
        Ok(parse_samples(&text).into_iter().filter(|sample| sample.name == name).collect())
    }

    /// Waits until the agent has said something with all of these words, whatever their case: in its log or journal.
    pub fn until_said(&self, words: &[&str]) -> Result<(), Failure> {
        let words: Vec<_> = words.iter().map(|word| word.to_lowercase()).collect();
        eventually(self.context().patiently(10), &format!("the agent does not say {words:?}"), || {
            let output = self.stage.command(&["events", "--since", "1h", "--no-follow"])?;
            let text = self.stage.agent()?.log() + &String::from_utf8_lossy(&output.stdout);
            let has = |line: &str| words.iter().all(|word| line.to_lowercase().contains(word.as_str()));
            Ok(text.lines().any(has).then_some(()))
        })
    }
}

/// Pod → resource → ids.
pub type Given = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A resource of the tests' domain, unless it has one.
pub fn full(resource: &str) -> String {
    if resource.contains('/') { resource.to_owned() } else { format!("{DOMAIN}/{resource}") }
}

/// A container's `resources` with so many devices.
pub fn limits(wanted: &[(&str, u32)]) -> Value {
    let limits: BTreeMap<_, _> =
        wanted.iter().map(|(resource, count)| (full(resource), count.to_string())).collect();
    json!({ "resources": { "limits": limits } })
}

/// Says which devices it was told of, and stays.
pub const SAY: &str = "echo devices=$DEVICES; echo done; \
                       trap 'exit 0' TERM; while true; do sleep 600 & wait $!; done";

/// A pod with one container `c` that wants devices, says which it was told of, and stays.
pub fn wants(name: &str, wanted: &[(&str, u32)]) -> Value {
    one(name, SAY, limits(wanted))
}

/// A folder of the test's own as a volume `notes`: the pod's volumes, and the container's part.
pub fn notes(folder: &Path) -> Result<(Value, Value), Failure> {
    std::fs::create_dir_all(folder).map_err(Failure::file(folder))?;
    let volumes = json!([{ "name": "notes", "hostPath": { "path": folder } }]);
    Ok((volumes, json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] })))
}

/// What must not change of a pod: uid, its container's id, restarts.
pub fn identity(pod: &Seen) -> Result<(String, String, u64), Failure> {
    let c = pod.container("c")?;
    Ok((pod.uid().to_owned(), c.id().to_owned(), c.restarts()))
}

/// A set of texts.
pub fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}

/// Both.
pub fn with(a: Value, b: Value) -> Value {
    merged(a, b)
}
