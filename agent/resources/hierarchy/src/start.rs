//! Prepares and starts the hierarchy manager from the configuration.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{info, warn};

use super::desired::DesiredCgroups;
use super::last_driver::{self, Answer, LastDriver};
use super::machine::{driver, facts};
use super::manager::HierarchyManager;
use super::node_cgroups;
use super::own_levels::OwnLevels;
use super::owned::Owned;
use super::reconciler::{HasVolumes, Reconciler, Setup};
use super::sweeper::InUse;
use super::{HierarchyError, Namer};
use nodewarden_config::{Config, Endpoint, Enforce, MachineFacts, NodeSettings};
use nodewarden_cri::{Client, Labels, Listing};
use nodewarden_machine::cgroup::control::{Cgroupfs, Driver, DriverKind, Limits, Manager, Presence};
use nodewarden_machine::cgroup::{Layout, LayoutKind};
use nodewarden_machine::node::gather::Sources;
use nodewarden_machine::node::kernel_settings::{KernelSetting, KernelSettings};
use nodewarden_model::Detail;
use nodewarden_pods::spec::labels::POD_UID;
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
    let sources = Sources::default();
    let capacity = sources.capacity(Some(&config.state_dir))?;
    let machine = MachineFacts { unified: layout.kind() == LayoutKind::V2, swap_on: capacity.swap_bytes > 0 };
    let problems = settings.refused_on(machine);
    if !problems.is_empty() {
        return Err(HierarchyError::Refused { problems });
    }
    for set in kernel_settings(settings, &KernelSettings::default())? {
        let message = format!("{} from {} to {}", set.name, set.found, set.wanted);
        info!("kernel setting changed: {message}");
        let detail = Detail::Hierarchy { reason: "KernelSettingChanged".into(), message };
        journal.append(Timestamp::now(), "", None, detail);
    }
    let (kind, driver_from) = driver_kind(config, runtime);
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
    let (mut own_levels, damaged) = OwnLevels::open(&config.state_dir);
    let unwritten = match settings.cgroups_per_qos {
        true => own_levels.record_missing(&manager, &levels).err(),
        false => None,
    };
    for problem in [damaged, unwritten].into_iter().flatten() {
        warn!("{problem}: levels of earlier settings may stay");
    }
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
        in_use: config
            .runtime_endpoint
            .as_ref()
            .map(|endpoint| in_use(endpoint, config.pods.runtime_request_timeout, runtime)),
        sources,
        capacity: watch::Sender::new(Arc::new(capacity)),
        facts,
        levels,
        files,
        namer,
        manager,
        owned,
        own_levels,
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

/// Checks or sets the kernel settings that a kubelet wants, as `protectKernelDefaults` says. Returns those
/// that were set.
///
/// A kubelet sets them when the key is absent. This agent does so only when asked: what it changes in the
/// machine, it leaves as it was when it ends, and these settings outlive it.
///
/// # Errors
/// With true, a setting differs; with false, one cannot be set.
fn kernel_settings(
    settings: &NodeSettings,
    kernel: &KernelSettings,
) -> Result<Vec<KernelSetting>, HierarchyError> {
    let refused = |protect| move |problems| HierarchyError::KernelSettings { protect, problems };
    match settings.protect_kernel_defaults {
        Some(true) => kernel.check().map(|()| Vec::new()).map_err(refused(true)),
        Some(false) => kernel.set().map_err(refused(false)),
        None => {
            let (differences, _) = kernel.differences();
            if !differences.is_empty() {
                let shown: Vec<_> = differences
                    .iter()
                    .map(|own| format!("{} = {} (is {})", own.name, own.wanted, own.found))
                    .collect();
                info!(
                    "a kubelet would set {}; protectKernelDefaults: false does that here too",
                    shown.join(", ")
                );
            }
            Ok(Vec::new())
        }
    }
}

