//! What the tests of decisions are made of.

use std::sync::Arc;

use crate::decide::observed::{ContainerSeen, ContainerStage, SandboxSeen};
use crate::decide::published::Published;
use crate::record::Record;
use jiff::Timestamp;
use nodewarden_manifest::Pod;
use nodewarden_manifest::ProbeKind;
pub(crate) use nodewarden_manifest::fixture::pod;
use nodewarden_model::Verdict;
use nodewarden_pods::probes::{ProbeMemory, ProbeState};

pub(crate) fn record(pod: &Arc<Pod>) -> Record {
    Record::new(pod, "/manifests/p.yaml", at(0))
}

/// Seconds after the tests' beginning of time.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(crate) fn sandbox(attempt: u32, ready: bool) -> SandboxSeen {
    SandboxSeen {
        id: format!("s{attempt}").into(),
        attempt,
        ready,
        created: at(i64::from(attempt)),
        ips: Vec::new(),
    }
}

/// In sandbox 0; `c.0` by name and attempt.
pub(crate) fn container(name: &str, attempt: u32, stage: ContainerStage) -> ContainerSeen {
    let begun = at(i64::from(attempt) * 10);
    ContainerSeen {
        id: format!("{name}.{attempt}").into(),
        sandbox: "s0".into(),
        name: name.into(),
        attempt,
        stage,
        created: begun,
        started: (stage != ContainerStage::Created).then_some(begun),
        finished: (stage == ContainerStage::Exited).then_some(at(i64::from(attempt) * 10 + 5)),
        exit_code: 0,
        reason: String::new(),
        message: String::new(),
        image_id: "sha256:1".into(),
        reported: true,
    }
}

/// One that ended 5 s after its attempt's begin.
pub(crate) fn exited(name: &str, attempt: u32, exit_code: i32) -> ContainerSeen {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    ContainerSeen { exit_code, reason: reason.into(), ..container(name, attempt, ContainerStage::Exited) }
}

/// What is published of the probes of a container.
pub(crate) fn published(id: &str, results: &[(ProbeKind, Verdict)]) -> Published {
    let mut published = Published::default();
    let memory = memory(id, results);
    results.iter().for_each(|(kind, _)| published.publish(&memory, *kind));
    published
}

/// Of a container whose probes have come to these results.
pub(crate) fn memory(id: &str, results: &[(ProbeKind, Verdict)]) -> ProbeMemory {
    let mut memory = ProbeMemory::new(id);
    for (kind, verdict) in results {
        *memory.of_mut(*kind) = ProbeState { result: Some(*verdict), last: Some(*verdict), run: 1 };
    }
    memory
}
