use super::*;
use crate::decide::plan::KillReason;
use crate::fixture::{at, memory, pod};
use crate::record::manifest::Manifest;
use crate::record::{ContainerRecord, Ending};
use nodewarden_manifest::ProbeKind;
use nodewarden_model::Verdict;
use nodewarden_model::{Ended, OomVictim};

fn record() -> Record {
    let pod = pod(
        serde_json::json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "500m"}}}]}),
    );
    let mut record = Record::new(&pod, "/manifests/p.yaml", at(0));
    record.note_start(&pod.containers[0], 3);
    let victim = OomVictim { time: at(7), pid: 12, command: "stress".into() };
    let last = Ended {
        id: "c.2".into(),
        exit_code: 137,
        signal: 9,
        reason: "OOMKilled".into(),
        message: "näh".into(),
        started: Some(at(1)),
        finished: Some(at(2)),
        oom: Some(victim.clone()),
    };
    let own = record.containers.get_or_default("c");
    *own = ContainerRecord {
        failures: 4,
        last: Some(Box::new(last)),
        oom: Some(Box::new(("c.3".into(), victim))),
        ..own.clone()
    };
    record.ending = Some(Ending { since: at(9), grace_seconds: 30, why: "its manifest is gone".into() });
    record
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = &dir.path().join("records");
    let (store, records, problems) = Store::open(dir).unwrap();
    assert!(records.is_empty() && problems.is_empty());
    let mut record = record();
    assert!(store.save(&record).unwrap());
    assert!(!store.save(&record).unwrap());
    let (again, records, problems) = Store::open(dir).unwrap();
    assert_eq!(records, [record.clone()]);
    assert!(problems.is_empty());
    // What is there from before is not written again either.
    assert!(!again.save(&record).unwrap());
    record.ending = None;
    assert!(again.save(&record).unwrap());
    assert_eq!(Store::open(dir).unwrap().1, [record]);
    again.remove("u").unwrap();
    again.remove("u").unwrap();
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn a_pod_is_read_from_its_record() {
    let record = record();
    let read = record.manifest.pod(nodewarden_manifest::PodKind::Static).unwrap();
    assert_eq!(Manifest::of(&std::sync::Arc::new(read)), record.manifest);
}

#[test]
fn a_damaged_file_is_set_aside_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    Store::open(dir).unwrap().0.save(&record()).unwrap();
    let good = fs::read_to_string(dir.join("u.json")).unwrap();
    for (text, fault) in [
        (String::new(), "EOF"),
        (good[..good.len() / 2].to_owned(), "EOF"),
        (good.replace("\"failures\":4", "\"failures\":5"), "the checksum is another"),
        (good.replace("\"version\":1", "\"version\":2"), "version 2, not 1"),
    ] {
        fs::write(dir.join("u.json"), text).unwrap();
        let (store, records, problems) = Store::open(dir).unwrap();
        assert!(records.is_empty());
        let text = problems[0].to_string();
        assert!(text.contains(fault) && text.contains("u.json.damaged"), "{text}");
        assert!(dir.join("u.json.damaged").exists() && !dir.join("u.json").exists());
        // The pod continues with a new record.
        assert!(store.save(&record()).unwrap());
    }
    fs::rename(dir.join("u.json"), dir.join("v.json")).unwrap();
    assert!(Store::open(dir).unwrap().2[0].to_string().contains("it is of pod u"));
    // What a killed agent was about to write is swept away; the one before it counts.
    fs::write(dir.join("u.json"), &good).unwrap();
    fs::write(dir.join("u.json.new"), "{").unwrap();
    let (_, records, problems) = Store::open(dir).unwrap();
    assert_eq!((records.len(), problems.len()), (1, 0));
    assert!(!dir.join("u.json.new").exists());
}

#[test]
fn a_uid_cannot_be_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ..) = Store::open(dir.path()).unwrap();
    for uid in ["", "../x", "a/b", "."] {
        assert!(matches!(store.remove(uid), Err(StoreError::Uid { .. })), "{uid}");
    }
}

#[test]
fn a_record_of_an_agent_without_probes_is_the_same_as_one_of_a_pod_without() {
    let mut with = record();
    let old = serde_json::to_value(&with).unwrap();
    assert_eq!(old["containers"]["c"].get("probes"), None);
    assert_eq!(serde_json::from_value::<Record>(old).unwrap(), with);
    let memory = memory("c.3", &[(ProbeKind::Readiness, Verdict::Success)]);
    let own = with.containers.get_mut("c").unwrap();
    own.note_probes(&memory);
    with.note_kill("c", "c.3", KillReason::Liveness);
    let read: Record = serde_json::from_value(serde_json::to_value(&with).unwrap()).unwrap();
    assert_eq!(read, with);
    let own = read.container("c").unwrap();
    assert_eq!(own.memory("c.3"), Some(&memory));
    assert_eq!(own.memory("c.4"), None);
    assert_eq!((own.ended_by_probe("c.3"), own.ended_by_probe("c.4")), (true, false));
}
