//! Writes docs/EVENTS.md from the table of event types, with an example of each, and compares it with what is
//! there.

use std::fmt::Write as _;
use std::path::Path;

use jiff::Timestamp;

use super::line;
use nodewarden_model::{
    Correction, Detail, DeviceAccess, DeviceVerdict, Event, EventType, Exit, LimitScope, OomKill, PodRef,
};

const HEAD: &str = "\
# Events

Every type of event, from the table in the code: written by `NODEWARDEN_WRITE_DOCS=1 cargo test -p nodewarden the_events`,
and compared by a test. Each has an example, as `nodewarden events` prints it and as `nodewarden events --output json` and the
journal have it.

Every event has `seq`, which grows by one on this node, also across restarts of the agent; `time`, when it happened in the
kernel and not when it was read; `cgroup`, absent for events of the node; `pod`, absent if the cgroup belongs to none or that is
unknown; and `type`. Fields whose value is unknown are absent. Types of a newer agent may come: skip what you do not know.

The types `agent`, `hierarchy` and `pod` have a `reason`, one word: those of pods are the kubelet's, the others are explained
in the guides, which [OPERATING.md](OPERATING.md) lists.
";

const GROUP: &str = "/kubepods/burstable/pod8c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77/5f0c2b7a9d1e4c38a6b4d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5";

/// What an event of this type can say.
fn example(kind: EventType) -> Detail {
    let words = |reason: &str, message: &str| (reason.to_owned(), message.to_owned());
    match kind {
        EventType::Oom => Detail::Oom(OomKill {
            pid: 48_211,
            command: "java".into(),
            total_vm_bytes: 4_831_838_208,
            anon_rss_bytes: 530_579_456,
            file_rss_bytes: 1_048_576,
            shmem_rss_bytes: 0,
            oom_score_adj: 968,
            scope: LimitScope::Cgroup,
            limit_cgroup: GROUP.into(),
            limit_bytes: Some(536_870_912),
            trigger_pid: 48_211,
            trigger_command: "java".into(),
            trigger_cgroup: GROUP.into(),
        }),
        EventType::Exit => Detail::Exit(Exit {
            pid: 48_211,
            namespace_pid: 1,
            command: "cart".into(),
            code: 0,
            signal: 11,
            main: true,
        }),
        EventType::CgroupCreated => Detail::CgroupCreated {},
        EventType::CgroupRemoved => Detail::CgroupRemoved {},
        EventType::CgroupPopulated => Detail::CgroupPopulated {},
        EventType::CgroupEmptied => Detail::CgroupEmptied {},
        EventType::TaskMoved => Detail::TaskMoved { pid: 48_211, command: "runc:[2:INIT]".into() },
        EventType::LimitCorrected => Detail::LimitCorrected(Correction {
            limit: "memory.max".into(),
            found: "max".into(),
            written: "536870912".into(),
        }),
        EventType::Hierarchy => {
            let (reason, message) =
                words("LimitDeferred", "memory.max 268435456 is below the use of 301989888");
            Detail::Hierarchy { reason, message }
        }
        EventType::Pod => {
            let (reason, message) = words("BackOff", "Back-off 20s restarting failed container app");
            Detail::Pod { reason, message }
        }
        EventType::Device => Detail::Device(DeviceAccess {
            pid: 48_211,
            command: "qemu".into(),
            device: "c 10:232".into(),
            path: "/dev/kvm".into(),
            access: "rw".into(),
            verdict: DeviceVerdict::Denied,
            refused_by_runtime: false,
            count: 3,
        }),
        EventType::Lost => Detail::Lost { lost_type: "exit".into(), count: 12 },
        EventType::Agent => {
            let (reason, message) = words("Started", "nodewarden 0.1.0 in mode observe");
            Detail::Agent { reason, message }
        }
    }
}

/// The event number `seq` of this type.
fn event(kind: EventType, seq: u64) -> Event {
    let of_node = matches!(kind, EventType::Lost | EventType::Agent);
    let pod = PodRef {
        uid: "8c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77".into(),
        namespace: "shop".into(),
        name: "cart".into(),
        container_id: GROUP.rsplit_once('/').map(|(_, id)| id.to_owned()).unwrap(),
        container_name: "app".into(),
    };
    Event {
        seq,
        time: Timestamp::new(1_795_483_167, 250_000_000).unwrap(),
        cgroup: if of_node { String::new() } else { GROUP.into() },
        pod: (!of_node).then_some(pod),
        detail: example(kind),
    }
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    for (seq, kind) in (100..).zip(EventType::ALL) {
        let event = event(kind, seq);
        let about = kind.about().split_whitespace().collect::<Vec<_>>().join(" ");
        let json = serde_json::to_string(&event).unwrap();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n## {}\n\n{about}\n\n```text\n{}\n```\n\n```json\n{json}\n```\n",
            kind.name(),
            line(&event)
        );
    }
    text
}

/// With NODEWARDEN_WRITE_DOCS the document is written instead.
#[test]
fn the_events_document_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/EVENTS.md");
    if std::env::var_os("NODEWARDEN_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == document(),
        "docs/EVENTS.md is not what the table says: run NODEWARDEN_WRITE_DOCS=1 cargo test -p nodewarden the_events"
    );
}
