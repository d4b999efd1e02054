//! Tables of cases: every transition of a probe, and the results of all states of a container's probes.

use super::*;
use crate::probes::engine::fixture::spec;
use nodewarden_manifest::HandlerKind;

const S: Verdict = Verdict::Success;
const F: Verdict = Verdict::Failure;

fn probe_state(result: Option<Verdict>, last: Option<Verdict>, run: u32) -> ProbeState {
    ProbeState { result, last, run }
}

#[test]
fn transitions() {
    let mut spec = spec(ProbeKind::Readiness, HandlerKind::HttpGet);
    (spec.success_threshold, spec.failure_threshold) = (2, 3);
    // Columns: state before, verdict of the run, state after, changed result, whether the state must be
    // saved.
    let cases = [
        ((None, None, 0), S, (None, Some(S), 1), None, true),
        ((None, None, 0), F, (None, Some(F), 1), None, true),
        ((None, Some(S), 1), S, (Some(S), Some(S), 2), Some(S), true),
        ((None, Some(S), 1), F, (None, Some(F), 1), None, true),
        ((None, Some(F), 1), F, (None, Some(F), 2), None, true),
        ((None, Some(F), 2), F, (Some(F), Some(F), 3), Some(F), true),
        ((None, Some(F), 2), S, (None, Some(S), 1), None, true),
        ((Some(S), Some(S), 2), S, (Some(S), Some(S), 3), None, false),
        ((Some(S), Some(S), 9), F, (Some(S), Some(F), 1), None, true),
        ((Some(S), Some(F), 1), F, (Some(S), Some(F), 2), None, true),
        ((Some(S), Some(F), 2), F, (Some(F), Some(F), 3), Some(F), true),
        // The row is interrupted: an agent with the old state would continue counting it.
        ((Some(S), Some(F), 2), S, (Some(S), Some(S), 1), None, true),
        ((Some(F), Some(F), 3), F, (Some(F), Some(F), 4), None, false),
        ((Some(F), Some(F), 3), S, (Some(F), Some(S), 1), None, true),
        ((Some(F), Some(S), 1), S, (Some(S), Some(S), 2), Some(S), true),
        ((Some(F), Some(S), 1), F, (Some(F), Some(F), 1), None, true),
        ((Some(F), Some(F), u32::MAX), F, (Some(F), Some(F), u32::MAX), None, false),
    ];
    for ((result, last, run), seen, after, changed, saved) in cases {
        let before = probe_state(result, last, run);
        let mut now = before;
        assert_eq!(take(&spec, &mut now, seen), changed, "{before:?}, then {seen:?}");
        assert_eq!(now, probe_state(after.0, after.1, after.2), "{before:?}, then {seen:?}");
        assert_eq!(differs(&before, &now), saved, "{before:?}, then {seen:?}");
    }
}

#[test]
fn thresholds_of_one() {
    let mut spec = spec(ProbeKind::Liveness, HandlerKind::Exec);
    (spec.success_threshold, spec.failure_threshold) = (1, 1);
    let mut now = ProbeState::default();
    for (seen, changed) in [(S, Some(S)), (S, None), (F, Some(F)), (F, None), (S, Some(S))] {
        assert_eq!(take(&spec, &mut now, seen), changed);
    }
}

/// A container with these probes (startup, readiness, liveness) and results.
fn case(asked: [Option<Option<Verdict>>; 3]) -> (Vec<ProbeSpec>, ProbeMemory) {
    let mut memory = ProbeMemory::new("id");
    let mut specs = Vec::new();
    for (kind, asked) in ProbeKind::ALL.into_iter().zip(asked) {
        let Some(result) = asked else { continue };
        specs.push(spec(kind, HandlerKind::HttpGet));
        memory.of_mut(kind).result = result;
    }
    (specs, memory)
}

#[test]
fn started_and_ready() {
    let (none, unknown, s, f) = (None, Some(None), Some(Some(S)), Some(Some(F)));
    // Columns: startup, readiness and liveness; started and ready.
    for (probes, is_started, is_ready) in [
        ([none, none, none], true, true),
        ([none, none, f], true, true),
        ([none, unknown, none], true, false),
        ([none, f, none], true, false),
        ([none, s, none], true, true),
        ([unknown, none, none], false, false),
        ([f, none, none], false, false),
        ([s, none, none], true, true),
        ([s, unknown, none], true, false),
        ([s, s, unknown], true, true),
        // No order of runs leads to this state, but a file might contain it.
        ([unknown, s, s], false, false),
        ([f, s, s], false, false),
    ] {
        let (specs, memory) = case(probes);
        assert_eq!(started(&specs, &memory), is_started, "{probes:?}");
        assert_eq!(ready(&specs, &memory), is_ready, "{probes:?}");
    }
}

#[test]
fn failures_that_restart() {
    let (none, unknown, s, f) = (None, Some(None), Some(Some(S)), Some(Some(F)));
    for (probes, wanted) in [
        ([none, none, none], None),
        ([unknown, unknown, unknown], None),
        ([s, f, s], None),
        ([f, unknown, unknown], Some(ProbeKind::Startup)),
        ([s, s, f], Some(ProbeKind::Liveness)),
        ([f, none, f], Some(ProbeKind::Liveness)),
    ] {
        let (specs, memory) = case(probes);
        assert_eq!(failed(&specs, &memory), wanted, "{probes:?}");
    }
    // The saved state of a probe that the manifest does not have is ignored.
    let mut memory = ProbeMemory::new("id");
    (memory.liveness.result, memory.startup.result) = (Some(F), Some(F));
    assert_eq!(failed(&[], &memory), None);
    assert!(started(&[], &memory) && ready(&[], &memory));
}

#[test]
fn waiting() {
    let (none, unknown, s, f) = (None, Some(None), Some(Some(S)), Some(Some(F)));
    // Columns: the probes, whether the pod terminates, and what each probe waits for.
    for (probes, ending, startup, readiness, liveness) in [
        ([none, unknown, unknown], false, None, None, None),
        ([none, f, s], false, None, None, None),
        ([none, s, f], false, None, None, Some(NEW_CONTAINER)),
        ([unknown, unknown, unknown], false, None, Some(STARTUP), Some(STARTUP)),
        ([f, unknown, unknown], false, Some(NEW_CONTAINER), Some(NEW_CONTAINER), Some(NEW_CONTAINER)),
        ([s, unknown, unknown], false, Some(NEW_CONTAINER), None, None),
        ([s, f, f], false, Some(NEW_CONTAINER), None, Some(NEW_CONTAINER)),
        ([none, s, s], true, None, None, Some(END)),
        ([s, s, s], true, Some(END), None, Some(END)),
        // The container has not started, and will not start any more.
        ([unknown, unknown, unknown], true, Some(END), Some(STARTUP), Some(END)),
    ] {
        let (specs, memory) = case(probes);
        for (kind, wanted) in ProbeKind::ALL.into_iter().zip([startup, readiness, liveness]) {
            if specs.iter().any(|spec| spec.kind == kind) {
                assert_eq!(waits(kind, &specs, &memory, ending), wanted, "{kind:?} of {probes:?}");
            }
        }
    }
}
