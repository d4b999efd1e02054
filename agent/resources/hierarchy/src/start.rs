//! Prepares and starts the hierarchy manager from the configuration.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::{info, warn};

use super::desired::DesiredCgroups;
use super::machine::{driver, facts};
use super::manager::HierarchyManager;
use super::node_cgroups;
use super::owned::Owned;
use super::reconciler::{HasVolumes, Reconciler, Setup};
use super::{HierarchyError, Namer};
use nodewarden_config::{Config, Endpoint, Enforce, MachineFacts, NodeSettings};
use nodewarden_cri::Client;
use nodewarden_machine::cgroup::control::{Cgroupfs, Driver, DriverKind, Limits, Manager, Presence};
use nodewarden_machine::cgroup::{Layout, LayoutKind};
use nodewarden_machine::node::gather::Sources;
use nodewarden_model::Detail;
use nodewarden_qos::{HierarchyFacts, Levels};
use nodewarden_storage::journal::Journal;

/// How long the start waits for the runtime to report its cgroup driver.
const DRIVER_LIMIT: Duration = Duration::from_secs(5);

/// A hierarchy that can be managed: everything that it requires exists.
pub struct Prepared {
    /// The driver that creates cgroups.
    pub driver: DriverKind,
    /// Path of the level above all pods.
    pub kubepods: String,
    /// The limits that this machine supports.
    pub facts: HierarchyFacts,
    reconciler: Reconciler,
    reconcile: Duration,
}

impl Prepared {
    /// Creates the levels and the cgroups of the `first` pods, and reconciles them from then on. `first` must
    /// contain every running pod, since levels computed without one would starve it.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn keep(mut self, first: DesiredCgroups) -> Result<HierarchyManager, HierarchyError> {
        self.reconciler.begin(first);
        let failed = |source| HierarchyError::Start { what: "hierarchy thread", source };
        HierarchyManager::start(self.reconciler, self.reconcile).map_err(failed)
    }
}

/// Checks the requirements and asks the runtime for its cgroup driver. Creates only `kubepods`.
///
/// # Errors
/// A requirement is missing; the error names the setting that needs it.
pub fn prepare(
    config: &Config,
    layout: &Layout,
    journal: &Journal,
    runtime: &tokio::runtime::Handle,
    namer: Namer,
    has_volumes: HasVolumes,
) -> Result<Prepared, HierarchyError> {
    let settings = &config.node;
    let machine = MachineFacts {
        unified: layout.kind() == LayoutKind::V2,
        swap_on: Sources::default().capacity(None)?.swap_bytes > 0,
    };
    let problems = settings.refused_on(machine);
    if !problems.is_empty() {
        return Err(HierarchyError::Refused { problems });
    }
    let (kind, driver_from) = driver_kind(settings, config.runtime_endpoint.as_ref(), runtime);
    let layout = Arc::new(layout.clone());
    let manager = Arc::new(Manager::new(driver(kind, driver_from, &layout)?, layout.clone()));
    let name =
        |source| HierarchyError::Name { field: "cgroupRoot", value: settings.cgroup_root.clone(), source };
    let levels = Levels::below(&settings.cgroup_root).map_err(name)?;
    if let Some(root) = levels.kubepods.parent() {
        must_exist(&manager, "cgroupRoot", &settings.cgroup_root, &manager.path(&root), "")?;
    }
    reserved_exist(settings, &manager)?;

    let kubepods = manager.path(&levels.kubepods);
    let is_new = settings.cgroups_per_qos && manager.presence(&kubepods) == Presence::Nowhere;
    if settings.cgroups_per_qos {
        manager.create(&kubepods, &Limits::default())?;
    }
    let facts = facts(&layout, &kubepods);
    let (owned, damaged) = Owned::open(&config.state_dir)?;
    if let Some(damaged) = damaged {
        warn!("{damaged}");
        let detail = Detail::Hierarchy { reason: "StateDamaged".into(), message: damaged.to_string() };
        journal.append(Timestamp::now(), "", None, detail);
    }
    info!(driver = %kind, from = driver_from, kubepods, "managing the hierarchy");
    let files: Arc<dyn Driver> = Arc::new(Cgroupfs::new(layout));
    let setup = Setup {
        daemons: node_cgroups::daemons(config, &manager, &*files)?,
        reconcile: config.reconcile,
        settings: settings.clone(),
        has_volumes,
        facts,
        levels,
        files,
        namer,
        manager,
        owned,
        journal: journal.clone(),
        driver_from,
        state_dir: config.state_dir.clone(),
    };
    let mut reconciler = Reconciler::new(setup);
    if is_new {
        reconciler.made(&kubepods);
    }
    Ok(Prepared { driver: kind, kubepods, facts, reconciler, reconcile: config.reconcile })
}

/// The driver that the runtime reports (KEP-4033), else the configured one, and where it comes from.
fn driver_kind(
    settings: &NodeSettings,
    endpoint: Option<&Endpoint>,
    runtime: &tokio::runtime::Handle,
) -> (DriverKind, &'static str) {
    let Some(endpoint) = endpoint else { return (settings.cgroup_driver, "configuration") };
    let client = Client::new(endpoint).with_request_limit(DRIVER_LIMIT);
    match runtime.block_on(client.cgroup_driver()) {
        Ok(Some(kind)) => {
            if kind != settings.cgroup_driver {
                info!(runtime = %kind, configured = %settings.cgroup_driver, "the runtime names the cgroup driver");
            }
            (kind, "the runtime")
        }
        Ok(None) => (settings.cgroup_driver, "configuration"),
        Err(error) => {
            warn!(%error, "the runtime does not report its cgroup driver: taking the configured one");
            (settings.cgroup_driver, "configuration")
        }
    }
}

fn must_exist(
    manager: &Manager,
    field: &'static str,
    value: &str,
    path: &str,
    hint: &'static str,
) -> Result<(), HierarchyError> {
    let missing = match manager.presence(path) {
        Presence::Everywhere => return Ok(()),
        Presence::Partly { missing } => missing,
        Presence::Nowhere => Vec::new(),
    };
    Err(HierarchyError::Missing { field, value: value.to_owned(), missing, hint })
}

/// Checks that the cgroups of `enforceNodeAllocatable` exist: they are created outside the agent.
fn reserved_exist(settings: &NodeSettings, manager: &Manager) -> Result<(), HierarchyError> {
    for enforce in &settings.enforce {
        let (field, value, hint) = match enforce {
            Enforce::Pods => continue,
            Enforce::KubeReserved | Enforce::KubeReservedCompressible => (
                "kubeReservedCgroup",
                settings.kube_reserved_cgroup.as_deref(),
                ", or take kube-reserved out of enforceNodeAllocatable",
            ),
            Enforce::SystemReserved | Enforce::SystemReservedCompressible => (
                "systemReservedCgroup",
                settings.system_reserved_cgroup.as_deref(),
                ", or take system-reserved out of enforceNodeAllocatable",
            ),
        };
        let Some(value) = value else { continue };
        let name = nodewarden_qos::reserved::name(value, manager.kind());
        let name = name.map_err(|source| HierarchyError::Name { field, value: value.to_owned(), source })?;
        must_exist(manager, field, value, &manager.path(&name), hint)?;
    }
    Ok(())
}
