//! The cgroups of the agent, of the runtime and of other processes of the machine, from the settings.

use std::path::PathBuf;

use nodewarden_config::Config;
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::cgroup::control::{Driver, DriverKind, GroupFiles, Limits, Manager, Presence};
use nodewarden_machine::node::daemons::{Daemons, Place as DaemonCgroup, Runtime, System};

use super::HierarchyError;

/// The cgroups named in the settings, created if they are missing.
///
/// # Errors
/// A cgroup of the settings is missing and cannot be created.
pub fn daemons(config: &Config, manager: &Manager, files: &dyn Driver) -> Result<Daemons, HierarchyError> {
    let settings = &config.node;
    let place =
        |field: &'static str, path: &Option<String>| -> Result<Option<DaemonCgroup>, HierarchyError> {
            let Some(path) = path else { return Ok(None) };
            if manager.presence(path) != Presence::Everywhere {
                make(manager, files, field, path)?;
            }
            let all = GroupFiles::new(std::sync::Arc::new(manager.layout().clone()));
            Ok(Some(DaemonCgroup::new(all.directories(path).map(|(_, dir)| dir).collect())))
        };
    let agent = place("kubeletCgroups", &settings.kubelet_cgroups)?;
    let runtime = place("nodewarden.runtimeCgroups", &settings.runtime_cgroups)?;
    let system = place("systemCgroups", &settings.system_cgroups)?;
    let socket = config.runtime_endpoint.as_ref().map(|e| e.path().to_owned());
    Ok(Daemons {
        agent_score: settings.oom_score_adj,
        agent,
        runtime: socket.and_then(|socket| runtime.map(|place| Runtime { socket, place })),
        system: system.map(|place| System { root: root(manager.layout()), place }),
    })
}

/// Creates a cgroup through its files, as the kubelet does. The cgroup of a unit is created by systemd only.
fn make(
    manager: &Manager,
    files: &dyn Driver,
    field: &'static str,
    path: &str,
) -> Result<(), HierarchyError> {
    let unit = path.ends_with(".service") || path.ends_with(".slice") || path.ends_with(".scope");
    if manager.kind() == DriverKind::Systemd && unit {
        let hint = " (start the unit)";
        return Err(HierarchyError::Missing { field, value: path.to_owned(), missing: Vec::new(), hint });
    }
    Ok(files.create(path, &Limits::default())?)
}

/// The root cgroup whose processes are moved to `systemCgroups`: that of the v1 devices hierarchy, as in the
/// kubelet, else v2's.
fn root(layout: &Layout) -> PathBuf {
    let devices = layout.all().find(|h| h.mount.file_name().is_some_and(|name| name == "devices"));
    let unified = layout.unified();
    let any = layout.hierarchies().first();
    devices.or(unified).or(any).map(|h| h.mount.clone()).unwrap_or_default()
}
