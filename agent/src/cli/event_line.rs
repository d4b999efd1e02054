//! One event as one line: when, what, who, where, at what limit, by whom. Types that have a structure write
//! their part themselves (`nodewarden_model::EventBody`). Pure.

#[cfg(test)]
mod document;

use super::format::{printable, time};
use nodewarden_model::{Detail, Event, Place};

/// The line without a newline.
pub fn line(event: &Event) -> String {
    let (when, what) = (time(event.time), event.detail.event_type().name());
    printable(&format!("{when} {what:<15} {}", text(event)))
}

/// The line without time and type.
pub fn text(event: &Event) -> String {
    let place = Place { cgroup: &event.cgroup, pod: event.pod.as_ref() };
    let text = match &event.detail {
        Detail::TaskMoved { pid, command } => format!("{command} (pid {pid}) into {place}"),
        Detail::Hierarchy { reason, message } | Detail::Pod { reason, message } if place.is_empty() => {
            format!("{reason}: {message}")
        }
        Detail::Hierarchy { reason, message } | Detail::Pod { reason, message } => {
            format!("{reason}: {message} in {place}")
        }
        Detail::Lost { lost_type, count } => lost(lost_type, *count),
        Detail::Agent { reason, message } => format!("{reason}: {message}"),
        other => other.body().map_or_else(|| place.to_string(), |body| body.line(&place)),
    };
    printable(&text)
}

fn lost(lost_type: &str, count: u64) -> String {
    if lost_type == nodewarden_storage::journal::LOST_SUBSCRIBER {
        format!("{count} events were missed here: this client was too slow")
    } else {
        format!("{count} events of type {lost_type} were lost: the kernel's ring was full")
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use nodewarden_model::{Correction, DeviceAccess, DeviceVerdict, Exit, LimitScope, OomKill, PodRef};

    fn oom() -> OomKill {
        OomKill {
            pid: 812,
            command: "stress".into(),
            total_vm_bytes: 70 << 20,
            anon_rss_bytes: 63 << 20,
            file_rss_bytes: 4096,
            shmem_rss_bytes: 0,
            oom_score_adj: 1000,
            scope: LimitScope::Cgroup,
            limit_cgroup: "/a".into(),
            limit_bytes: Some(64 << 20),
            trigger_pid: 812,
            trigger_command: "stress".into(),
            trigger_cgroup: "/a".into(),
        }
    }

    fn pod() -> PodRef {
        PodRef {
            uid: "8c5e".into(),
            namespace: "shop".into(),
            name: "cart".into(),
            container_id: "0123456789abcdef".into(),
            container_name: "web".into(),
        }
    }

    fn device() -> DeviceAccess {
        DeviceAccess {
            pid: 5,
            command: "cat".into(),
            device: "c 10:229".into(),
            path: "/dev/fuse".into(),
            access: "rw".into(),
            verdict: DeviceVerdict::Denied,
            refused_by_runtime: false,
            count: 1,
        }
    }

    fn line_of(pod: Option<PodRef>, detail: Detail) -> String {
        let time = Timestamp::new(1_700_000_000, 0).unwrap();
        let line = line(&Event { seq: 1, time, cgroup: "/a".into(), pod, detail });
        line.strip_prefix("2023-11-14T22:13:20.000Z ").unwrap().to_owned()
    }

    #[test]
    fn oom_lines() {
        assert_eq!(
            line_of(None, Detail::Oom(oom())),
            "oom             stress (pid 812) killed in /a, at its own limit 64.0Mi; \
             had anon 63.0Mi file 4.00Ki shmem 0, oom_score_adj 1000; triggered by itself"
        );
        let other = OomKill {
            limit_cgroup: "/".into(),
            trigger_pid: 9,
            trigger_command: "mysqld".into(),
            trigger_cgroup: "/db".into(),
            ..oom()
        };
        let line = line_of(Some(pod()), Detail::Oom(other.clone()));
        assert!(
            line.contains("killed in pod shop/cart container web [/a], at the limit 64.0Mi of /;"),
            "{line}"
        );
        assert!(line.ends_with("triggered by mysqld (pid 9) in /db"), "{line}");
        let global =
            OomKill { scope: LimitScope::Global, limit_cgroup: String::new(), limit_bytes: None, ..other };
        assert!(line_of(None, Detail::Oom(global)).contains("killed in /a, the node ran out of memory;"));
    }

    #[test]
    fn other_lines() {
        let exit = Exit { pid: 5, namespace_pid: 1, command: "app".into(), code: 3, signal: 0, main: true };
        let unnamed =
            PodRef { uid: "8c5e".into(), container_id: "0123456789abcdef".into(), ..PodRef::default() };
        for (pod, detail, expected) in [
            (
                Some(unnamed),
                Detail::Exit(exit.clone()),
                "exit            app (pid 5, 1 inside, main process) exited with 3 in pod 8c5e container 0123456789ab [/a]",
            ),
            (
                None,
                Detail::Exit(Exit { signal: 11, namespace_pid: 5, main: false, code: 0, ..exit.clone() }),
                "exit            app (pid 5) died by SIGSEGV in /a",
            ),
            (
                None,
                Detail::Exit(Exit { signal: 63, namespace_pid: 5, main: false, code: 0, ..exit }),
                "exit            app (pid 5) died by signal 63 in /a",
            ),
            (None, Detail::CgroupPopulated {}, "cgroupPopulated /a"),
            (None, Detail::TaskMoved { pid: 1, command: "x".into() }, "taskMoved       x (pid 1) into /a"),
            (
                None,
                Detail::LimitCorrected(Correction {
                    limit: "memory.max".into(),
                    found: "max".into(),
                    written: "4096".into(),
                }),
                "limitCorrected  memory.max was max, put back to 4096 in /a",
            ),
            (
                None,
                Detail::Hierarchy { reason: "PodCgroupDestroyed".into(), message: "3 processes".into() },
                "hierarchy       PodCgroupDestroyed: 3 processes in /a",
            ),
            (
                None,
                Detail::Device(device()),
                "device          cat (pid 5) wanted rw c 10:229 (/dev/fuse) in /a: denied",
            ),
            (
                None,
                Detail::Device(DeviceAccess {
                    path: String::new(),
                    refused_by_runtime: true,
                    count: 7,
                    ..device()
                }),
                "device          cat (pid 5) wanted rw c 10:229 in /a: denied, by the runtime too, 7 times",
            ),
            (
                None,
                Detail::Device(DeviceAccess { verdict: DeviceVerdict::Audited, ..device() }),
                "device          cat (pid 5) wanted rw c 10:229 (/dev/fuse) in /a: allowed, would be denied",
            ),
            (
                None,
                Detail::Lost { lost_type: "oom".into(), count: 2 },
                "lost            2 events of type oom were lost: the kernel's ring was full",
            ),
            (
                None,
                Detail::Lost { lost_type: "subscriber".into(), count: 2 },
                "lost            2 events were missed here: this client was too slow",
            ),
            (
                None,
                Detail::Agent { reason: "started".into(), message: "a\nb".into() },
                "agent           started: a?b",
            ),
        ] {
            assert_eq!(line_of(pod, detail), expected);
        }
    }
}
