use proptest::prelude::*;

use super::*;

const MI: u64 = 1 << 20;

fn pod(uid: &str, used: u64, requested: u64) -> PodMemory {
    PodMemory {
        uid: uid.into(),
        directory: PathBuf::from("/c").join(uid),
        used: used * MI,
        requested: requested * MI,
        limit: None,
        stalled: None,
        policy: Policy::default(),
    }
}

fn limits(wanted: &[Wanted]) -> Vec<(&str, u64)> {
    wanted.iter().map(|own| (&*own.pod, own.value.parse::<u64>().unwrap() / MI)).collect()
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn what_is_missing_is_taken_from_those_above_their_requests() {
    let bounds = Bounds::new(100 * MI, 200 * MI);
    let pods = [pod("calm", 90, 100), pod("large", 700, 100), pod("small", 300, 100)];
    let mut control = MemoryControl::default();
    assert_eq!(limits(&control.update(at(0), 300 * MI, bounds, &pods)), []);
    // 80 Mi are missing, three quarters of it from the one that has three times as much above its requests.
    assert_eq!(limits(&control.update(at(1), 220 * MI, bounds, &pods)), [("large", 640), ("small", 280)]);
}

#[test]
fn limits_are_relaxed_in_steps_and_taken_back() {
    let bounds = Bounds::new(100 * MI, 200 * MI);
    let mut control = MemoryControl::default();
    let mut pods = [pod("a", 1000, 100)];
    control.update(at(0), 100 * MI, bounds, &pods);
    pods[0].used = 790 * MI;
    assert_eq!(
        limits(&control.update(at(1), 350 * MI, bounds, &pods)),
        [("a", 800)],
        "between the bounds it stays"
    );
    assert_eq!(limits(&control.update(at(2), 400 * MI, bounds, &pods)), [("a", 800)]);
    assert_eq!(limits(&control.update(at(11), 400 * MI, bounds, &pods)), [("a", 800)]);
    pods[0].used = 810 * MI;
    assert_eq!(limits(&control.update(at(12), 400 * MI, bounds, &pods)), [("a", 1000)], "relaxed");
    assert_eq!(limits(&control.update(at(22), 400 * MI, bounds, &pods)), [], "taken back");
    assert_eq!(limits(&control.update(at(23), 400 * MI, bounds, &pods)), []);
}

#[test]
fn a_stalled_pod_is_given_more() {
    let bounds = Bounds::new(100 * MI, 200 * MI);
    let mut control = MemoryControl::default();
    let mut pods = [pod("a", 1000, 100)];
    assert_eq!(limits(&control.update(at(0), 200 * MI, bounds, &pods)), [("a", 900)]);
    (pods[0].stalled, pods[0].used) = (Some(50.0), 900 * MI);
    assert_eq!(limits(&control.update(at(1), 300 * MI, bounds, &pods)), [("a", 1125)]);
}

#[test]
fn annotations_and_limits_are_kept() {
    let bounds = Bounds::new(100 * MI, 200 * MI);
    let node = Policy::default();
    for (policy, expected) in [
        (Policy { opted_out: true, ..node }, None),
        (Policy { latency_sensitive: true, ..node }, None),
        (Policy { memory_high: MemoryHigh::Off, ..node }, None),
        (Policy { memory_high: MemoryHigh::Fixed(500 * MI), ..node }, Some(500)),
        (Policy { memory_high: MemoryHigh::Fixed(50 * MI), ..node }, Some(100)),
        (Policy { memory_high: MemoryHigh::Fixed(500 * MI), opted_out: true, ..node }, None),
        (Policy { memory_high: MemoryHigh::Fixed(1000 * MI), ..node }, None),
    ] {
        let mut pods = [pod("a", 900, 100)];
        (pods[0].policy, pods[0].limit) = (policy, Some(1000 * MI));
        let found = MemoryControl::default().update(at(0), 0, bounds, &pods);
        assert_eq!(limits(&found).first().map(|(_, limit)| *limit), expected, "{policy:?}");
    }
}

proptest! {
    #[test]
    fn no_pod_is_ever_pressed_below_its_requests(
        readings in prop::collection::vec((0..2000_u64, prop::collection::vec((0..2000_u64, 0..500_u64, 0..100_u32), 3)), 1..20),
    ) {
        let bounds = Bounds::new(100 * MI, 200 * MI);
        let mut control = MemoryControl::default();
        let requests: Vec<u64> = readings[0].1.iter().map(|(_, requested, _)| *requested).collect();
        for (second, (available, pods)) in readings.iter().enumerate() {
            let pods: Vec<PodMemory> = pods.iter().zip(&requests).enumerate().map(|(index, ((used, _, stalled), requested))| {
                PodMemory { stalled: Some(f64::from(*stalled)), ..pod(&index.to_string(), *used, *requested) }
            }).collect();
            if !control.needs_all(available * MI, bounds) {
                let found = control.clone().update(at(second as u64 * 5), available * MI, bounds, &pods);
                prop_assert_eq!(found, [], "without a reading of all pods");
            }
            for wanted in control.update(at(second as u64 * 5), available * MI, bounds, &pods) {
                let own = pods.iter().find(|pod| pod.uid == wanted.pod).unwrap();
                let bytes: u64 = wanted.value.parse().unwrap();
                prop_assert!(bytes >= own.requested && bytes >= LEAST, "{wanted:?} of {own:?}");
                prop_assert_eq!(bytes % PAGE, 0);
            }
        }
    }
}
