//! This machine: its cgroup driver, the limits that it supports, its node name.

use std::path::Path;
use std::sync::Arc;

use super::HierarchyError;
use nodewarden_config::Config;
use nodewarden_machine::cgroup::control::{Cgroupfs, Driver, DriverKind, GroupFiles, Systemd};
use nodewarden_machine::cgroup::{Controller, Layout, Version};
use nodewarden_machine::page::page_bytes;
use nodewarden_qos::{HierarchyFacts, OptionalFiles};

/// The driver that writes cgroups.
///
/// # Errors
/// systemd is configured and is not running.
pub fn driver(
    kind: DriverKind,
    from: &'static str,
    layout: &Arc<Layout>,
) -> Result<Arc<dyn Driver>, HierarchyError> {
    match kind {
        DriverKind::Cgroupfs => Ok(driver_to_name(kind, layout)),
        // sd_booted(3)
        DriverKind::Systemd if !Path::new("/run/systemd/system").is_dir() => {
            Err(HierarchyError::NoSystemd { from })
        }
        DriverKind::Systemd => Ok(driver_to_name(kind, layout)),
    }
}

/// A driver that is used only to compute names and rounded values.
pub fn driver_to_name(kind: DriverKind, layout: &Arc<Layout>) -> Arc<dyn Driver> {
    let files = Cgroupfs::new(layout.clone());
    match kind {
        DriverKind::Cgroupfs => Arc::new(files),
        DriverKind::Systemd => {
            let version = layout.hierarchy(Controller::Memory).map_or(Version::V2, |h| h.version);
            Arc::new(Systemd::new(files, version))
        }
    }
}

/// The limits that this machine supports, found by their files in `kubepods`, or, before it is created, at
/// the root and directly below it.
pub fn facts(layout: &Arc<Layout>, kubepods: &str) -> HierarchyFacts {
    let files = GroupFiles::new(layout.clone());
    let has = |controller, file: &str| {
        let below = |path: &str| files.directory(controller, path).is_some_and(|dir| dir.join(file).exists());
        below(kubepods) || below("/") || below_top(&files, controller, file)
    };
    let optional = OptionalFiles {
        swap: has(Controller::Memory, "memory.swap.max")
            || has(Controller::Memory, "memory.memsw.limit_in_bytes"),
        cpu_idle: has(Controller::Cpu, "cpu.idle"),
        oom_group: has(Controller::Memory, "memory.oom.group"),
    };
    HierarchyFacts::of(layout, optional, page_bytes())
}

/// `nodewarden.nodeName`, else the host name; that of a node of a cluster is in lower case, as a kubelet's.
pub fn node_name(config: &Config) -> String {
    let name = config.node_name.clone().unwrap_or_else(|| {
        nix::unistd::gethostname().ok().and_then(|n| n.into_string().ok()).unwrap_or_default()
    });
    if config.kubernetes.connects() { name.trim().to_lowercase() } else { name }
}

/// Looks below the root, since v2's root lacks most files that any other cgroup has.
fn below_top(files: &GroupFiles, controller: Controller, file: &str) -> bool {
    let Some(top) = files.directory(controller, "/") else { return false };
    let entries = std::fs::read_dir(top).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).any(|e| e.path().join(file).exists())
}
