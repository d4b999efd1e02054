//! One container (kubelet `generateContainerConfig`).

use std::net::IpAddr;

use nodewarden_proto::runtime::v1 as cri;

use super::env::Environment;
use super::mounts::{self, Mounts};
use super::{Host, SpecError, container_resources, files, labels, security};
use crate::paths::PodPaths;
use crate::spec::DeviceInjection;
use nodewarden_manifest::Pod;
use nodewarden_manifest::{find, signal};

/// What is known when a container is about to be started.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    pub attempt: u32,
    /// The pod's addresses; none for one on the node's network.
    pub ips: &'a [IpAddr],
    /// The container's image, by which the user is known that it runs as.
    pub image: &'a cri::Image,
    /// What the runtime calls it.
    pub image_ref: &'a str,
    /// What comes with its devices.
    pub injection: &'a DeviceInjection,
}

/// What the runtime is told of the container `name`. Makes what is mounted into it, on the disk: the log directory, the
/// file of its termination message, the pod's hosts file, parts of volumes.
///
/// Blocks on the disk for a moment; may be called again.
///
/// # Errors
/// What of the manifest cannot be done here; files that cannot be made.
pub fn container_config(
    pod: &Pod,
    name: &str,
    beginning: &Beginning<'_>,
    host: &Host,
) -> Result<cri::ContainerConfig, SpecError> {
    // On the node's network the pod's addresses are the node's.
    let on_node = pod.spec.host_network.unwrap_or(false) && beginning.ips.is_empty();
    let ips = if on_node { host.host_ips } else { beginning.ips };
    let (config, mounts) = told(pod, name, &Beginning { ips, ..*beginning }, host)?;
    files::make(pod, name, ips, &mounts, host)?;
    Ok(config)
}

/// The same without touching the disk.
fn told(
    pod: &Pod,
    name: &str,
    beginning: &Beginning<'_>,
    host: &Host,
) -> Result<(cri::ContainerConfig, Mounts), SpecError> {
    let Beginning { attempt, ips, image, image_ref, injection } = *beginning;
    let (container, asked) =
        find(pod, name).ok_or_else(|| SpecError::NoContainer { name: name.to_owned() })?;
    let mut environment = Environment::of(pod, container, ips, host)?;
    let mounts = mounts::mounts(pod, container, attempt, ips, &environment, host)?;
    // Of no use to what stands in the manifest's own variables, but to its command.
    environment.add_before(&injection.envs);
    let stop = container.lifecycle.as_ref().and_then(|l| l.stop_signal.as_deref());
    let stop_signal = match stop.filter(|name| !name.is_empty()) {
        None => cri::Signal::RuntimeDefault.into(),
        Some(name) => signal(name).ok_or_else(|| SpecError::Signal { signal: name.to_owned() })?,
    };
    let config = cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: name.to_owned(), attempt }),
        image: Some(cri::ImageSpec {
            image: image_ref.to_owned(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command: environment.expand_all(container.command.as_ref()),
        args: environment.expand_all(container.args.as_ref()),
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
#[path = "config_tests.rs"]
mod tests;
