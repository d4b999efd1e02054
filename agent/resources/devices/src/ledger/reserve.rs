//! Reservations: the time in which plugins are asked.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Weak};

use super::plan::PodPlan;
use super::plugins::Listed;
use super::{Allocation, Ledger};
use nodewarden_model::{DevicesPerNuma, Health};

/// Devices of a pod that plugins are being asked for. They count as taken until it is committed or cancelled; dropping it
/// cancels it too, so that a task that is ended in the middle of an allocation leaves nothing.
#[derive(Debug)]
#[must_use = "dropping it cancels it"]
pub struct Reservation {
    token: Arc<()>,
    uid: String,
    /// Containers in the order of the demand.
    order: Vec<String>,
    grants: Vec<Grant>,
}

#[derive(Debug)]
struct Grant {
    container: String,
    resource: String,
    devices: DevicesPerNuma,
}

/// One call of Allocate: all devices of one resource that a container is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub container: String,
    pub resource: String,
    pub devices: BTreeSet<String>,
}

/// The plan does not hold any more: plan anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("device {id} of {resource} is not free and healthy any more")]
    Device { resource: String, id: String },
    #[error("the plugin of {resource} has gone")]
    Plugin { resource: String },
    #[error("what pod {uid} has is not what it was")]
    Pod { uid: String },
}

/// The ledger's side of a reservation.
#[derive(Debug)]
pub(super) struct Open {
    /// Of a reservation that is still held by somebody.
    token: Weak<()>,
    pub uid: String,
    /// By resource. What the pod has already is among them: should it lose it meanwhile, nobody else gets it.
    devices: Vec<(String, BTreeSet<String>)>,
}

impl Reservation {
    /// The calls to make, by containers and then by resource: for devices that are given anew, and for those whose plugin
    /// has not answered yet.
    pub fn requests(&self) -> Vec<Request> {
        let each = self.grants.iter().map(|grant| Request {
            container: grant.container.clone(),
            resource: grant.resource.clone(),
            devices: grant.devices.values().flatten().cloned().collect(),
        });
        each.collect()
    }
}

impl Open {
    fn alive(&self) -> bool {
        self.token.strong_count() > 0
    }

    /// The ids of a resource that it marks.
    pub fn marked(&self, resource: &str) -> impl Iterator<Item = &String> {
        let of = self.devices.iter().filter(move |(name, _)| name == resource);
        of.flat_map(|(_, ids)| ids)
    }
}

impl Ledger {
    /// Marks a plan's devices; what it left open is chosen without a plugin's say.
    ///
    /// # Errors
    /// Something that the plan stands on has changed. Nothing is marked then.
    pub fn reserve(&mut self, mut plan: PodPlan) -> Result<Reservation, Conflict> {
        plan.complete();
        self.open.retain(Open::alive);
        self.check(&plan)?;
        let token = Arc::new(());
        let devices = plan.slots.iter().map(|slot| (slot.resource.clone(), slot.devices.clone())).collect();
        self.open.push(Open { token: Arc::downgrade(&token), uid: plan.uid.clone(), devices });
        let grants = plan.slots.iter().map(|slot| {
            let container = plan.members[slot.member].name.clone();
            let had = self.book.get(&plan.uid, &container, &slot.resource);
            let devices = self.by_node(&slot.resource, &slot.devices, had);
            Grant { container, resource: slot.resource.clone(), devices }
        });
        let grants = grants.collect();
        let order = plan.members.into_iter().take(plan.demanded).map(|member| member.name);
        Ok(Reservation { token, uid: plan.uid, order: order.collect(), grants })
    }

    /// The plugins have answered: the devices are the pod's, with the answers by container and resource (encoded
    /// `ContainerAllocateResponse`); without one a plugin is asked again by the next plan.
    ///
    /// `false`, and nothing is allocated, if the reservation is void: its pod was released, or one of its devices was
    /// found in a running container.
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
            let response = responses.remove(&key);
            self.book.put(&uid, &key.0, &key.1, Allocation { devices, response });
        }
        self.book.order(&uid, &order);
        true
    }

    /// A plugin has failed: no device stays marked.
    pub fn cancel(&mut self, reservation: Reservation) {
        self.close(&reservation);
    }

    /// What is marked of a resource.
    pub(super) fn reserved(&self, resource: &str) -> HashSet<&str> {
        let alive = self.open.iter().filter(|open| open.alive());
        alive.flat_map(|open| open.marked(resource)).map(String::as_str).collect()
    }

    /// `false` if it was void.
    fn close(&mut self, reservation: &Reservation) -> bool {
        let ours = |open: &Open| open.token.as_ptr() == Arc::as_ptr(&reservation.token);
        self.open.extract_if(.., |open| ours(open)).count() > 0
    }

    fn check(&self, plan: &PodPlan) -> Result<(), Conflict> {
        let has = self.book.of(&plan.uid);
        let same = has.len() == plan.had.len()
            && has.iter().zip(&plan.had).all(|(held, (container, resource, ids))| {
                held.container == *container && held.resource == *resource && held.allocation.ids() == *ids
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
            let free =
                |id: &&String| !self.book.is_taken(&slot.resource, id) && !reserved.contains(id.as_str());
            let own = plan.had.iter().find(|(container, resource, _)| {
                *container == plan.members[slot.member].name && *resource == slot.resource
            });
            let given = slot.devices.iter().filter(|id| !own.is_some_and(|own| own.2.contains(*id)));
            let mut ill = given.filter(|id| resource.health(id) != Health::Healthy);
            if let Some(id) = ill.next().or_else(|| slot.new.iter().find(|id| !free(id))) {
                return Err(Conflict::Device { resource: slot.resource.clone(), id: id.clone() });
            }
        }
        Ok(())
    }

    /// Ids by NUMA node: as the plugin lists them, else as the container had them, else under -1.
    fn by_node(&self, resource: &str, ids: &BTreeSet<String>, had: Option<&Allocation>) -> DevicesPerNuma {
        let list = self.resources.get(resource).map(|resource| &resource.devices);
        let mut by_node = DevicesPerNuma::new();
        for id in ids {
            let listed = list.and_then(|list| list.get(id));
            let mut nodes: Vec<i64> = match (listed, had) {
                (Some(Listed { numa, .. }), _) => numa.iter().copied().collect(),
                (None, Some(had)) => {
                    let with = had.devices.iter().filter(|(_, ids)| ids.contains(id));
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
