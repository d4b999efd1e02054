//! What is read back from disk: the device checkpoint, the resource managers' state, pods' records, the
//! journal.

use nodewarden_model::Event;

use crate::text;

/// The kubelet's device checkpoint: what is accepted is written, and read as the same.
pub fn checkpoint(input: &[u8]) {
    let verified = nodewarden_devices::fuzzing::checkpoint(input);
    let unverified = nodewarden_devices::fuzzing::checkpoint_unverified(input);
    assert!(verified.is_none() || verified == unverified);
    if let Some(written) = unverified {
        let [first, again] = written.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert_eq!(first, again);
    }
}

/// The kubelet's state of CPUs: what is accepted is written, and read as the same.
pub fn cpu_manager_state(input: &[u8]) {
    let Some(input) = text(input) else { return };
    let verified = nodewarden_cpus::fuzzing::state_file(input);
    same_again(verified, nodewarden_cpus::fuzzing::state_file_unverified(input));
}

/// The kubelet's state of memory: what is accepted is written, and read as the same.
pub fn memory_manager_state(input: &[u8]) {
    let Some(input) = text(input) else { return };
    let verified = nodewarden_memory_blocks::fuzzing::state_file(input);
    same_again(verified, nodewarden_memory_blocks::fuzzing::state_file_unverified(input));
}

fn same_again(verified: Option<[String; 2]>, unverified: Option<[String; 2]>) {
    assert!(verified.is_none() || verified == unverified);
    if let Some([first, again]) = unverified {
        assert_eq!(first, again);
    }
}

/// A pod's record: what is accepted is written, and read as the same.
pub fn record(input: &[u8]) {
    if let Some([first, again]) = nodewarden_lifecycle::fuzzing::record(input) {
        assert_eq!(first, again);
    }
}

/// A file of the journal: numbers increase, and each event is the same after it was packed and after it was
/// written.
pub fn journal(input: &[u8]) {
    let (events, skipped, next) = nodewarden_storage::fuzzing::journal(input);
    let lines = input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    assert!(events.len() as u64 + skipped <= lines as u64);
    assert!(events.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert!(events.last().is_none_or(|last| last.seq < next || last.seq == u64::MAX));
    for event in &events {
        let (packed, left) = nodewarden_storage::fuzzing::repacked(event);
        assert_eq!((&packed, left), (event, 0));
        let json = serde_json::to_string(event).expect("an event is written as JSON");
        assert!(text(json.as_bytes()).is_some_and(|line| !line.contains('\n')));
        assert_eq!(serde_json::from_str::<Event>(&json).ok().as_ref(), Some(event), "{json}");
    }
}
