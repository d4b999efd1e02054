//! Reads the node for its status.

use std::sync::Arc;

use tokio::sync::{Mutex as AsyncMutex, watch};

use super::runtime::RuntimeReader;
use nodewarden_config::{Config, Endpoint};
use nodewarden_cri::Client;
use nodewarden_devices::Devices;
use nodewarden_eviction::{NodeCondition, Pressure};
use nodewarden_hierarchy::{HierarchyManager, StatusReader};
use nodewarden_kube::node::{NodeReader, Pressures, Readings, RuntimeFacts};
use nodewarden_machine::node::Capacity;
use nodewarden_machine::node::addresses::node_addresses;

/// The parts of the agent that know the node.
pub struct Sources {
    pub hierarchy: StatusReader,
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
    runtime: Option<RuntimeReader>,
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
        let runtime = |endpoint: &Endpoint| {
            let client = Client::new(endpoint).with_image_service(config.image_endpoint.as_ref());
            RuntimeReader::new(client.with_request_limit(config.pods.runtime_request_timeout))
        };
        let changes = Changes {
            capacity: sources.capacity.clone(),
            devices: sources.devices.as_ref().map(Devices::changes),
            pressure: sources.pressure.clone(),
            shutdown: sources.shutdown.clone(),
        };
        Self {
            runtime: config.runtime_endpoint.as_ref().map(runtime),
            changes: AsyncMutex::new(changes),
            sources,
        }
    }
}

#[async_trait::async_trait]
impl NodeReader for Reader {
    async fn read(&self) -> Readings {
        let (runtime, images) = match &self.runtime {
            Some(runtime) => tokio::join!(runtime.facts(), runtime.images()),
            None => (RuntimeFacts::None, None),
        };
        let pressure = self.sources.pressure.borrow().clone();
        let since = |condition| pressure.0.get(&condition).copied();
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let devices = self.sources.devices.as_ref().map(Devices::amounts).unwrap_or_default();
        Readings {
            resources: self.sources.hierarchy.resources(),
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
