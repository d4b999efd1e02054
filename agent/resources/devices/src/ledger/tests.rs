//! The rules one by one. The cases of allocation, reuse and capacity are those of the kubelet's `manager_test.go`.

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

use ContainerKind::{Init, Ordinary, Sidecar};

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

/// With one plugin that lists these.
fn with(resource: &str, devices: Vec<Device>) -> Ledger {
    let mut ledger = Ledger::new(GRACE);
    ledger.register(resource, 1);
    assert!(ledger.devices(resource, 1, devices).changed);
    ledger
}

fn container(name: &str, kind: ContainerKind, wanted: &[(&str, usize)]) -> ContainerDemand {
    let wanted = wanted.iter().map(|(resource, n)| ((*resource).to_owned(), *n)).collect();
    ContainerDemand { name: name.to_owned(), kind, wanted }
}

/// A container: name, kind, and what it wants.
type Asks<'a> = (&'a str, ContainerKind, &'a [(&'a str, usize)]);

fn pod(uid: &str, containers: &[Asks<'_>]) -> PodDemand {
    let containers = containers.iter().map(|(name, kind, wanted)| container(name, *kind, wanted));
    PodDemand { uid: uid.to_owned(), containers: containers.collect() }
}

/// A pod with one container, `c`.
fn one(uid: &str, resource: &str, wanted: usize) -> PodDemand {
    pod(uid, &[("c", Ordinary, &[(resource, wanted)])])
}

/// Plans, reserves and commits; every plugin answers with the ids that it was asked for.
fn give(ledger: &mut Ledger, demand: &PodDemand) -> Result<(), Refusal> {
    let plan = ledger.plan(demand)?;
    let reservation = ledger.reserve(plan).unwrap();
    let responses = answers(&reservation);
    assert!(ledger.commit(reservation, responses));
    assert!(ledger.plan(demand).unwrap().is_empty());
    Ok(())
}

fn answers(reservation: &Reservation) -> BTreeMap<(String, String), Vec<u8>> {
    let answer = |request: Request| {
        let ids: Vec<_> = request.devices.into_iter().collect();
        ((request.container, request.resource), ids.join(",").into_bytes())
    };
    reservation.requests().into_iter().map(answer).collect()
}

/// What a container has.
fn has(ledger: &Ledger, uid: &str, container: &str, resource: &str) -> BTreeSet<String> {
    let all = ledger.allocations(uid);
    all.get(container).and_then(|c| c.get(resource)).map(Allocation::ids).unwrap_or_default()
}

fn state(ledger: &Ledger, resource: &str) -> ResourceState {
    ledger.resources().into_iter().find(|r| r.name == resource).unwrap()
}

/// Capacity, allocatable, allocated.
fn numbers(ledger: &Ledger, resource: &str) -> (usize, usize, usize) {
    let state = state(ledger, resource);
    (state.capacity, state.allocatable, state.allocated)
}
