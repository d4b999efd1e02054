//! Events between the model and protobuf, both ways: the server sends them, the command line prints them.
//! Types that have a structure convert it themselves (`nodewarden_model::EventBody`).

use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;

use super::time;
use nodewarden_model::{Detail, Event, EventType, PodRef};

/// A message that is no event of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The time is missing or out of range.
    #[error("event {seq} has no valid time")]
    Time {
        /// Sequence number of the event in the journal.
        seq: u64,
    },
    /// The agent is of a later version and has types that this command does not know.
    #[error("event {seq} is of a type that this version does not know: {event_type}")]
    Type {
        /// Sequence number of the event in the journal.
        seq: u64,
        /// The type in the message.
        event_type: String,
    },
    /// The message has no detail, or that of another type.
    #[error("event {seq} is of type {event_type} but has no details of it")]
    Detail {
        /// Sequence number of the event in the journal.
        seq: u64,
        /// The type in the message.
        event_type: String,
    },
}

/// The message for an event of the journal.
pub fn to_proto(event: &Event) -> proto::Event {
    proto::Event {
        seq: event.seq,
        time: Some(time::from_timestamp(event.time)),
        r#type: event.detail.event_type().name().to_owned(),
        cgroup: event.cgroup.clone(),
        pod: event.pod.as_ref().map(pod_to_proto),
        detail: detail_to_proto(&event.detail),
    }
}

