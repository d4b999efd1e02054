//! Topic limit_writes: which process writes a limit of a cgroup. Its program is attached where mode augment
//! reports changed limits. It counts nothing, and a write is no event of its own: most are those of kubelet
//! and runtime.

use nodewarden_ebpf_abi::{LIMIT_FILES, LimitWriteRecord};

use super::fields::{
    CGROUP_KN, CGROUP_ROOT, CSS_CGROUP, CSSET_DFL, CSSET_SUBSYS, KN_ID, KN_NAME, ROOT_HIERARCHY,
    TASK_CGROUPS, TASK_COMM, TASK_TGID,
};
use super::spec::{Hook, Program, TopicSpec, field};
use crate::place::PodRef;
use crate::text::until_zero;

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "limit_writes",
    needs: &[
        TASK_CGROUPS,
        TASK_TGID,
        TASK_COMM,
        CSSET_SUBSYS,
        CSSET_DFL,
        CSS_CGROUP,
        CGROUP_KN,
        CGROUP_ROOT,
        ROOT_HIERARCHY,
        KN_ID,
        KN_NAME,
        field("OFF_OPEN_KN", &["kernfs_open_file.kn"]),
        // `parent` before Linux 6.15.
        field("OFF_KN_PARENT", &["kernfs_node.__parent", "kernfs_node.parent"]),
        field("OFF_KN_PRIV", &["kernfs_node.priv"]),
    ],
    programs: &[Program::new("cgroup_file_write", Hook::Function("cgroup_file_write"))],
    on_request: true,
    ..TopicSpec::EMPTY
};

/// A write to a file with a limit of a cgroup, as it was begun: the kernel may have refused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitWrite {
    /// The kernel's id of the cgroup, in the hierarchy that has such a file.
    pub cgroup: u64,
    /// The file's name.
    pub file: &'static str,
    /// What was written, at most 31 bytes of it.
    pub text: String,
    /// Who wrote.
    pub writer: Writer,
}

/// A process that wrote something, as it was then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writer {
    /// Its number in the machine's first pid namespace.
    pub pid: u32,
    /// Its command name; empty for one that had ended before it was read.
    pub command: String,
    /// Path of its memory cgroup; empty if it was not known.
    pub cgroup: String,
    /// The pod that it was in.
    pub pod: Option<PodRef>,
}

impl LimitWrite {
    /// The write of a record, by a process in this cgroup and pod; `None` for a file that is not listed.
    pub fn of(record: &LimitWriteRecord, cgroup: String, pod: Option<PodRef>) -> Option<Self> {
        Some(Self {
            cgroup: record.header.cgroup,
            file: LIMIT_FILES.get(record.file as usize)?,
            text: until_zero(&record.text),
            writer: Writer { pid: record.pid, command: until_zero(&record.command), cgroup, pod },
        })
    }
}

impl Writer {
    /// The process with its pod, else its systemd unit, else its cgroup: `kubelet (pid 7, kubelet.service)`.
    pub fn describe(&self) -> String {
        let place = match (&self.pod, unit(&self.cgroup)) {
            (Some(pod), _) => format!(", pod {}", of_pod(pod)),
            (None, Some(unit)) => format!(", {unit}"),
            (None, None) if self.cgroup.is_empty() => String::new(),
            (None, None) => format!(", cgroup {}", self.cgroup),
        };
        let command = if self.command.is_empty() { "a process that has ended" } else { &*self.command };
        format!("{command} (pid {}{place})", self.pid)
    }
}

/// Namespace and name of a pod, or its uid, with the container's name.
fn of_pod(pod: &PodRef) -> String {
    let name = if pod.name.is_empty() { pod.uid.clone() } else { format!("{}/{}", pod.namespace, pod.name) };
    if pod.container_name.is_empty() { name } else { format!("{name}, container {}", pod.container_name) }
}

/// The innermost systemd unit with processes that a path of a cgroup names.
fn unit(path: &str) -> Option<&str> {
    path.rsplit('/').find(|name| name.ends_with(".service") || name.ends_with(".scope"))
}

#[cfg(test)]
mod tests {
    use nodewarden_ebpf_abi::{COMMAND_LEN, Header, Kind, LIMIT_TEXT_LEN};

    use super::*;

    #[test]
    fn a_record_is_read() {
        let mut record = LimitWriteRecord {
            header: Header { kind: Kind::LimitWrite as u32, space: 0, time_ns: 1, cgroup: 9 },
            writer_cgroup: 5,
            pid: 7,
            file: 2,
            command: [0; COMMAND_LEN],
            text: [b'x'; LIMIT_TEXT_LEN],
        };
        record.command[..2].copy_from_slice(b"sh");
        record.text[..4].copy_from_slice(b"max\0");
        let write = LimitWrite::of(&record, "/a".into(), None).unwrap();
        assert_eq!((write.cgroup, write.file, &*write.text), (9, "cpu.max", "max"));
        assert_eq!(write.writer.describe(), "sh (pid 7, cgroup /a)");
        record.file = 99;
        assert_eq!(LimitWrite::of(&record, String::new(), None), None);
    }

    #[test]
    fn a_writer_that_has_ended_has_its_number() {
        assert_eq!(Writer { pid: 7, ..Writer::default() }.describe(), "a process that has ended (pid 7)");
    }

    #[test]
    fn a_writer_is_named_by_its_pod_else_its_unit_else_its_cgroup() {
        let of = |cgroup: &str, pod: Option<PodRef>| {
            Writer { pid: 7, command: "sh".into(), cgroup: cgroup.into(), pod }.describe()
        };
        let pod = PodRef { uid: "u".into(), ..PodRef::default() };
        let named = PodRef { namespace: "shop".into(), name: "cart".into(), ..pod.clone() };
        let contained = PodRef { container_name: "web".into(), ..named.clone() };
        for (cgroup, pod, expected) in [
            ("", None, "sh (pid 7)"),
            ("/", None, "sh (pid 7, cgroup /)"),
            ("/tools", None, "sh (pid 7, cgroup /tools)"),
            ("/system.slice/kubelet.service", None, "sh (pid 7, kubelet.service)"),
            ("/user.slice/user-0.slice/session-3.scope", None, "sh (pid 7, session-3.scope)"),
            ("/system.slice/containerd.service/own", None, "sh (pid 7, containerd.service)"),
            ("/kubepods/podu", Some(pod), "sh (pid 7, pod u)"),
            ("/kubepods/podu", Some(named), "sh (pid 7, pod shop/cart)"),
            ("/kubepods/podu/c", Some(contained), "sh (pid 7, pod shop/cart, container web)"),
        ] {
            assert_eq!(of(cgroup, pod), expected, "{cgroup}");
        }
    }
}
