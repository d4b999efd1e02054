//! The mounts of a container (kubelet `makeMounts`).

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{self, VolumeMount};
use nodewarden_proto::runtime::v1 as cri;

use super::env::Environment;
use super::error::RecursiveReadOnlyFault;
use super::hosts::HOSTS;
use super::labels::termination_message_path;
use super::{Host, SpecError};
use nodewarden_manifest::volume_source::Source;
use nodewarden_manifest::{Expander, Pod};

/// PATH_MAX: no path is longer.
const LONGEST_PATH: usize = 4096;

/// The `subPath` of a volume that is mounted instead of the whole volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubPath {
    pub(super) volume: String,
    /// The volume's directory.
    pub(super) root: PathBuf,
    /// Path below the volume's directory.
    pub(super) path: String,
    /// Whether the volume is a `hostPath`, whose file system may be one that never answers.
    pub(super) foreign: bool,
    /// Path at which it is bound; the runtime mounts this path.
    pub(super) target: PathBuf,
}

/// Mounts of a container, and what has to be created before.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mounts {
    pub(super) mounts: Vec<cri::Mount>,
    pub(super) sub_paths: Vec<SubPath>,
    /// Whether the pod's hosts file is among them.
    pub(super) hosts: bool,
    pub(super) termination_log: PathBuf,
}

pub(super) fn mounts(
    pod: &Pod,
    container: &v1::Container,
    attempt: u32,
    ips: &[IpAddr],
    environment: &Environment,
    host: &Host,
) -> Result<Mounts, SpecError> {
    let (spec, paths) = (pod.spec(), host.paths(pod));
    let termination_log = paths.termination_log(&container.name, attempt);
    let mut all = Mounts { mounts: Vec::new(), sub_paths: Vec::new(), hosts: false, termination_log };
    let wanted = container.volume_mounts.as_deref().unwrap_or_default();
    for (index, mount) in wanted.iter().enumerate() {
        let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name);
        let source = volume.and_then(Source::of).ok_or_else(|| SpecError::NoVolume {
            volume: mount.name.clone(),
            container: container.name.clone(),
        })?;
        let root = paths.source(source, &mount.name);
        let host_path = match sub_path(mount, environment)? {
            None => root,
            Some(path) => {
                let target = paths.sub_path(&mount.name, &container.name, index);
                let volume = mount.name.clone();
                let foreign = source.is_foreign();
                all.sub_paths.push(SubPath { volume, root, path, foreign, target: target.clone() });
                target
            }
        };
        all.mounts.push(cri::Mount {
            container_path: absolute(&mount.mount_path),
            host_path: host_path.display().to_string(),
            readonly: mount.read_only.unwrap_or(false) || source.is_read_only(),
            selinux_relabel: source.is_managed(),
            propagation: propagation(mount)?.into(),
            recursive_read_only: recursive_read_only(mount, host)?,
        });
    }
    let own = |path: &str| wanted.iter().any(|mount| mount.mount_path == path);
    all.hosts = (!ips.is_empty() || pod.host_network) && !own(HOSTS);
    if all.hosts {
        all.mounts.push(file(&paths.hosts(), HOSTS));
    }
    all.mounts.push(file(&all.termination_log, termination_message_path(container)));
    Ok(all)
}

/// The mount of a file of the pod, such as its hosts file.
fn file(host_path: &Path, container_path: &str) -> cri::Mount {
    cri::Mount {
        container_path: container_path.to_owned(),
        host_path: host_path.display().to_string(),
        readonly: false,
        selinux_relabel: true,
        propagation: cri::MountPropagation::PropagationPrivate.into(),
        recursive_read_only: false,
    }
}

/// Makes the path absolute.
fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// `subPath`, or the expanded `subPathExpr`, all of whose variables must be set.
fn sub_path(mount: &VolumeMount, environment: &Environment) -> Result<Option<String>, SpecError> {
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let Some(expression) = set(&mount.sub_path_expr) else { return Ok(set(&mount.sub_path)) };
    let missing = std::cell::RefCell::new(None);
    let path = Expander::new(LONGEST_PATH).expand(&expression, |name| {
        let value = environment.get(name);
        if value.is_none() {
            missing.borrow_mut().get_or_insert_with(|| name.to_owned());
        }
        value
    });
    match (missing.into_inner(), path) {
        (Some(name), _) => Err(SpecError::SubPathVariable { name, expression }),
        (None, Ok(path)) => Ok(Some(path).filter(|path| !path.is_empty())),
        (None, Err(source)) => Err(SpecError::SubPathTooLong { expression, source }),
    }
}

fn propagation(mount: &VolumeMount) -> Result<cri::MountPropagation, SpecError> {
    match mount.mount_propagation.as_deref() {
        None | Some("None") => Ok(cri::MountPropagation::PropagationPrivate),
        Some("HostToContainer") => Ok(cri::MountPropagation::PropagationHostToContainer),
        Some("Bidirectional") => Ok(cri::MountPropagation::PropagationBidirectional),
        Some(mode) => Err(SpecError::Propagation { mode: mode.to_owned() }),
    }
}

/// Kubelet `resolveRecursiveReadOnly` (KEP-3857).
fn recursive_read_only(mount: &VolumeMount, host: &Host) -> Result<bool, SpecError> {
    let asked = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(false),
        asked => asked == Some("Enabled"),
    };
    let fault = |why| SpecError::RecursiveReadOnly { volume: mount.name.clone(), why };
    if !mount.read_only.unwrap_or(false) {
        return Err(fault(RecursiveReadOnlyFault::NotReadOnly));
    }
    match mount.mount_propagation.as_deref() {
        None | Some("None") => {}
        Some(mode) => return Err(fault(RecursiveReadOnlyFault::Propagation(mode.to_owned()))),
    }
    match host.recursive_read_only {
        false if asked => Err(fault(RecursiveReadOnlyFault::Unsupported)),
        can => Ok(can),
    }
}

#[cfg(test)]
mod tests;
