//! What users hear of: an event of the journal as an event of its pod at the API server, in words. Pure.

use std::sync::Arc;

use nodewarden_kube::events::{Involved, Kind, Occurrence};
use nodewarden_manifest::Pod;
use nodewarden_metrics::Own;
use nodewarden_model::{Detail, DeviceVerdict, Event, Exit, LimitScope, OomKill, PodRef};

/// Reasons that this crate gives what it records of pods.
pub mod reason {
    /// An OOM kill of any process.
    pub const OOM: &str = "OOMKilling";
    /// A process other than a container's first one was ended by a signal of a fault.
    pub const CRASH: &str = "ProcessCrashed";
    /// Access to a device was denied.
    pub const DEVICE: &str = "DeviceDenied";
    /// Access to a device would have been denied.
    pub const DEVICE_AUDITED: &str = "DeviceWouldBeDenied";
    /// A running container can no longer open a device that it was given.
    pub const DEVICE_LOST: &str = "DeviceLost";
    /// It can again.
    pub const DEVICE_BACK: &str = "DeviceBack";
    /// A limit has another value than the kubelet gave it.
    pub const LIMIT: &str = "LimitChanged";
    /// An annotation cannot be understood.
    pub const ANNOTATION: &str = "InvalidAnnotation";
    /// Another program has written what was written here: it stays.
    pub const LEFT_ALONE: &str = "AugmentLeftAlone";
    /// A value was written.
    pub const SET: &str = "AugmentSet";
    /// A value would have been written.
    pub const WOULD_SET: &str = "AugmentWouldSet";
    /// A value was put back.
    pub const TAKEN_BACK: &str = "AugmentTakenBack";
    /// A value could not be written.
    pub const FAILED: &str = "AugmentFailed";
}

/// Those of the journal's own entries that become Events of a pod.
const PUBLISHED: [&str; 4] = [reason::LIMIT, reason::ANNOTATION, reason::LEFT_ALONE, reason::DEVICE_LOST];

/// The event of the pod; `None` for what is not of a pod that is known by name, for what is no fault, and for
/// what was only audited.
pub fn occurrence(event: &Event, pod: impl Fn(&str) -> Option<Arc<Pod>>) -> Option<Occurrence> {
    let (reason, message) = incident(&event.detail, &event.cgroup)?;
    if reason == reason::DEVICE_AUDITED {
        return None;
    }
    let place = event.pod.as_ref()?;
    let known = pod(&place.uid);
    let known = known.as_deref();
    let place = PodRef {
        namespace: or(&place.namespace, known.map(|pod| &pod.namespace)),
        name: or(&place.name, known.map(|pod| &pod.name)),
        ..place.clone()
    };
    if place.name.is_empty() || place.namespace.is_empty() {
        return None;
    }
    let involved = Involved::pod(&place, known);
    Some(Occurrence { involved, kind: Kind::Warning, reason: reason.to_owned(), message, time: event.time })
}

/// Reason and message of an incident; `None` for events that are none.
pub fn incident(detail: &Detail, cgroup: &str) -> Option<(&'static str, String)> {
    match detail {
        Detail::Oom(kill) => Some((reason::OOM, oom(kill, cgroup))),
        Detail::Exit(exit) => Some((reason::CRASH, crash(exit)?)),
        Detail::Device(access) => {
            let path = if access.path.is_empty() { &access.device } else { &access.path };
            let (reason, was) = match access.verdict {
                DeviceVerdict::Denied => (reason::DEVICE, "was"),
                DeviceVerdict::Audited => (reason::DEVICE_AUDITED, "would be"),
            };
            let message = format!(
                "Process {} (pid {}) {was} denied {path} ({}), which the pod was not given",
                access.command, access.pid, access.access
            );
            Some((reason, message))
        }
        Detail::Pod { reason, message } => {
            let own = PUBLISHED.into_iter().find(|own| own == reason)?;
            Some((own, message.clone()))
        }
        _ => None,
    }
}

/// Counts incidents of this reason.
pub fn count(reason: &'static str, incidents: u64) {
    ::metrics::counter!(Own::AugmentIncidents.name(), "reason" => reason).increment(incidents);
}

fn oom(kill: &OomKill, cgroup: &str) -> String {
    let limit = kill.limit_bytes.map(|bytes| format!(" of {} MiB", bytes >> 20)).unwrap_or_default();
    let why = match kill.scope {
        LimitScope::Global => "the node ran out of memory".to_owned(),
        LimitScope::Unknown => "memory ran out".to_owned(),
        LimitScope::Cgroup if kill.limit_cgroup == cgroup => {
            format!("its container reached its memory limit{limit}")
        }
        LimitScope::Cgroup if kill.limit_cgroup.is_empty() => format!("a memory limit{limit} was reached"),
        LimitScope::Cgroup => format!("the memory limit{limit} of {} was reached", kill.limit_cgroup),
    };
    let had = kill.anon_rss_bytes.saturating_add(kill.file_rss_bytes).saturating_add(kill.shmem_rss_bytes);
    format!(
        "Process {} (pid {}) was killed: {why}. It had {} MiB in memory",
        kill.command,
        kill.pid,
        had >> 20
    )
}

/// Signals by which the kernel or the C library ends a faulty process, by number (x86 and ARM).
const FAULTS: [(u32, &str); 8] = [
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (11, "SIGSEGV"),
    (31, "SIGSYS"),
];

