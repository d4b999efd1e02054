//! Who has what: the kubelet's answer, joined with what the plugins answered it (its checkpoint) and with CDI
//! files. Pure.
//!
//! PodResources names devices by the plugins' ids. Which device nodes these are is nowhere in it: the plugin
//! said so in its answer to Allocate, which the kubelet keeps in its checkpoint, as nodes or as names of CDI
//! devices.

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_model::{DevicesPerNuma, HostDevice};
use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use prost::Message;

use super::cdi::Cdi;
use super::kubelet::Answer;
use crate::checkpoint::{Checkpoint, PodDevicesEntry};
use crate::policy::Access;

/// Annotations that ask a runtime for CDI devices begin so (plugins for kubelets before 1.28).
const CDI_ANNOTATION: &str = "cdi.k8s.io/";

/// A device node that a container was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its path on the machine, its type and its numbers now.
    pub device: HostDevice,
    pub access: Access,
    /// The container has it for sure. What the configuration adds to a resource, only some of its containers
    /// may have.
    pub certain: bool,
}

/// What a container has of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The pod's uid; empty if neither the API server nor the checkpoint tells it.
    pub uid: String,
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// The resource, or `claim NAMESPACE/NAME`.
    pub resource: String,
    pub ids: DevicesPerNuma,
    pub grants: Vec<Grant>,
    /// Paths that it was given where there is nothing now.
    pub missing: Vec<String>,
    /// Why its device nodes are not known.
    pub unknown: Option<String>,
}

/// What ids are resolved with.
pub struct Sources<'a> {
    pub checkpoint: Option<&'a Checkpoint>,
    pub cdi: &'a Cdi,
    /// What the configuration adds to resources.
    pub extra: &'a BTreeMap<String, Vec<HostDevice>>,
    /// The uid of the pod of this namespace and name.
    pub uid: &'a dyn Fn(&str, &str) -> Option<String>,
    /// The device node at a path, or those in a directory; `None` if nothing is there.
    pub nodes: &'a dyn Fn(&str) -> Option<Vec<HostDevice>>,
}

/// What every container has, in the order of the answer.
pub fn held(answer: &Answer, sources: &Sources<'_>) -> Vec<Held> {
    let mut all = Vec::new();
    for pod in &answer.pods {
        let uid = (sources.uid)(&pod.namespace, &pod.name);
        for container in &pod.containers {
            let own = |uid: String, resource: &str, ids: DevicesPerNuma, resolved: Resolved| Held {
                uid,
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                container: container.name.clone(),
                resource: resource.to_owned(),
                ids,
                grants: resolved.grants,
                missing: resolved.missing,
                unknown: resolved.unknown,
            };
            for (resource, ids) in &container.devices {
                let entry = sources.entry(uid.as_deref(), &container.name, resource, ids);
                let uid = uid.clone().or_else(|| entry.map(|entry| entry.pod_uid.clone()));
                let resolved = sources.of_plugin(resource, entry);
                all.push(own(uid.unwrap_or_default(), resource, ids.clone(), resolved));
            }
            for (claim, names) in &container.claims {
                let ids = DevicesPerNuma::from([(-1, names.iter().cloned().collect())]);
                let mut resolved = Resolved::default();
                resolved.add_cdi(names, sources);
                all.push(own(uid.clone().unwrap_or_default(), claim, ids, resolved));
            }
        }
    }
    all
}

/// What ids were resolved to.
#[derive(Debug, Default)]
struct Resolved {
    grants: Vec<Grant>,
    missing: Vec<String>,
    unknown: Option<String>,
}

impl Sources<'_> {
    /// The entry of the checkpoint with the same ids.
    fn entry(
        &self,
        uid: Option<&str>,
        container: &str,
        resource: &str,
        ids: &DevicesPerNuma,
    ) -> Option<&PodDevicesEntry> {
        let wanted = crate::types::all_ids(ids);
        let mut entries = self.checkpoint?.entries.iter().map(|entry| &**entry);
        entries.find(|entry| {
            entry.container_name == container
                && entry.resource_name == resource
                && uid.is_none_or(|uid| uid == entry.pod_uid)
                && entry.ids() == wanted
        })
    }

    fn of_plugin(&self, resource: &str, entry: Option<&PodDevicesEntry>) -> Resolved {
        let mut resolved = Resolved::default();
        let extra = self.extra.get(resource).into_iter().flatten();
        let encoded = entry.and_then(|entry| entry.alloc_resp.as_deref());
        match encoded.map(ContainerAllocateResponse::decode) {
            Some(Ok(response)) => resolved.add_response(&response, self),
            Some(Err(error)) => {
                resolved.unknown = Some(format!("its plugin's answer in the checkpoint: {error}"));
            }
            None => {
                resolved.unknown =
                    Some("the kubelet's checkpoint does not have its plugin's answer".to_owned());
            }
        }
        let mut has_extra = false;
        for device in extra {
            has_extra = true;
            resolved.grants.push(Grant { device: device.clone(), access: Access::ALL, certain: false });
        }
        let names_none = resolved.grants.is_empty() && resolved.missing.is_empty();
        if names_none && resolved.unknown.is_none() && !has_extra {
            resolved.unknown = Some("its plugin named no device nodes".to_owned());
        }
        resolved
    }
}

impl Resolved {
    fn add(&mut self, path: &str, access: Access, sources: &Sources<'_>) {
        match (sources.nodes)(path) {
            Some(found) => {
                let grant = |device| Grant { device, access, certain: true };
                self.grants.extend(found.into_iter().map(grant));
            }
            None => self.missing.push(path.to_owned()),
        }
    }

    fn add_response(&mut self, response: &ContainerAllocateResponse, sources: &Sources<'_>) {
        for device in &response.devices {
            self.add(&device.host_path, Access::parse(&device.permissions), sources);
        }
        // A mount may bring device nodes, but need not: where there is none, nothing is missing.
        for mount in &response.mounts {
            let access = if mount.read_only { Access::READ } else { Access::READ_WRITE };
            for device in (sources.nodes)(&mount.host_path).into_iter().flatten() {
                self.grants.push(Grant { device, access, certain: true });
            }
        }
        let mut names: BTreeSet<String> = response.cdi_devices.iter().map(|own| own.name.clone()).collect();
        for (_, listed) in response.annotations.iter().filter(|(key, _)| key.starts_with(CDI_ANNOTATION)) {
            names.extend(listed.split(',').map(|name| name.trim().to_owned()));
        }
        self.add_cdi(&names.into_iter().collect::<Vec<_>>(), sources);
    }

    fn add_cdi(&mut self, names: &[String], sources: &Sources<'_>) {
        for name in names {
            let Some(nodes) = sources.cdi.nodes(name) else {
                self.unknown = Some(format!("no CDI file has {name}"));
                continue;
            };
            for node in nodes {
                match &node.device {
                    Some(device) => {
                        self.grants.push(Grant {
                            device: device.clone(),
                            access: node.access,
                            certain: true,
                        });
                    }
                    None => self.add(&node.path, node.access, sources),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
