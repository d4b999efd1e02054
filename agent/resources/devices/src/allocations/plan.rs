//! Plans: which devices each container of a pod gets. A plan contains everything that it needs, so that
//! plugins can be asked for preferences without holding the lock.

mod hints;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodewarden_model::Health;
use nodewarden_topology::NodeSet;

use super::numa::{self, Want};
use super::plugins::{List, Resource};
use super::{ContainerKind, DeviceAllocations, PodDemand};
use crate::Refusal;

/// The devices of a pod, chosen in part or completely. Nothing is reserved yet.
#[derive(Debug, Clone)]
pub struct PodPlan {
    pub(super) uid: String,
    /// What the pod had when it was planned: container, resource and device ids.
    pub(super) had: Vec<(String, String, BTreeSet<String>)>,
    /// Containers of the demand in their order, then other containers that have devices.
    pub(super) members: Vec<Member>,
    /// How many of them belong to the demand.
    pub(super) demanded: usize,
    /// The allocations for which plugins will be called.
    pub(super) slots: Vec<Slot>,
    /// Index of the first slot that is not filled.
    next: usize,
    /// So many slots may be filled; the containers of the others were not begun ([`PodPlan::begin`]).
    begun: usize,
    pub(super) pools: BTreeMap<String, Pool>,
}

/// One container of the pod.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub name: String,
    /// `None` for a container outside of the demand, whose devices are not touched.
    kind: Option<ContainerKind>,
    /// Device ids by resource; grows as slots are filled.
    has: BTreeMap<String, BTreeSet<String>>,
}

/// One resource of one container.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub member: usize,
    pub resource: String,
    wanted: usize,
    /// All devices that the container will have of the resource.
    pub devices: BTreeSet<String>,
    /// The devices among them that no container of the pod had.
    pub new: BTreeSet<String>,
    /// From which NUMA nodes devices are taken first; `None`: from any.
    nodes: Option<NodeSet>,
}

/// A resource as it was when the pod was planned.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub list: Arc<List>,
    /// Ids that are healthy, free, and not yet taken by this plan.
    free: BTreeSet<String>,
}

/// A choice for which a plugin may state its preference (`PreferredAllocationRequest`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The container.
    pub container: String,
    /// The extended resource.
    pub resource: String,
    /// Ids to choose from, sorted; those of `must_include` among them.
    pub available: Vec<String>,
    /// Ids that are fixed, sorted: what the container has, and what it takes over from init containers.
    pub must_include: Vec<String>,
    /// How many devices the container will have, those of `must_include` included.
    pub size: usize,
}

impl DeviceAllocations {
    /// Plans a pod. Containers keep the devices that they have, whatever their health, and also while the
    /// plugin is not connected; the plugin is needed only for new devices, and for devices without its
    /// answer.
    ///
    /// # Errors
    /// Reports one resource, the first by name: one that no plugin has registered, else one whose plugin is
    /// not connected, else one with too few free devices.
    pub fn plan(&self, demand: &PodDemand) -> Result<PodPlan, Refusal> {
        let mut plan = self.plan_by_container(demand)?;
        plan.begun = plan.slots.len();
        plan.advance();
        Ok(plan)
    }

    /// As [`Self::plan`], for containers that are given their devices one by one ([`PodPlan::begin`]).
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub fn plan_by_container(&self, demand: &PodDemand) -> Result<PodPlan, Refusal> {
        let plan = self.draft(demand);
        let needed: BTreeSet<&str> = plan.slots.iter().map(|slot| slot.resource.as_str()).collect();
        let name = |resource: &&str| (*resource).to_owned();
        if let Some(resource) = needed.iter().find(|name| self.is_unknown(name)).map(name) {
            return Err(Refusal::Unknown { resource });
        }
        let ready = |name: &str| self.resources.get(name).is_some_and(Resource::ready);
        if let Some(resource) = needed.iter().find(|name| !ready(name)).map(name) {
            return Err(Refusal::NotReady { resource });
        }
        // The trial is needed only where devices are passed on, or are too few.
        if needed.iter().any(|resource| plan.needed_at_most(resource) > plan.free(resource)) {
            let mut trial = plan.clone();
            trial.begun = trial.slots.len();
            trial.complete();
            for resource in needed {
                let wanted = trial.wanted_new(resource);
                let free = plan.free(resource);
                if wanted > free {
                    let known = self.resources.get(resource);
                    let capacity = known.map_or(0, Resource::capacity);
                    let unhealthy = capacity - known.map_or(0, Resource::healthy);
                    let resource = resource.to_owned();
                    return Err(Refusal::Insufficient { resource, wanted, free, capacity, unhealthy });
                }
            }
        }
        Ok(plan)
    }

