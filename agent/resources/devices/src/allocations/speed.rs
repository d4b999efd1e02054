//! Measures how long a pod's allocation takes on a full node. Run it with
//! `cargo test --release -p nodewarden-devices allocations::speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use super::*;
use crate::types::{ContainerDemand, Device};

fn demand(uid: String, resource: String, wanted: usize) -> PodDemand {
    let wanted = [(resource, wanted)].into();
    let container = ContainerDemand { name: "main".to_owned(), kind: ContainerKind::Regular, wanted };
    PodDemand { uid, containers: vec![container] }
}

/// Answers of 200 bytes: as long as one with a device node, a mount and three variables.
fn answers(reservation: &Reservation) -> BTreeMap<(String, String), Vec<u8>> {
    let requests = reservation.requests().into_iter();
    requests.map(|request| ((request.container, request.resource), vec![b'e'; 200])).collect()
}

#[test]
#[ignore = "a measurement: run it in release mode"]
fn one_pod_more_with_1000_devices_in_10_resources_and_200_pods() {
    let mut allocations = DeviceAllocations::new(Duration::from_secs(300));
    let resource = |n: usize| format!("vendor{n}.example.com/accelerator");
    for n in 0..10 {
        allocations.register(&resource(n), 1);
        let device = |i: usize| Device {
            id: format!("GPU-8dd8b9a2-{n:04x}-4a6b-9c3f-{i:012x}"),
            health: Health::Healthy,
            numa: [i as i64 % 2].into(),
        };
        allocations.devices(&resource(n), 1, (0..100).map(device).collect());
    }
    for i in 0..200 {
        let uid = format!("5b2a7f30-11c4-4d9e-a1b0-{i:012x}");
        let plan = allocations.plan(&demand(uid, resource(i % 10), 4)).unwrap();
        let reservation = allocations.reserve(plan).unwrap();
        let answers = answers(&reservation);
        assert!(allocations.commit(reservation, answers));
    }

    let (mut sums, mut plans, mut commits, mut takes, mut writes) = (vec![], vec![], vec![], vec![], vec![]);
    let mut bytes = 0;
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = crate::checkpoint::CheckpointFile::new(dir.path());
    let mut saves = vec![];
    for i in 0..2000 {
        let uid = format!("one-more-{i}");
        let demand = demand(uid.clone(), resource(i % 10), 4);
        let started = Instant::now();
        let mut plan = allocations.plan(&demand).unwrap();
        while let Some(question) = plan.question() {
            plan.choose(&question.available[..question.size]);
        }
        let reservation = allocations.reserve(plan).unwrap();
        let planned = started.elapsed();
        let answers = answers(&reservation);
        let answered = Instant::now();
        assert!(allocations.commit(reservation, answers));
        let committed = answered.elapsed();
        let checkpoint = allocations.checkpoint();
        let taken = answered.elapsed() - committed;
        bytes = checkpoint.to_bytes().len();
        let written = answered.elapsed() - committed - taken;
        sums.push(planned + answered.elapsed());
        plans.push(planned);
        commits.push(committed);
        takes.push(taken);
        writes.push(written);
        let started = Instant::now();
        file.save(&checkpoint).unwrap();
        saves.push(started.elapsed());
        allocations.release(&uid);
    }
    show("plan, one question, reserve", plans);
    show("commit", commits);
    show("checkpoint", takes);
    show(&format!("its {bytes} bytes with their checksum"), writes);
    show("all of it", sums);
    show("instead of bytes: saved to memory, by what was written before", saves);
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{what}: p50 {p50:?}, p99 {p99:?}, slowest {:?}", times[times.len() - 1]);
}
