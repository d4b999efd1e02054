//! Formats an event as one line: time, type, process, cgroup, and details such as the limit or the trigger. Pure.

use super::format::{bytes, printable, time};
use nodewarden_model::{Detail, DeviceAccess, DeviceVerdict, Event, Exit, LimitScope, OomKill, PodRef};

/// The line without a newline.
pub fn line(event: &Event) -> String {
    let (when, what) = (time(event.time), event.detail.event_type().name());
    let place = place(&event.cgroup, event.pod.as_ref());
    let text = match &event.detail {
        Detail::Oom(oom) => killed(oom, &event.cgroup, &place),
        Detail::Exit(exit) => ended(exit, &place),
        Detail::CgroupCreated {}
        | Detail::CgroupRemoved {}
        | Detail::CgroupPopulated {}
        | Detail::CgroupEmptied {} => place,
        Detail::TaskMoved { pid, command } => format!("{command} (pid {pid}) into {place}"),
        Detail::LimitCorrected(c) => {
            format!("{} was {}, put back to {} in {place}", c.limit, c.found, c.written)
        }
        Detail::Hierarchy { reason, message } | Detail::Pod { reason, message } if place.is_empty() => {
            format!("{reason}: {message}")
        }
        Detail::Hierarchy { reason, message } | Detail::Pod { reason, message } => {
            format!("{reason}: {message} in {place}")
        }
        Detail::Device(device) => opened(device, &place),
        Detail::Lost { lost_type, count } => lost(lost_type, *count),
        Detail::Agent { reason, message } => format!("{reason}: {message}"),
    };
    printable(&format!("{when} {what:<15} {text}"))
}

/// The cgroup: the names of its pod and container, and its path.
fn place(cgroup: &str, pod: Option<&PodRef>) -> String {
    let Some(pod) = pod else { return cgroup.to_owned() };
    let pod_name = match (pod.namespace.is_empty(), pod.name.is_empty()) {
        (false, false) => format!("{}/{}", pod.namespace, pod.name),
        (true, false) => pod.name.clone(),
        (_, true) => pod.uid.clone(),
    };
    let container = match (pod.container_name.is_empty(), pod.container_id.get(..12)) {
        (false, _) => format!(" container {}", pod.container_name),
        (true, Some(short)) => format!(" container {short}"),
        (true, None) if !pod.container_id.is_empty() => format!(" container {}", pod.container_id),
        (true, None) => String::new(),
    };
    format!("pod {pod_name}{container} [{cgroup}]")
}

fn killed(oom: &OomKill, cgroup: &str, place: &str) -> String {
    let limit = oom.limit_bytes.map(|b| format!(" {}", bytes(b))).unwrap_or_default();
    let why = match oom.scope {
        LimitScope::Global => "the node ran out of memory".to_owned(),
        LimitScope::Unknown if oom.limit_cgroup.is_empty() => "out of memory".to_owned(),
        LimitScope::Cgroup if oom.limit_cgroup.is_empty() => format!("at its limit{limit}"),
        _ if oom.limit_cgroup == cgroup => format!("at its own limit{limit}"),
        _ => format!("at the limit{limit} of {}", oom.limit_cgroup),
    };
    let used = format!(
        "anon {} file {} shmem {}",
        bytes(oom.anon_rss_bytes),
        bytes(oom.file_rss_bytes),
        bytes(oom.shmem_rss_bytes)
    );
    let by = if oom.trigger_pid == oom.pid {
        "itself".to_owned()
    } else {
        let other = (!oom.trigger_cgroup.is_empty() && oom.trigger_cgroup != cgroup)
            .then(|| format!(" in {}", oom.trigger_cgroup));
        format!("{} (pid {}){}", oom.trigger_command, oom.trigger_pid, other.unwrap_or_default())
    };
    format!(
        "{} (pid {}) killed in {place}, {why}; had {used}, oom_score_adj {}; triggered by {by}",
        oom.command, oom.pid, oom.oom_score_adj
    )
}

fn ended(exit: &Exit, place: &str) -> String {
    let how = if exit.signal != 0 {
        format!("died by {}", signal(exit.signal))
    } else {
        format!("exited with {}", exit.code)
    };
    let inside = match exit.namespace_pid {
        0 => String::new(),
        same if same == exit.pid => String::new(),
        inner => format!(", {inner} inside"),
    };
    let main = if exit.main { ", main process" } else { "" };
    format!("{} (pid {}{inside}{main}) {how} in {place}", exit.command, exit.pid)
}

fn opened(device: &DeviceAccess, place: &str) -> String {
    let verdict = match device.verdict {
        DeviceVerdict::Denied => "denied",
        DeviceVerdict::Audited if device.refused_by_runtime => "would be denied",
        DeviceVerdict::Audited => "allowed, would be denied",
    };
    let path = if device.path.is_empty() { String::new() } else { format!(" ({})", device.path) };
    let too = if device.refused_by_runtime { ", by the runtime too" } else { "" };
    let times = if device.count > 1 { format!(", {} times", device.count) } else { String::new() };
    format!(
        "{} (pid {}) wanted {} {}{path} in {place}: {verdict}{too}{times}",
        device.command, device.pid, device.access, device.device
    )
}

fn signal(number: u32) -> String {
    let known = i32::try_from(number).ok().and_then(|n| nix::sys::signal::Signal::try_from(n).ok());
    known.map_or_else(|| format!("signal {number}"), |s| s.as_str().to_owned())
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
    use nodewarden_model::Correction;

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

    fn text(pod: Option<PodRef>, detail: Detail) -> String {
        let time = Timestamp::new(1_700_000_000, 0).unwrap();
        let line = line(&Event { seq: 1, time, cgroup: "/a".into(), pod, detail });
        line.strip_prefix("2023-11-14T22:13:20.000Z ").unwrap().to_owned()
    }

    #[test]
    fn oom_lines() {
        assert_eq!(
            text(None, Detail::Oom(oom())),
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
        let line = text(Some(pod()), Detail::Oom(other.clone()));
        assert!(
            line.contains("killed in pod shop/cart container web [/a], at the limit 64.0Mi of /;"),
            "{line}"
        );
        assert!(line.ends_with("triggered by mysqld (pid 9) in /db"), "{line}");
        let global =
            OomKill { scope: LimitScope::Global, limit_cgroup: String::new(), limit_bytes: None, ..other };
        assert!(text(None, Detail::Oom(global)).contains("killed in /a, the node ran out of memory;"));
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
            assert_eq!(text(pod, detail), expected);
        }
    }
}