    /// Whether the resource was never registered, and no pod has devices of it according to a checkpoint or
    /// the runtime.
    fn is_unknown(&self, resource: &str) -> bool {
        !self.resources.contains_key(resource) && !self.table.has_resource(resource)
    }

    fn draft(&self, demand: &PodDemand) -> PodPlan {
        let member = |name: &str, kind| Member { name: name.to_owned(), kind, has: BTreeMap::new() };
        let mut members: Vec<_> = demand.containers.iter().map(|c| member(&c.name, Some(c.kind))).collect();
        let demanded = members.len();
        let mut had = Vec::new();
        for held in self.table.of_pod(&demand.uid) {
            let at = members.iter().position(|m| m.name == held.container_name).unwrap_or_else(|| {
                members.push(member(&held.container_name, None));
                members.len() - 1
            });
            let ids = held.ids();
            members[at].has.insert(held.resource_name.clone(), ids.clone());
            had.push((held.container_name.clone(), held.resource_name.clone(), ids));
        }
        let mut slots = Vec::new();
        for (at, container) in demand.containers.iter().enumerate() {
            for (resource, &wanted) in container.wanted.iter().filter(|(_, wanted)| **wanted > 0) {
                let allocation = self.table.get(&demand.uid, &container.name, resource);
                let has = members[at].has.get(resource).cloned().unwrap_or_default();
                if has.len() < wanted || allocation.is_none_or(|a| a.alloc_resp.is_none()) {
                    let (resource, new) = (resource.clone(), BTreeSet::new());
                    slots.push(Slot { member: at, resource, wanted, devices: has, new, nodes: None });
                }
            }
        }
        let mut pools = BTreeMap::new();
        for name in demand.containers.iter().flat_map(|own| own.wanted.keys()) {
            if let Some(resource) = self.resources.get(name)
                && !pools.contains_key(name)
            {
                let pool = Pool { list: resource.devices.clone(), free: self.free(name, resource) };
                pools.insert(name.clone(), pool);
            }
        }
        PodPlan { uid: demand.uid.clone(), had, members, demanded, slots, next: 0, begun: 0, pools }
    }

    fn free(&self, name: &str, resource: &Resource) -> BTreeSet<String> {
        let reserved = self.reserved(name);
        let free = resource.devices.iter().filter(|(id, device)| {
            let healthy = device.health == Health::Healthy;
            healthy && !self.table.is_allocated(name, id) && !reserved.contains(id.as_str())
        });
        free.map(|(id, _)| id.clone()).collect()
    }
}

impl PodPlan {
    /// Whether everything is allocated already, with the plugins' answers, so that nothing has to be
    /// reserved.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The next choice for which a plugin may be asked, by container and then by resource; `None` when all is
    /// chosen. There is no choice if only as many devices are free as are needed.
    pub fn question(&self) -> Option<Question> {
        let slot = self.slots.get(self.next).filter(|_| self.next < self.begun)?;
        let free = self.allowed(slot)?;
        Some(Question {
            container: self.members[slot.member].name.clone(),
            resource: slot.resource.clone(),
            available: slot.devices.union(&free).cloned().collect(),
            must_include: slot.devices.iter().cloned().collect(),
            size: slot.wanted,
        })
    }

    /// Answers the question: takes the preferred devices that are available, in their order, and chooses the
    /// rest with [`numa::pick`]. Does nothing without a question.
    pub fn choose(&mut self, preferred: &[String]) {
        let Some(slot) = self.slots.get(self.next).filter(|_| self.next < self.begun) else { return };
        if !preferred.is_empty() {
            let Some(allowed) = self.allowed(slot) else { return };
            for id in preferred.iter().filter(|id| allowed.contains(*id)) {
                if self.slots[self.next].need() > 0 && self.pool_has(self.next, id) {
                    self.take(self.next, id.clone());
                }
            }
        }
        for id in self.pick(self.next, false) {
            self.take(self.next, id);
        }
        self.close();
        self.advance();
    }

