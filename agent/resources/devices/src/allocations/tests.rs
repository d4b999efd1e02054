//! The rules of allocation one by one. The cases of allocation, reuse and capacity are those of the kubelet's
//! `manager_test.go`.

use super::super::types::{ContainerDemand, Device, Refusal};
use super::*;

mod allocate;
mod checkpoint;
mod plugins;
mod reservations;
mod reuse;
mod topology;

const GPU: &str = "domain1.com/gpu";
const NIC: &str = "domain2.com/nic";
const GRACE: Duration = Duration::from_secs(300);

use ContainerKind::{Init, Regular, Sidecar};

fn ids(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|id| (*id).to_owned()).collect()
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|id| (*id).to_owned()).collect()
}

fn device(id: &str, health: Health, numa: &[i64]) -> Device {
    Device { id: id.to_owned(), health, numa: numa.iter().copied().collect() }
}

fn healthy(list: &[&str]) -> Vec<Device> {
    list.iter().map(|id| device(id, Health::Healthy, &[])).collect()
}

/// Allocations with one plugin that lists these devices.
fn with_plugin(resource: &str, devices: Vec<Device>) -> DeviceAllocations {
    let mut allocations = DeviceAllocations::new(GRACE);
    allocations.register(resource, 1);
    assert!(allocations.devices(resource, 1, devices).changed);
    allocations
}

fn container(name: &str, kind: ContainerKind, wanted: &[(&str, usize)]) -> ContainerDemand {
    let wanted = wanted.iter().map(|(resource, n)| ((*resource).to_owned(), *n)).collect();
    ContainerDemand { name: name.to_owned(), kind, wanted }
}

/// A container: name, kind, and the devices that it asks for.
type ContainerSpec<'a> = (&'a str, ContainerKind, &'a [(&'a str, usize)]);

fn pod(uid: &str, containers: &[ContainerSpec<'_>]) -> PodDemand {
    let containers = containers.iter().map(|(name, kind, wanted)| container(name, *kind, wanted));
    PodDemand { uid: uid.to_owned(), containers: containers.collect() }
}

/// A pod with one container, `c`.
fn one(uid: &str, resource: &str, wanted: usize) -> PodDemand {
    pod(uid, &[("c", Regular, &[(resource, wanted)])])
}

/// Plans, reserves and commits; every plugin answers with the ids that it was asked for.
fn give(allocations: &mut DeviceAllocations, demand: &PodDemand) -> Result<(), Refusal> {
    let plan = allocations.plan(demand)?;
    let reservation = allocations.reserve(plan).unwrap();
    let responses = answers(&reservation);
    assert!(allocations.commit(reservation, responses));
    assert!(allocations.plan(demand).unwrap().is_empty());
    Ok(())
}

fn answers(reservation: &Reservation) -> BTreeMap<(String, String), Vec<u8>> {
    let answer = |request: Request| {
        let ids: Vec<_> = request.devices.into_iter().collect();
        ((request.container, request.resource), ids.join(",").into_bytes())
    };
    reservation.requests().into_iter().map(answer).collect()
}

/// The device ids that a container has of a resource.
fn has(allocations: &DeviceAllocations, uid: &str, container: &str, resource: &str) -> BTreeSet<String> {
    let all = allocations.of_pod(uid);
    all.get(container).and_then(|c| c.get(resource)).map(Allocation::ids).unwrap_or_default()
}

fn state(allocations: &DeviceAllocations, resource: &str) -> ResourceState {
    allocations.resources().into_iter().find(|r| r.name == resource).unwrap()
}

/// Capacity, allocatable, allocated.
fn numbers(allocations: &DeviceAllocations, resource: &str) -> (usize, usize, usize) {
    let state = state(allocations, resource);
    (state.capacity, state.allocatable, state.allocated)
}
