//! The CRI configuration of one container (kubelet `generateContainerConfig`).

use std::net::IpAddr;

use nodewarden_proto::runtime::v1 as cri;

use super::env::{self, Environment};
use super::files::ContainerFiles;
use super::mounts::{self, Mounts};
use super::{Host, SpecError, container_resources, labels, security};
use crate::objects::PodObjects;
use crate::paths::PodPaths;
use crate::spec::DeviceInjection;
use nodewarden_manifest::Pod;
use nodewarden_manifest::{find, signal};

/// The facts about a run of a container that are known just before it is created.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// Number of earlier runs of this container in the pod: CRI's `attempt`, and part of the log file's name.
    pub attempt: u32,
    /// The pod's addresses; empty on the host network.
    pub ips: &'a [IpAddr],
    /// The container's image, which defines the default user.
    pub image: &'a cri::Image,
    /// The runtime's reference to the image.
    pub image_ref: &'a str,
    /// What the allocated devices add.
    pub injection: &'a DeviceInjection,
    /// What the pod and the container name of the API server's objects.
    pub objects: &'a PodObjects,
}

/// The configuration of the container `name`, and the files that must be created before the container is.
/// Touches no disk.
///
/// # Errors
/// A field of the manifest cannot be honoured on this node.
pub fn plan_container(
    pod: &Pod,
    name: &str,
    beginning: &Beginning<'_>,
    host: &Host,
) -> Result<(cri::ContainerConfig, ContainerFiles), SpecError> {
    // On the host network the pod's addresses are those of the node.
    let on_node = pod.host_network && beginning.ips.is_empty();
    let ips = if on_node { host.host_ips } else { beginning.ips };
    let (config, mounts) = configured(pod, name, &Beginning { ips, ..*beginning }, host)?;
    Ok((config, ContainerFiles::new(name, ips, mounts)))
}

/// Messages of events about keys of `envFrom` that are no names of variables and are left out.
pub fn skipped_variables(pod: &Pod, name: &str, objects: &PodObjects) -> Vec<String> {
    find(pod, name).map(|(container, _)| env::skipped(pod, &container, objects)).unwrap_or_default()
}

/// The configuration and its mounts.
fn configured(
    pod: &Pod,
    name: &str,
    beginning: &Beginning<'_>,
    host: &Host,
) -> Result<(cri::ContainerConfig, Mounts), SpecError> {
    let Beginning { attempt, ips, image, image_ref, injection, objects } = *beginning;
    let (container, asked) =
        find(pod, name).ok_or_else(|| SpecError::NoContainer { name: name.to_owned() })?;
    let container = &*container;
    let mut environment = Environment::of(pod, container, ips, host, objects)?;
    let mounts = mounts::mounts(pod, container, attempt, ips, &environment, host)?;
    // The command of the manifest can refer to these variables, the manifest's own variables cannot.
    environment.add_before(&injection.envs);
    let stop = container.lifecycle.as_ref().and_then(|l| l.stop_signal.as_deref());
    let stop_signal = match stop.filter(|name| !name.is_empty()) {
        None => cri::Signal::RuntimeDefault.into(),
        Some(name) => signal(name).ok_or_else(|| SpecError::Signal { signal: name.to_owned() })?,
    };
    let command = environment.expand_all("command", container.command.as_ref())?;
    let args = environment.expand_all("args", container.args.as_ref())?;
    let config = cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: name.to_owned(), attempt }),
        image: Some(cri::ImageSpec {
            image: image_ref.to_owned(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command,
        args,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: environment
            .into_pairs()
            .into_iter()
            .map(|(key, value)| cri::KeyValue { key, value: value.into_bytes() })
            .collect(),
        mounts: injection.mounts().chain(mounts.mounts.iter().cloned()).collect(),
        devices: injection.devices().collect(),
        labels: labels::container_labels(pod, name, host),
        annotations: injection
            .annotations()
            .chain(labels::container_annotations(pod, container, attempt))
            .collect(),
        log_path: PodPaths::log_name(name, attempt),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(container_resources(pod, asked, host)),
            security_context: Some(security::container(pod, container, image, host)?),
        }),
        cdi_devices: injection.cdi.iter().map(|name| cri::CdiDevice { name: name.clone() }).collect(),
        stop_signal,
    };
    Ok((config, mounts))
}

#[cfg(test)]
mod tests;