    /// Lets a container be given its devices, from these NUMA nodes first; those before it must have theirs.
    /// Nodes do not count for a resource none of whose devices has one (kubelet `filterByAffinity`).
    pub fn begin(&mut self, container: &str, nodes: Option<NodeSet>) {
        let Some(member) = self.members.iter().position(|own| own.name == container) else { return };
        for slot in self.slots.iter_mut().filter(|slot| slot.member == member) {
            let has_nodes = self.pools.get(&slot.resource).is_some_and(Pool::has_nodes);
            slot.nodes = nodes.filter(|_| has_nodes);
        }
        let begun = self.slots.iter().rposition(|slot| slot.member == member).map_or(0, |last| last + 1);
        self.begun = self.begun.max(begun);
        self.advance();
    }

    /// The free devices of a slot's nodes.
    fn aligned(&self, slot: &Slot) -> BTreeSet<String> {
        let (Some(nodes), Some(pool)) = (slot.nodes, self.pools.get(&slot.resource)) else {
            return BTreeSet::new();
        };
        pool.free.iter().filter(|id| !pool.nodes_of(id).and(nodes).is_empty()).cloned().collect()
    }

    /// The devices that a slot can be given: those of its nodes where they are enough, else all free ones.
    fn allowed(&self, slot: &Slot) -> Option<BTreeSet<String>> {
        let aligned = self.aligned(slot);
        if slot.need() > 0 && aligned.len() >= slot.need() {
            return Some(aligned);
        }
        self.pools.get(&slot.resource).map(|pool| pool.free.clone())
    }

    fn pool_has(&self, at: usize, id: &str) -> bool {
        self.pools.get(&self.slots[at].resource).is_some_and(|pool| pool.free.contains(id))
    }

    /// Makes all choices that are left, without preferences.
    pub fn complete(&mut self) {
        self.advance();
        self.begun = self.slots.len();
        self.advance();
        while self.next < self.slots.len() {
            self.choose(&[]);
        }
    }

    /// Fills slots up to the first one that leaves a choice.
    fn advance(&mut self) {
        while let Some(slot) = self.slots.get(self.next).filter(|_| self.next < self.begun) {
            if slot.need() > 0 {
                for id in self.pick(self.next, true) {
                    self.slots[self.next].devices.insert(id);
                }
            }
            // As the kubelet: where the nodes have not more than is needed, all of theirs are taken first.
            let aligned = self.aligned(&self.slots[self.next]);
            if aligned.len() <= self.slots[self.next].need() {
                aligned.into_iter().for_each(|id| self.take(self.next, id));
            }
            let slot = &self.slots[self.next];
            let free = self.pools.get(&slot.resource).map(|pool| &pool.free);
            if slot.need() > 0 && free.is_some_and(|free| free.len() > slot.need()) {
                return;
            }
            if slot.need() > 0 {
                for id in free.cloned().unwrap_or_default() {
                    self.take(self.next, id);
                }
            }
            self.close();
        }
    }

    /// Marks the slot as filled: its container has these devices from here on.
    fn close(&mut self) {
        let slot = &self.slots[self.next];
        self.members[slot.member].has.insert(slot.resource.clone(), slot.devices.clone());
        self.next += 1;
    }

    fn take(&mut self, at: usize, id: String) {
        let slot = &mut self.slots[at];
        if let Some(pool) = self.pools.get_mut(&slot.resource) {
            pool.free.remove(&id);
        }
        slot.take(id);
    }

