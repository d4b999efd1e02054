//! Where the agent, the runtime and everything else on the machine belong, from the settings.

use std::path::PathBuf;

use nodewarden_config::Config;
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::cgroup::control::{Driver, DriverKind, GroupFiles, Limits, Manager, Presence};
use nodewarden_machine::node::daemons::{Daemons, Place, Runtime, System};

use super::ManageError;

/// The places of the settings; they exist afterwards.
///
/// # Errors
/// A cgroup of the settings is missing and cannot be made.
pub fn daemons(config: &Config, manager: &Manager, files: &dyn Driver) -> Result<Daemons, ManageError> {
    let settings = &config.node;
    let place = |field: &'static str, path: &Option<String>| -> Result<Option<Place>, ManageError> {
        let Some(path) = path else { return Ok(None) };
        if manager.presence(path) != Presence::Everywhere {
            make(manager, files, field, path)?;
        }
        let all = GroupFiles::new(std::sync::Arc::new(manager.layout().clone()));
        Ok(Some(Place::new(all.directories(path).map(|(_, dir)| dir).collect())))
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

/// By files alone, as the kubelet does; a unit's cgroup is systemd's to make.
fn make(manager: &Manager, files: &dyn Driver, field: &'static str, path: &str) -> Result<(), ManageError> {
    let unit = path.ends_with(".service") || path.ends_with(".slice") || path.ends_with(".scope");
    if manager.kind() == DriverKind::Systemd && unit {
        let hint = " (start the unit)";
        return Err(ManageError::Missing { field, value: path.to_owned(), missing: Vec::new(), hint });
    }
    Ok(files.create(path, &Limits::default())?)
}

/// The root cgroup whose processes `systemCgroups` takes: that of the v1 devices hierarchy, as for the kubelet, else v2's.
fn root(layout: &Layout) -> PathBuf {
    let devices = layout.all().find(|h| h.mount.file_name().is_some_and(|name| name == "devices"));
    let unified = layout.unified();
    let any = layout.hierarchies().first();
    devices.or(unified).or(any).map(|h| h.mount.clone()).unwrap_or_default()
}
