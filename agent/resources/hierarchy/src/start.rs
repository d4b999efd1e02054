//! From the configuration to a kept hierarchy.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::{info, warn};

use super::keep::Keep;
use super::keeper::Keeper;
use super::machine::{driver, facts};
use super::owned::Owned;
use super::places;
use super::sync::{HasVolumes, Setup, Syncer};
use super::{ManageError, Namer};
use nodewarden_config::{Config, Endpoint, Enforce, MachineFacts, NodeSettings};
use nodewarden_cri::Client;
use nodewarden_machine::cgroup::control::{Cgroupfs, Driver, DriverKind, Limits, Manager, Presence};
use nodewarden_machine::cgroup::{Layout, LayoutKind};
use nodewarden_machine::node::gather::Sources;
use nodewarden_model::Detail;
use nodewarden_qos::{HierarchyFacts, Levels};
use nodewarden_storage::journal::Journal;

/// A hierarchy that can be kept: everything that it needs is there.
pub struct Prepared {
    /// Who makes the cgroups.
    pub driver: DriverKind,
    /// Path of the level above all pods.
    pub kubepods: String,
    /// What limits there are on this machine.
    pub facts: HierarchyFacts,
    syncer: Syncer,
    reconcile: Duration,
}

impl Prepared {
    /// Makes the levels and the cgroups of the `first` pods, and keeps them from then on. Levels that are computed
    /// without the pods that run would starve those: all of them must be among the first.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn keep(mut self, first: Keep) -> Result<Keeper, ManageError> {
        self.syncer.begin(first);
        let failed = |source| ManageError::Start { what: "hierarchy thread", source };
        Keeper::start(self.syncer, self.reconcile).map_err(failed)
    }
}

/// Checks what must be there, and asks the runtime for the driver. Nothing is written yet but `kubepods`.
///
/// # Errors
/// What the hierarchy cannot be kept without is missing, each with the setting that asks for it.
pub fn prepare(
    config: &Config,
    layout: &Layout,
    journal: &Journal,
    runtime: &tokio::runtime::Handle,
    namer: Namer,
    has_volumes: HasVolumes,
) -> Result<Prepared, ManageError> {
    let settings = &config.node;
    let machine = MachineFacts {
        unified: layout.kind() == LayoutKind::V2,
        swap_on: Sources::default().capacity(None)?.swap_bytes > 0,
    };
    let problems = settings.refused_on(machine);
    if !problems.is_empty() {
        return Err(ManageError::Refused { problems });
    }
    let (kind, driver_from) = driver_kind(settings, config.runtime_endpoint.as_ref(), runtime);
    let layout = Arc::new(layout.clone());
    let manager = Arc::new(Manager::new(driver(kind, driver_from, &layout)?, layout.clone()));
    let name =
        |source| ManageError::Name { field: "cgroupRoot", value: settings.cgroup_root.clone(), source };
    let levels = Levels::below(&settings.cgroup_root).map_err(name)?;
    if let Some(root) = levels.kubepods.parent() {
        must_exist(&manager, "cgroupRoot", &settings.cgroup_root, &manager.path(&root), "")?;
    }
    reserved_exist(settings, &manager)?;

    let kubepods = manager.path(&levels.kubepods);
    let anew = settings.cgroups_per_qos && manager.presence(&kubepods) == Presence::Nowhere;
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
        daemons: places::daemons(config, &manager, &*files)?,
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
    let mut syncer = Syncer::new(setup);
    if anew {
        syncer.made(&kubepods);
    }
    Ok(Prepared { driver: kind, kubepods, facts, syncer, reconcile: config.reconcile })
}

/// The runtime's word, if it has one (KEP-4033), else the configuration's.
fn driver_kind(
    settings: &NodeSettings,
    endpoint: Option<&Endpoint>,
    runtime: &tokio::runtime::Handle,
) -> (DriverKind, &'static str) {
    let Some(endpoint) = endpoint else { return (settings.cgroup_driver, "configuration") };
    let client = Client::new(endpoint);
    match runtime.block_on(client.cgroup_driver()) {
        Ok(Some(kind)) => {
            if kind != settings.cgroup_driver {
                info!(runtime = %kind, configured = %settings.cgroup_driver, "the runtime names the cgroup driver");
            }
            (kind, "the runtime")
        }
        Ok(None) => (settings.cgroup_driver, "configuration"),
        Err(error) => {
            warn!(%error, "the runtime does not tell its cgroup driver: taking the configured one");
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
) -> Result<(), ManageError> {
    let missing = match manager.presence(path) {
        Presence::Everywhere => return Ok(()),
        Presence::Partly { missing } => missing,
        Presence::Nowhere => Vec::new(),
    };
    Err(ManageError::Missing { field, value: value.to_owned(), missing, hint })
}

/// The cgroups of `enforceNodeAllocatable`: they belong to others, who make them.
fn reserved_exist(settings: &NodeSettings, manager: &Manager) -> Result<(), ManageError> {
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
        let name = name.map_err(|source| ManageError::Name { field, value: value.to_owned(), source })?;
        must_exist(manager, field, value, &manager.path(&name), hint)?;
    }
    Ok(())
}