    /// Chooses the devices that a slot still needs: devices of its own pod (`reuse`), or free ones.
    fn pick(&self, at: usize, reuse: bool) -> Vec<String> {
        let member = self.slots[at].member;
        let mut near = BTreeMap::new();
        let filled =
            self.members[member].has.iter().chain([(&self.slots[at].resource, &self.slots[at].devices)]);
        for (resource, ids) in filled {
            let list = self.pools.get(resource).map(|pool| &pool.list);
            let nodes = ids.iter().filter_map(|id| Some(&list?.get(id)?.numa)).flatten();
            nodes.for_each(|node| *near.entry(*node).or_default() += 1);
        }
        let of_container =
            self.slots.iter().enumerate().skip(at).take_while(|(_, slot)| slot.member == member);
        let wants = of_container.filter_map(|(i, slot)| {
            let pool = self.pools.get(&slot.resource)?;
            let mut ids = if i > at || reuse { self.reusable(slot) } else { BTreeSet::new() };
            let mut need = slot.need();
            if i == at && reuse {
                need = need.min(ids.len());
            } else {
                let aligned = self.aligned(slot);
                let all = aligned.is_empty() || aligned.len() < need;
                ids.extend(pool.free.iter().filter(|id| all || aligned.contains(*id)).map(String::as_str));
            }
            let candidate = |id| (id, pool.list.get(id).map(|device| &device.numa));
            Some(Want { need, candidates: ids.into_iter().map(candidate).collect() })
        });
        numa::pick(&wants.collect::<Vec<_>>(), &near).into_iter().map(str::to_owned).collect()
    }

    /// The healthy devices that a container may take over within its pod: a regular container and a sidecar
    /// what init containers before them had and no other such container has; an init container also what
    /// later containers have, since it has ended before they start.
    fn reusable(&self, slot: &Slot) -> BTreeSet<&str> {
        use ContainerKind::{Init, Regular, Sidecar};
        let me = slot.member;
        let (mut passed_on, mut in_use) = (BTreeSet::new(), BTreeSet::new());
        for (i, other) in self.members.iter().enumerate().filter(|(i, _)| *i != me) {
            let passes = match (self.members[me].kind, other.kind) {
                (Some(Init), Some(Init | Regular)) => true,
                (Some(Init), Some(Sidecar)) => i > me,
                (Some(Sidecar | Regular), Some(Init)) => i < me,
                _ => false,
            };
            let ids = other.has.get(&slot.resource).into_iter().flatten().map(String::as_str);
            if passes { passed_on.extend(ids) } else { in_use.extend(ids) }
        }
        let list = self.pools.get(&slot.resource).map(|pool| &pool.list);
        passed_on.retain(|id| {
            let healthy = list.and_then(|list| list.get(*id)).is_some_and(|d| d.health == Health::Healthy);
            healthy && !in_use.contains(id) && !slot.devices.contains(*id)
        });
        passed_on
    }

    /// How many devices of a resource are healthy, free and not taken by this plan.
    fn free(&self, resource: &str) -> usize {
        self.pools.get(resource).map_or(0, |pool| pool.free.len())
    }

    /// How many devices of a resource the pod's containers lack, if none is passed on between them.
    fn needed_at_most(&self, resource: &str) -> usize {
        let slots = self.slots.iter().filter(|slot| slot.resource == resource);
        slots.map(Slot::need).fold(0, usize::saturating_add)
    }

    /// How many devices of a resource the pod needs in addition to its own, once the plan is completed as far
    /// as possible. Missing devices are passed on from init containers too.
    fn wanted_new(&self, resource: &str) -> usize {
        let (mut wanted, mut passed_on) = (0usize, 0usize);
        for slot in self.slots.iter().filter(|slot| slot.resource == resource) {
            let missing = slot.need();
            wanted = wanted.saturating_add(slot.new.len()).saturating_add(missing.saturating_sub(passed_on));
            passed_on = match self.members[slot.member].kind {
                Some(ContainerKind::Init) => passed_on.max(missing),
                _ => passed_on.saturating_sub(missing),
            };
        }
        wanted
    }
}

impl Pool {
    /// Whether any device of the resource has a NUMA node (kubelet `deviceHasTopologyAlignment`).
    pub(super) fn has_nodes(&self) -> bool {
        self.list.values().any(|device| !device.numa.is_empty())
    }

    /// The NUMA nodes of a device; empty if none is known.
    pub(super) fn nodes_of(&self, id: &str) -> NodeSet {
        let numa = self.list.get(id).map(|device| &device.numa);
        numa.into_iter().flatten().filter_map(|node| u32::try_from(*node).ok()).collect()
    }
}

impl Slot {
    /// How many devices are still to be chosen.
    fn need(&self) -> usize {
        self.wanted.saturating_sub(self.devices.len())
    }

    fn take(&mut self, id: String) {
        self.devices.insert(id.clone());
        self.new.insert(id);
    }
}
