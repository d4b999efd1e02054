//! Reservations: devices that are marked while their plugins are called.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Weak};

use nodewarden_model::{DevicesPerNuma, Health};

use super::super::checkpoint::PodDevicesEntry;
use super::DeviceAllocations;
use super::plan::PodPlan;
use super::plugins::Listed;

/// Devices of a pod for which plugins are being called. They are not free until the reservation is committed
/// or cancelled; dropping it cancels it too, so that a task that is ended during an allocation leaves nothing
/// reserved.
#[derive(Debug)]
#[must_use = "dropping it cancels it"]
pub struct Reservation {
    token: Arc<()>,
    uid: String,
    /// Containers in the order of the demand.
    order: Vec<String>,
    grants: Vec<Grant>,
}

/// The devices of one resource for one container.
#[derive(Debug)]
struct Grant {
    container: String,
    resource: String,
    devices: DevicesPerNuma,
}

/// One call of Allocate: all devices of one resource for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub container: String,
    pub resource: String,
    pub devices: BTreeSet<String>,
}

/// The plan is outdated; the pod has to be planned again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("device {id} of {resource} is no longer free and healthy")]
    Device { resource: String, id: String },
    #[error("the plugin of {resource} is not connected")]
    Plugin { resource: String },
    #[error("the devices of pod {uid} have changed")]
    Pod { uid: String },
}

/// What [`DeviceAllocations`] keeps of a reservation.
#[derive(Debug)]
pub(super) struct OpenReservation {
    /// Dangling once the [`Reservation`] was dropped.
    token: Weak<()>,
    pub uid: String,
    /// Device ids by resource. Devices that the pod has already are included: if the pod loses them
    /// meanwhile, no other pod gets them.
    devices: Vec<(String, BTreeSet<String>)>,
}

impl Reservation {
    /// The calls to make, by container and then by resource: for newly chosen devices, and for devices whose
    /// plugin has not answered yet.
    pub fn requests(&self) -> Vec<Request> {
        let each = self.grants.iter().map(|grant| Request {
            container: grant.container.clone(),
            resource: grant.resource.clone(),
            devices: grant.devices.values().flatten().cloned().collect(),
        });
        each.collect()
    }
}

impl OpenReservation {
    fn alive(&self) -> bool {
        self.token.strong_count() > 0
    }

    /// The ids of a resource that are reserved.
    pub fn marked(&self, resource: &str) -> impl Iterator<Item = &String> {
        let of = self.devices.iter().filter(move |(name, _)| name == resource);
        of.flat_map(|(_, ids)| ids)
    }
}

impl DeviceAllocations {
    /// Reserves a plan's devices; choices that are still open are made without asking plugins.
    ///
    /// # Errors
    /// Something that the plan is based on has changed. Nothing is reserved then.
    pub fn reserve(&mut self, mut plan: PodPlan) -> Result<Reservation, Conflict> {
        plan.complete();
        self.open.retain(OpenReservation::alive);
        self.check(&plan)?;
        let token = Arc::new(());
        let devices = plan.slots.iter().map(|slot| (slot.resource.clone(), slot.devices.clone())).collect();
        self.open.push(OpenReservation { token: Arc::downgrade(&token), uid: plan.uid.clone(), devices });
        let grants = plan.slots.iter().map(|slot| {
            let container = plan.members[slot.member].name.clone();
            let had = self.table.get(&plan.uid, &container, &slot.resource);
            let devices = self.by_node(&slot.resource, &slot.devices, had);
            Grant { container, resource: slot.resource.clone(), devices }
        });
        let grants = grants.collect();
        let order = plan.members.into_iter().take(plan.demanded).map(|member| member.name);
        Ok(Reservation { token, uid: plan.uid, order: order.collect(), grants })
    }

