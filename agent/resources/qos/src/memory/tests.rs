use super::super::fixture::{GIB, MIB, Machine, V2};
use super::*;

/// The table in KEP-2570: pages of 1 MiB, a limit of 1000 MiB.
#[test]
fn memory_high_has_the_values_of_the_kep() {
    let mut machine = Machine::new(V2);
    machine.facts.page_size = MIB;
    for (factor, request, wanted) in [
        (0.9, 0, Some(900)),
        (0.9, 100, Some(910)),
        (0.9, 500, Some(950)),
        (0.9, 900, Some(990)),
        (0.9, 1000, None),
        (0.6, 500, Some(800)),
        (0.6, 800, Some(920)),
        (0.8, 850, Some(970)),
        (0.4, 500, Some(700)),
        (1.0, 500, Some(1000)),
    ] {
        machine.settings.memory_throttling_factor = factor;
        let high = high(request * MIB, 1000 * MIB, 0, machine.node());
        assert_eq!(high, wanted.map(|n| n * MIB), "{factor} {request}");
    }
}

#[test]
fn memory_high_without_a_limit_depends_on_allocatable_memory() {
    let mut machine = Machine::new(V2);
    machine.facts.page_size = MIB;
    assert_eq!(high(0, 0, GIB, machine.node()), None, "Kubernetes 1.35 sets none for BestEffort");
    assert_eq!(high(24 * MIB, 0, 1024 * MIB, machine.node()), Some(924 * MIB));
    assert_eq!(high(2 * GIB, 0, GIB, machine.node()), None, "the request exceeds the allocatable memory");
    assert_eq!(high(MIB, 0, 0, machine.node()), None, "the allocatable memory is unknown");
    machine.settings.memory_reservation = MemoryReservation::None;
    assert_eq!(high(0, 0, 1000 * MIB, machine.node()), Some(900 * MIB));
}