/// A crash of a process; `None` for a container's first process, whose end the kubelet reports, and for other
/// ends.
fn crash(exit: &Exit) -> Option<String> {
    let (_, signal) = FAULTS.into_iter().find(|(number, _)| *number == exit.signal)?;
    (!exit.main).then(|| {
        format!("Process {} (pid {}) was ended by {signal}; its container goes on", exit.command, exit.pid)
    })
}

fn or(text: &str, other: Option<&String>) -> String {
    if text.is_empty() { other.cloned().unwrap_or_default() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use nodewarden_model::DeviceAccess;

    use super::*;

    fn oom_kill(scope: LimitScope, limit_cgroup: &str) -> OomKill {
        OomKill {
            pid: 7,
            command: "python".into(),
            total_vm_bytes: 1 << 30,
            anon_rss_bytes: 60 << 20,
            file_rss_bytes: 2 << 20,
            shmem_rss_bytes: 1 << 20,
            oom_score_adj: 0,
            scope,
            limit_cgroup: limit_cgroup.into(),
            limit_bytes: (scope == LimitScope::Cgroup).then_some(64 << 20),
            trigger_pid: 7,
            trigger_command: "python".into(),
            trigger_cgroup: String::new(),
        }
    }

    fn exit(signal: u32, main: bool) -> Detail {
        Detail::Exit(Exit { pid: 8, namespace_pid: 2, command: "worker".into(), code: 0, signal, main })
    }

    fn event(detail: Detail, pod: Option<PodRef>) -> Event {
        Event { seq: 1, time: jiff::Timestamp::UNIX_EPOCH, cgroup: "/kubepods/podu/c".into(), pod, detail }
    }

    #[test]
    fn an_oom_kill_says_whose_limit_it_was() {
        let text = |scope, limit| incident(&Detail::Oom(oom_kill(scope, limit)), "/kubepods/podu/c").unwrap();
        assert_eq!(
            text(LimitScope::Cgroup, "/kubepods/podu/c"),
            (
                "OOMKilling",
                "Process python (pid 7) was killed: its container reached its memory limit of 64 MiB. It had 63 MiB in memory".into()
            )
        );
        assert!(
            text(LimitScope::Cgroup, "/kubepods")
                .1
                .contains("the memory limit of 64 MiB of /kubepods was reached")
        );
        assert!(text(LimitScope::Global, "").1.contains("the node ran out of memory"));
    }

    #[test]
    fn only_faults_of_processes_whose_container_goes_on_are_crashes() {
        assert_eq!(
            incident(&exit(11, false), "").unwrap(),
            ("ProcessCrashed", "Process worker (pid 8) was ended by SIGSEGV; its container goes on".into())
        );
        for other in [exit(11, true), exit(9, false), exit(15, false), exit(0, false)] {
            assert_eq!(incident(&other, ""), None, "{other:?}");
        }
    }

    #[test]
    fn a_denied_device_is_an_event_and_an_audited_one_is_only_counted() {
        let access = |verdict| {
            Detail::Device(DeviceAccess {
                pid: 7,
                command: "cat".into(),
                device: "c 240:1".into(),
                path: "/dev/x".into(),
                access: "r".into(),
                verdict,
                refused_by_runtime: false,
                count: 1,
            })
        };
        let place = PodRef { namespace: "shop".into(), name: "cart".into(), ..PodRef::default() };
        for (verdict, reason, message) in [
            (
                DeviceVerdict::Denied,
                "DeviceDenied",
                "Process cat (pid 7) was denied /dev/x (r), which the pod was not given",
            ),
            (
                DeviceVerdict::Audited,
                "DeviceWouldBeDenied",
                "Process cat (pid 7) would be denied /dev/x (r), which the pod was not given",
            ),
        ] {
            assert_eq!(incident(&access(verdict), ""), Some((reason, message.into())));
            let reported = occurrence(&event(access(verdict), Some(place.clone())), |_| None);
            assert_eq!(reported.is_some(), verdict == DeviceVerdict::Denied);
        }
    }

    #[test]
    fn of_the_agents_own_entries_only_some_are_for_users() {
        let own = |reason: &str| Detail::Pod { reason: reason.into(), message: "text".into() };
        assert_eq!(incident(&own(reason::LIMIT), ""), Some((reason::LIMIT, "text".into())));
        for silent in [reason::SET, reason::WOULD_SET, "Killing"] {
            assert_eq!(incident(&own(silent), ""), None, "{silent}");
        }
    }

    #[test]
    fn an_event_names_the_pod_and_the_container() {
        let place = PodRef {
            uid: "u".into(),
            namespace: "shop".into(),
            name: "cart".into(),
            container_name: "web".into(),
            ..PodRef::default()
        };
        let detail = || exit(6, false);
        let found = occurrence(&event(detail(), Some(place.clone())), |_| None).unwrap();
        let involved = &found.involved;
        assert_eq!((&*involved.namespace, &*involved.name, &*involved.uid), ("shop", "cart", "u"));
        assert_eq!(involved.field_path, "spec.containers{web}");
        assert_eq!((found.kind, &*found.reason), (Kind::Warning, "ProcessCrashed"));
        let nameless = PodRef { name: String::new(), ..place };
        assert_eq!(occurrence(&event(detail(), Some(nameless)), |_| None), None);
        assert_eq!(occurrence(&event(detail(), None), |_| None), None);
    }
}