/// The driver that the runtime reports (KEP-4033), else the one that it reported last if it does not answer,
/// else the configured one, and where it comes from.
fn driver_kind(config: &Config, runtime: &tokio::runtime::Handle) -> (DriverKind, &'static str) {
    let configured = config.node.cgroup_driver;
    let (mut last, damaged) = LastDriver::open(&config.state_dir);
    let answer = config.runtime_endpoint.as_ref().map_or(Answer::NotReported, |endpoint| {
        let client = Client::new(endpoint).with_request_limit(DRIVER_LIMIT);
        match runtime.block_on(client.cgroup_driver()) {
            Ok(Some(kind)) => Answer::Driver(kind),
            Ok(None) => Answer::NotReported,
            Err(error) => {
                let known = last.get().map_or("the configured one", |_| "the one that it reported last");
                warn!(%error, "the runtime does not report its cgroup driver: taking {known}");
                Answer::Silent
            }
        }
    });
    for problem in [damaged, last.note(answer).err()].into_iter().flatten() {
        warn!("{problem}: if the runtime does not answer at a start, the configured cgroup driver is taken");
    }
    let (kind, from) = last_driver::choose(answer, last.get(), configured);
    if kind != configured {
        info!(driver = %kind, %configured, from, "the cgroup driver is not the configured one");
    }
    (kind, from)
}

/// Asks the runtime which pods it has anything of, each call for at most `limit`. The answer waits for a task
/// of `runtime`, which may end before.
fn in_use(endpoint: &Endpoint, limit: Duration, runtime: &tokio::runtime::Handle) -> InUse {
    let (client, runtime) = (Client::new(endpoint).with_request_limit(limit), runtime.clone());
    Box::new(move || {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let client = client.clone();
        runtime.spawn(async move {
            // The receiver waits as long as this runs.
            let _ = answer.send(client.list().await);
        });
        Some(uids(&answered.recv().ok()?.ok()?))
    })
}

/// The uids of the pods that sandboxes and containers belong to.
fn uids(listing: &Listing) -> BTreeSet<String> {
    let label = |labels: &Labels| labels.get(POD_UID).cloned();
    let sandboxes = listing.sandboxes.iter().flat_map(|sandbox| {
        let named = sandbox.metadata.as_ref().map(|metadata| metadata.uid.clone());
        named.into_iter().chain(label(&sandbox.labels))
    });
    sandboxes.chain(listing.containers.iter().filter_map(|container| label(&container.labels))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_hangs_is_asked_for_no_longer_than_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cri.sock");
        // It accepts the connection and says nothing.
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let endpoint = Endpoint::parse(&socket.to_string_lossy()).unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let _inside = runtime.enter();
        let (done, is_done) = std::sync::mpsc::channel();
        let ask = in_use(&endpoint, Duration::from_millis(100), runtime.handle());
        std::thread::spawn(move || done.send(ask()));
        let found = is_done.recv_timeout(Duration::from_secs(30)).expect("it has a limit");
        assert_eq!(found, None, "it does not say that there is nothing");
    }

    /// Writes into a tree of its own: the machine's settings stay as they are.
    #[test]
    fn kernel_settings_are_checked_set_or_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, value: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, value).unwrap();
        };
        let read = || std::fs::read_to_string(root.path().join("vm/overcommit_memory")).unwrap();
        for (name, value) in [
            ("vm/overcommit_memory", "0"),
            ("vm/panic_on_oom", "0"),
            ("kernel/panic", "10"),
            ("kernel/panic_on_oops", "1"),
            ("kernel/keys/root_maxkeys", "1000000"),
            ("kernel/keys/root_maxbytes", "25000000"),
        ] {
            write(name, value);
        }
        let kernel = KernelSettings::below(root.path());
        let protect =
            |protect_kernel_defaults| NodeSettings { protect_kernel_defaults, ..NodeSettings::default() };
        assert_eq!(kernel_settings(&protect(None), &kernel).unwrap(), []);
        assert_eq!(read(), "0");
        let refused = kernel_settings(&protect(Some(true)), &kernel).unwrap_err().to_string();
        assert_eq!(
            refused,
            "protectKernelDefaults is true:\n  invalid kernel flag: vm/overcommit_memory, expected value: 1, actual \
             value: 0"
        );
        assert_eq!(read(), "0");
        assert_eq!(kernel_settings(&protect(Some(false)), &kernel).unwrap().len(), 1);
        assert_eq!(read(), "1");
        assert_eq!(kernel_settings(&protect(Some(true)), &kernel).unwrap(), []);
    }
}
