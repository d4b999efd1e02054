//! From the configuration to a kept hierarchy.

use std::sync::Arc;

use jiff::Timestamp;
use tracing::{info, warn};

use super::keeper::Keeper;
use super::machine::{driver, facts, node_name};
use super::owned::Owned;
use super::places;
use super::sync::{Setup, Syncer};
use super::{ManageError, Namer};
use crate::cgroup::control::{Cgroupfs, Driver, DriverKind, Limits, Manager, Presence};
use crate::cgroup::{Layout, LayoutKind};
use crate::config::{Config, Endpoint, Enforce, MachineFacts, NodeSettings};
use crate::journal::Journal;
use crate::node::gather::Sources;
use crate::qos::Levels;
use crate::runtime::Client;
use crate::source::{Manifests, Watching, report, watch};
use crate::view::Detail;

/// What runs in mode manage. Dropping it leaves the pods as they are.
#[derive(Debug)]
pub struct Managing {
    // Dropped first: nothing hands pods over any more.
    _watching: Option<Watching>,
    pub keeper: Keeper,
}

/// Checks what must be there, makes the levels, and watches the manifests.
///
/// # Errors
/// What the hierarchy cannot be kept without is missing, each with the setting that asks for it.
pub fn start(
    config: &Config,
    layout: &Layout,
    journal: &Journal,
    runtime: &tokio::runtime::Handle,
    namer: Namer,
) -> Result<Managing, ManageError> {
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
    let failed = |what| move |source| ManageError::Start { what, source };
    // The pods first: levels computed without them would starve those that run.
    let mut manifests = settings.static_pod_path.as_ref().map(|dir| Manifests::new(dir, &node_name(config)));
    let first = manifests.as_mut().map(Manifests::scan).unwrap_or_default();
    report(None, &first);
    let mut syncer = Syncer::new(setup);
    if anew {
        syncer.made(&kubepods);
    }
    syncer.desire(first.clone());
    let keeper = Keeper::start(syncer, config.reconcile).map_err(failed("hierarchy thread"))?;
    let watching = match manifests {
        None => {
            warn!("staticPodPath is not set: there are no pods to manage");
            None
        }
        Some(manifests) => {
            let (sink, relist) = (keeper.sink(), settings.file_check_frequency);
            let watching = watch(manifests, first, relist, move |desired| sink.send(desired));
            Some(watching.map_err(failed("manifest thread"))?)
        }
    };
    Ok(Managing { _watching: watching, keeper })
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
        let name = crate::qos::reserved::name(value, manager.kind());
        let name = name.map_err(|source| ManageError::Name { field, value: value.to_owned(), source })?;
        must_exist(manager, field, value, &manager.path(&name), hint)?;
    }
    Ok(())
}