/// # Errors
/// The message comes from a newer agent or is broken.
pub fn from_proto(event: proto::Event) -> Result<Event, EventError> {
    let seq = event.seq;
    let at = event.time.as_ref().and_then(time::to_timestamp).ok_or(EventError::Time { seq })?;
    let Some(event_type) = EventType::parse(&event.r#type) else {
        return Err(EventError::Type { seq, event_type: event.r#type });
    };
    let detail = detail_from_proto(event_type, event.detail);
    let detail = detail.ok_or(EventError::Detail { seq, event_type: event.r#type })?;
    let pod = event.pod.map(pod_from_proto);
    Ok(Event { seq, time: at, cgroup: event.cgroup, pod, detail })
}

fn detail_from_proto(event_type: EventType, detail: Option<ProtoDetail>) -> Option<Detail> {
    Some(match (event_type, detail) {
        (EventType::CgroupCreated, None) => Detail::CgroupCreated {},
        (EventType::CgroupRemoved, None) => Detail::CgroupRemoved {},
        (EventType::CgroupPopulated, None) => Detail::CgroupPopulated {},
        (EventType::CgroupEmptied, None) => Detail::CgroupEmptied {},
        (EventType::TaskMoved, Some(ProtoDetail::TaskMoved(t))) => {
            Detail::TaskMoved { pid: t.pid, command: t.command }
        }
        (EventType::Pod, Some(ProtoDetail::PodNote(p))) => {
            Detail::Pod { reason: p.reason, message: p.message }
        }
        (EventType::Hierarchy, Some(ProtoDetail::Hierarchy(h))) => {
            Detail::Hierarchy { reason: h.reason, message: h.message }
        }
        (EventType::Lost, Some(ProtoDetail::Lost(l))) => {
            Detail::Lost { lost_type: l.lost_type, count: l.count }
        }
        (EventType::Agent, Some(ProtoDetail::Agent(a))) => {
            Detail::Agent { reason: a.reason, message: a.message }
        }
        (event_type, detail) => return Detail::from_body(event_type, detail?),
    })
}

fn detail_to_proto(detail: &Detail) -> Option<ProtoDetail> {
    let note =
        |reason: &String, message: &String| proto::Note { reason: reason.clone(), message: message.clone() };
    Some(match detail {
        Detail::TaskMoved { pid, command } => {
            ProtoDetail::TaskMoved(proto::TaskMoved { pid: *pid, command: command.clone() })
        }
        Detail::Pod { reason, message } => ProtoDetail::PodNote(note(reason, message)),
        Detail::Hierarchy { reason, message } => ProtoDetail::Hierarchy(note(reason, message)),
        Detail::Lost { lost_type, count } => {
            ProtoDetail::Lost(proto::Lost { lost_type: lost_type.clone(), count: *count })
        }
        Detail::Agent { reason, message } => ProtoDetail::Agent(note(reason, message)),
        other => return other.body().map(|body| body.to_proto()),
    })
}

fn pod_to_proto(pod: &PodRef) -> proto::PodRef {
    proto::PodRef {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        container_id: pod.container_id.clone(),
        container_name: pod.container_name.clone(),
    }
}

fn pod_from_proto(pod: proto::PodRef) -> PodRef {
    PodRef {
        uid: pod.uid,
        namespace: pod.namespace,
        name: pod.name,
        container_id: pod.container_id,
        container_name: pod.container_name,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use nodewarden_model::{Correction, DeviceAccess, DeviceVerdict, Exit, LimitScope, OomKill};

    fn details() -> impl Strategy<Value = Detail> {
        let text = "[a-z/]{0,8}";
        prop_oneof![
            (any::<u32>(), text, any::<[u64; 4]>(), any::<i32>(), 0..3usize, text, any::<Option<u64>>())
                .prop_map(|(pid, command, sizes, oom_score_adj, scope, limit_cgroup, limit_bytes)| {
                    Detail::Oom(OomKill {
                        pid,
                        trigger_command: command.clone(),
                        command,
                        total_vm_bytes: sizes[0],
                        anon_rss_bytes: sizes[1],
                        file_rss_bytes: sizes[2],
                        shmem_rss_bytes: sizes[3],
                        oom_score_adj,
                        scope: [LimitScope::Cgroup, LimitScope::Global, LimitScope::Unknown][scope],
                        trigger_cgroup: limit_cgroup.clone(),
                        limit_cgroup,
                        limit_bytes,
                        trigger_pid: pid ^ 1,
                    })
                }),
            (any::<[u32; 4]>(), text, any::<bool>()).prop_map(|(n, command, main)| {
                Detail::Exit(Exit { pid: n[0], namespace_pid: n[1], command, code: n[2], signal: n[3], main })
            }),
            Just(Detail::CgroupCreated {}),
            Just(Detail::CgroupRemoved {}),
            Just(Detail::CgroupPopulated {}),
            Just(Detail::CgroupEmptied {}),
            (any::<u32>(), text).prop_map(|(pid, command)| Detail::TaskMoved { pid, command }),
            (text, text, text).prop_map(|(limit, found, written)| {
                Detail::LimitCorrected(Correction { limit, found, written })
            }),
            (text, text).prop_map(|(reason, message)| Detail::Hierarchy { reason, message }),
            (text, text).prop_map(|(reason, message)| Detail::Pod { reason, message }),
            (any::<u32>(), text, text, text, any::<[bool; 2]>(), any::<u64>()).prop_map(
                |(pid, command, device, access, flags, count)| {
                    let verdict = [DeviceVerdict::Denied, DeviceVerdict::Audited][usize::from(flags[0])];
                    let path = device.clone();
                    let refused_by_runtime = flags[1];
                    Detail::Device(DeviceAccess {
                        pid,
                        command,
                        device,
                        path,
                        access,
                        verdict,
                        refused_by_runtime,
                        count,
                    })
                }
            ),
            (text, any::<u64>()).prop_map(|(lost_type, count)| Detail::Lost { lost_type, count }),
            (text, text).prop_map(|(reason, message)| Detail::Agent { reason, message }),
        ]
    }

    proptest! {
        #[test]
        fn there_and_back(
            seq in any::<u64>(),
            nanos in 0i64..i64::MAX,
            cgroup in "[a-z/]{0,8}",
            pod in proptest::option::of("[a-z]{0,4}"),
            detail in details(),
        ) {
            let pod = pod.map(|p| PodRef { uid: p.clone(), container_name: p, ..PodRef::default() });
            let time = Timestamp::from_nanosecond(nanos.into()).unwrap();
            let event = Event { seq, time, cgroup, pod, detail };
            prop_assert_eq!(from_proto(to_proto(&event)), Ok(event));
        }
    }

    #[test]
    fn what_is_no_event() {
        let good = proto::Event {
            seq: 5,
            time: Some(prost_types::Timestamp::default()),
            r#type: "cgroupCreated".into(),
            ..Default::default()
        };
        assert!(from_proto(good.clone()).is_ok());
        let without_time = proto::Event { time: None, ..good.clone() };
        assert_eq!(from_proto(without_time), Err(EventError::Time { seq: 5 }));
        let future = proto::Event { r#type: "quake".into(), ..good.clone() };
        assert_eq!(from_proto(future), Err(EventError::Type { seq: 5, event_type: "quake".into() }));
        let empty = proto::Event { r#type: "oom".into(), ..good };
        assert_eq!(from_proto(empty), Err(EventError::Detail { seq: 5, event_type: "oom".into() }));
    }
}