    /// Allocates the reserved devices to the pod, with the plugins' answers by container and resource
    /// (encoded `ContainerAllocateResponse`); if one is missing, the next plan asks that plugin again.
    ///
    /// Returns `false`, and allocates nothing, if the reservation is void: its pod was released, or one of
    /// its devices was found in a running container.
    pub fn commit(
        &mut self,
        reservation: Reservation,
        mut responses: BTreeMap<(String, String), Vec<u8>>,
    ) -> bool {
        if !self.close(&reservation) {
            return false;
        }
        let Reservation { uid, order, grants, .. } = reservation;
        for Grant { container, resource, devices } in grants {
            let key = (container, resource);
            let alloc_resp = responses.remove(&key);
            let (container_name, resource_name) = key;
            self.table.put(Arc::new(PodDevicesEntry {
                pod_uid: uid.clone(),
                container_name,
                resource_name,
                device_ids: devices,
                alloc_resp,
            }));
        }
        self.table.order(&uid, &order);
        true
    }

    /// Frees the reserved devices, after a plugin's call has failed.
    pub fn cancel(&mut self, reservation: Reservation) {
        self.close(&reservation);
    }

    /// The reserved ids of a resource.
    pub(super) fn reserved(&self, resource: &str) -> HashSet<&str> {
        let alive = self.open.iter().filter(|open| open.alive());
        alive.flat_map(|open| open.marked(resource)).map(String::as_str).collect()
    }

    /// Ends a reservation. Returns `false` if it was void.
    fn close(&mut self, reservation: &Reservation) -> bool {
        let ours = |open: &OpenReservation| open.token.as_ptr() == Arc::as_ptr(&reservation.token);
        self.open.extract_if(.., |open| ours(open)).count() > 0
    }

    fn check(&self, plan: &PodPlan) -> Result<(), Conflict> {
        let has = self.table.of_pod(&plan.uid);
        let same = has.len() == plan.had.len()
            && has.iter().zip(&plan.had).all(|(held, (container, resource, ids))| {
                held.container_name == *container && held.resource_name == *resource && held.ids() == *ids
            });
        if !same || self.open.iter().any(|open| open.uid == plan.uid) {
            return Err(Conflict::Pod { uid: plan.uid.clone() });
        }
        for slot in &plan.slots {
            let resource = self.resources.get(&slot.resource).filter(|resource| resource.ready());
            let Some(resource) = resource else {
                return Err(Conflict::Plugin { resource: slot.resource.clone() });
            };
            let reserved = self.reserved(&slot.resource);
            let free = |id: &&String| {
                !self.table.is_allocated(&slot.resource, id) && !reserved.contains(id.as_str())
            };
            let own = plan.had.iter().find(|(container, resource, _)| {
                *container == plan.members[slot.member].name && *resource == slot.resource
            });
            let given = slot.devices.iter().filter(|id| !own.is_some_and(|own| own.2.contains(*id)));
            let mut unhealthy = given.filter(|id| resource.health(id) != Health::Healthy);
            if let Some(id) = unhealthy.next().or_else(|| slot.new.iter().find(|id| !free(id))) {
                return Err(Conflict::Device { resource: slot.resource.clone(), id: id.clone() });
            }
        }
        Ok(())
    }

    /// Groups ids by NUMA node: as the plugin lists them, else as the container had them, else under -1.
    fn by_node(
        &self,
        resource: &str,
        ids: &BTreeSet<String>,
        had: Option<&PodDevicesEntry>,
    ) -> DevicesPerNuma {
        let list = self.resources.get(resource).map(|resource| &resource.devices);
        let mut by_node = DevicesPerNuma::new();
        for id in ids {
            let listed = list.and_then(|list| list.get(id));
            let mut nodes: Vec<i64> = match (listed, had) {
                (Some(Listed { numa, .. }), _) => numa.iter().copied().collect(),
                (None, Some(had)) => {
                    let with = had.device_ids.iter().filter(|(_, ids)| ids.contains(id));
                    with.map(|(node, _)| *node).collect()
                }
                (None, None) => Vec::new(),
            };
            if nodes.is_empty() {
                nodes.push(-1);
            }
            for node in nodes {
                by_node.entry(node).or_default().insert(id.clone());
            }
        }
        by_node
    }
}
