//! Reads the node for its status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, watch};

use nodewarden_config::{Config, Endpoint};
use nodewarden_cri::{Client, Version};
use nodewarden_devices::Devices;
use nodewarden_eviction::{NodeCondition, Pressure};
use nodewarden_hierarchy::HierarchyManager;
use nodewarden_kube::node::{Image, NodeReader, Pressures, Readings, RuntimeFacts, Unmet};
use nodewarden_machine::node::Capacity;
use nodewarden_machine::node::addresses::node_addresses;
use nodewarden_model::HierarchyStatus;

/// How long a question to the runtime may take: the node's status must not wait for one that hangs.
const ASK: Duration = Duration::from_secs(5);
/// How long a list of images is used.
const IMAGES: Duration = Duration::from_secs(30);
/// The conditions of a runtime that a node needs.
const NEEDED: [&str; 2] = ["RuntimeReady", "NetworkReady"];

/// The parts of the agent that know the node.
pub struct Sources {
    pub hierarchy: Arc<Mutex<HierarchyStatus>>,
    pub capacity: watch::Receiver<Arc<Capacity>>,
    pub devices: Option<Devices>,
    /// The node conditions that eviction has found to be true.
    pub pressure: watch::Receiver<Pressure>,
    /// The machine is about to shut down.
    pub shutdown: watch::Receiver<bool>,
}

impl Sources {
    /// Without pods that are run: only capacity is known.
    pub fn of(hierarchy: &HierarchyManager, shutdown: watch::Receiver<bool>) -> Self {
        Self {
            hierarchy: hierarchy.status(),
            capacity: hierarchy.capacity(),
            devices: None,
            pressure: watch::channel(Pressure::default()).1,
            shutdown,
        }
    }
}

/// Reads the node when it is asked to.
pub struct Reader {
    sources: Sources,
    runtime: Option<Client>,
    version: Mutex<Option<Version>>,
    images: Mutex<Option<(Instant, Vec<Image>)>>,
    changes: AsyncMutex<Changes>,
}

struct Changes {
    capacity: watch::Receiver<Arc<Capacity>>,
    devices: Option<watch::Receiver<u64>>,
    pressure: watch::Receiver<Pressure>,
    shutdown: watch::Receiver<bool>,
}

impl Reader {
    pub fn new(sources: Sources, config: &Config) -> Self {
        let client = |endpoint: &Endpoint| {
            Client::new(endpoint).with_image_service(config.image_endpoint.as_ref()).with_request_limit(ASK)
        };
        let changes = Changes {
            capacity: sources.capacity.clone(),
            devices: sources.devices.as_ref().map(Devices::changes),
            pressure: sources.pressure.clone(),
            shutdown: sources.shutdown.clone(),
        };
        Self {
            runtime: config.runtime_endpoint.as_ref().map(client),
            version: Mutex::default(),
            images: Mutex::default(),
            changes: AsyncMutex::new(changes),
            sources,
        }
    }

    async fn runtime(&self) -> RuntimeFacts {
        let Some(client) = &self.runtime else { return RuntimeFacts::None };
        let conditions = match client.conditions().await {
            Ok(conditions) => conditions,
            Err(error) => {
                // Another version may answer next.
                *self.version.lock() = None;
                return RuntimeFacts::Away(error.to_string());
            }
        };
        let known = self.version.lock().clone();
        let version = match known {
            Some(version) => version,
            None => match client.version().await {
                Ok(version) => self.version.lock().insert(version).clone(),
                Err(error) => return RuntimeFacts::Away(error.to_string()),
            },
        };
        let unmet = NEEDED.iter().filter_map(|needed| {
            let found = conditions.iter().find(|condition| condition.kind == *needed);
            match found {
                Some(condition) if condition.holds => None,
                Some(condition) => Some(Unmet {
                    condition: (*needed).to_owned(),
                    reason: condition.reason.clone(),
                    message: condition.message.clone(),
                }),
                None => Some(Unmet {
                    condition: (*needed).to_owned(),
                    reason: "Unknown".to_owned(),
                    message: "the runtime does not report it".to_owned(),
                }),
            }
        });
        RuntimeFacts::Answers { name: version.name, version: version.version, unmet: unmet.collect() }
    }

    /// The images, as listed within the last 30 s; `None` if the runtime does not answer.
    async fn images(&self) -> Option<Vec<Image>> {
        let client = self.runtime.as_ref()?;
        if let Some((at, images)) = &*self.images.lock()
            && at.elapsed() < IMAGES
        {
            return Some(images.clone());
        }
        let mut by_id: BTreeMap<String, Image> = BTreeMap::new();
        for image in client.list_images().await.ok()? {
            let own = by_id.entry(image.id).or_insert_with(|| Image { names: Vec::new(), size: image.size });
            // Digests come first, as in the kubelet.
            for name in image.repo_digests.into_iter().chain(image.repo_tags) {
                if !own.names.contains(&name) {
                    own.names.push(name);
                }
            }
        }
        let images: Vec<Image> = by_id.into_values().collect();
        *self.images.lock() = Some((Instant::now(), images.clone()));
        Some(images)
    }
}

#[async_trait::async_trait]
impl NodeReader for Reader {
    async fn read(&self) -> Readings {
        let (runtime, images) = (self.runtime().await, self.images().await);
        let pressure = self.sources.pressure.borrow().clone();
        let since = |condition| pressure.0.get(&condition).copied();
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let devices = self.sources.devices.as_ref().map(Devices::amounts).unwrap_or_default();
        Readings {
            resources: self.sources.hierarchy.lock().resources.clone(),
            devices: devices
                .into_iter()
                .map(|(name, (all, good))| (name, (count(all), count(good))))
                .collect(),
            ips: node_addresses(),
            swap_bytes: self.sources.capacity.borrow().swap_bytes,
            images,
            runtime,
            pressure: Pressures {
                memory: since(NodeCondition::MemoryPressure),
                disk: since(NodeCondition::DiskPressure),
                pid: since(NodeCondition::PidPressure),
            },
            shutting_down: *self.sources.shutdown.borrow(),
        }
    }

    async fn changed(&self) {
        let mut changes = self.changes.lock().await;
        let Changes { capacity, devices, pressure, shutdown } = &mut *changes;
        let devices = async {
            match devices {
                Some(devices) => changed(devices).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed(capacity) => {}
            () = devices => {}
            () = changed(pressure) => {}
            () = changed(shutdown) => {}
        }
    }
}

/// Waits for the next change; for ever if there will be none.
async fn changed<T>(of: &mut watch::Receiver<T>) {
    if of.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
