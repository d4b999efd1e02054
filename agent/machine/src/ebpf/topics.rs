//! The programs of each topic, where they hang, and what happens when a hook is refused: that program alone stays
//! off, with the reason.

use std::fs::File;
use std::path::Path;

use aya::programs::{BtfTracePoint, CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, ProgramError};
use aya::{Btf, Ebpf};

use nodewarden_model::{HookState, Topic, TopicStatus};

/// Where a program hangs.
#[derive(Clone, Copy, Debug)]
pub enum Hook {
    /// A BTF tracepoint (kernel 5.5).
    Tracepoint(&'static str),
    /// Packets of the sockets below the unified root (kernel 4.10; links since 5.7).
    Ingress,
    Egress,
    /// Opens of device nodes by processes below a cgroup (kernel 4.15; links since 5.7).
    Device,
}

impl std::fmt::Display for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tracepoint(name) => write!(f, "tp_btf/{name}"),
            Self::Ingress => f.write_str("cgroup_skb/ingress"),
            Self::Egress => f.write_str("cgroup_skb/egress"),
            Self::Device => f.write_str("cgroup_device"),
        }
    }
}

/// One program of the object.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSpec {
    pub name: &'static str,
    pub topic: Topic,
    pub hook: Hook,
    /// The topic works without it.
    pub optional: bool,
}

const fn on(name: &'static str, topic: Topic, tracepoint: &'static str) -> ProgramSpec {
    ProgramSpec { name, topic, hook: Hook::Tracepoint(tracepoint), optional: false }
}

/// All programs. Those of the cgroup lifecycle come first: they assign slots to new cgroups.
pub const PROGRAMS: &[ProgramSpec] = &[
    on("cgroup_mkdir", Topic::CgroupLifecycle, "cgroup_mkdir"),
    on("cgroup_rmdir", Topic::CgroupLifecycle, "cgroup_rmdir"),
    on("cgroup_notify_populated", Topic::CgroupLifecycle, "cgroup_notify_populated"),
    on("cgroup_attach_task", Topic::CgroupLifecycle, "cgroup_attach_task"),
    ProgramSpec {
        name: "cgroup_transfer_tasks",
        topic: Topic::CgroupLifecycle,
        hook: Hook::Tracepoint("cgroup_transfer_tasks"),
        optional: true,
    },
    on("sched_switch", Topic::Cpu, "sched_switch"),
    on("mark_victim", Topic::Oom, "mark_victim"),
    on("direct_reclaim_begin", Topic::Reclaim, "mm_vmscan_direct_reclaim_begin"),
    on("direct_reclaim_end", Topic::Reclaim, "mm_vmscan_direct_reclaim_end"),
    on("memcg_reclaim_begin", Topic::Reclaim, "mm_vmscan_memcg_reclaim_begin"),
    on("memcg_reclaim_end", Topic::Reclaim, "mm_vmscan_memcg_reclaim_end"),
    on("sched_process_fork", Topic::Process, "sched_process_fork"),
    on("sched_process_exec", Topic::Process, "sched_process_exec"),
    on("sched_process_exit", Topic::Process, "sched_process_exit"),
    ProgramSpec { name: "network_ingress", topic: Topic::Network, hook: Hook::Ingress, optional: false },
    ProgramSpec { name: "network_egress", topic: Topic::Network, hook: Hook::Egress, optional: false },
    on("block_rq_issue", Topic::Block, "block_rq_issue"),
    on("block_rq_complete", Topic::Block, "block_rq_complete"),
];

/// Programs that do nothing, for the overhead bench.
pub const EMPTY_PROGRAMS: &[ProgramSpec] = &[on("empty_sched_switch", Topic::Cpu, "sched_switch")];

/// The program that decides about devices, attached to kubepods when that is there, and what is tried where the kernel
/// refuses it.
pub const DEVICE_PROGRAM: ProgramSpec =
    ProgramSpec { name: "device_access", topic: Topic::Device, hook: Hook::Device, optional: false };
pub const DEVICE_SUBSTITUTE: ProgramSpec = ProgramSpec { name: "device_access_probed", ..DEVICE_PROGRAM };

/// Loads and attaches one program.
///
/// # Errors
/// In words, for the status: what the kernel said.
pub fn attach(ebpf: &mut Ebpf, btf: &Btf, spec: &ProgramSpec, unified: Option<&Path>) -> Result<(), String> {
    let program =
        ebpf.program_mut(spec.name).ok_or_else(|| format!("the eBPF object has no program {}", spec.name))?;
    let hook = spec.hook;
    let explain = |what: &str, error: &ProgramError| format!("{hook}: {what}: {}", chain(error));
    match hook {
        Hook::Tracepoint(name) => {
            let program: &mut BtfTracePoint = program.try_into().map_err(|e| explain("wrong kind", &e))?;
            program.load(name, btf).map_err(|e| explain("load", &e))?;
            program.attach().map_err(|e| explain("attach", &e))?;
        }
        Hook::Ingress | Hook::Egress => {
            let root = unified.ok_or_else(|| format!("{hook}: no cgroup2 file system is mounted"))?;
            let root = File::open(root).map_err(|e| format!("{hook}: open {}: {e}", root.display()))?;
            let program: &mut CgroupSkb = program.try_into().map_err(|e| explain("wrong kind", &e))?;
            program.load().map_err(|e| explain("load", &e))?;
            let kind = match hook {
                Hook::Ingress => CgroupSkbAttachType::Ingress,
                _ => CgroupSkbAttachType::Egress,
            };
            // aya attaches by link, which is always "multi" in the kernel; asking for it again is refused.
            program.attach(root, kind, CgroupAttachMode::Single).map_err(|e| explain("attach", &e))?;
        }
        Hook::Device => return Err(format!("{hook}: no cgroup to attach to")),
    }
    Ok(())
}

/// An error with its causes, the verifier's log cut to its end.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(e) = source {
        text.push_str(": ");
        text.push_str(&e.to_string());
        source = e.source();
    }
    const KEEP: usize = 600;
    if text.len() > KEEP && std::env::var_os("NODEWARDEN_VERIFIER_LOG").is_none() {
        let from = text.char_indices().map(|(i, _)| i).find(|i| *i >= text.len() - KEEP).unwrap_or(0);
        let head: String = text.chars().take(120).collect();
        text = format!("{head} … {}", &text[from..]);
    }
    text
}

/// A topic's state from what became of its programs.
pub fn status(topic: Topic, results: &[(ProgramSpec, Result<(), String>)]) -> TopicStatus {
    let of_topic: Vec<_> = results.iter().filter(|(spec, _)| spec.topic == topic).collect();
    // What several programs lack is said once.
    let mut reasons: Vec<&str> = Vec::new();
    for reason in of_topic.iter().filter_map(|(_, r)| r.as_ref().err()) {
        if !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    let required_failed = of_topic.iter().filter(|(s, r)| r.is_err() && !s.optional).count();
    let required = of_topic.iter().filter(|(s, _)| !s.optional).count();
    let state = match (reasons.len(), required_failed) {
        (0, _) if !of_topic.is_empty() => HookState::On,
        (_, n) if n < required => HookState::Partial,
        _ => HookState::Off,
    };
    TopicStatus { topic, state, reason: reasons.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(topic: Topic, failing: &[&str]) -> TopicStatus {
        let results: Vec<_> = PROGRAMS
            .iter()
            .map(|s| {
                (*s, if failing.contains(&s.name) { Err(format!("{} refused", s.name)) } else { Ok(()) })
            })
            .collect();
        status(topic, &results)
    }

    #[test]
    fn one_refused_hook_turns_off_its_topic_alone() {
        assert_eq!(outcome(Topic::Cpu, &["sched_switch"]).state, HookState::Off);
        assert_eq!(outcome(Topic::Cpu, &["sched_switch"]).reason, "sched_switch refused");
        assert_eq!(outcome(Topic::Oom, &["sched_switch"]).state, HookState::On);
    }

    #[test]
    fn a_common_reason_is_said_once() {
        let lacking: Vec<_> = PROGRAMS.iter().map(|s| (*s, Err("no such field".to_owned()))).collect();
        let told = status(Topic::Network, &lacking);
        assert_eq!((told.state, told.reason.as_str()), (HookState::Off, "no such field"));
    }

    #[test]
    fn half_a_topic_is_partial() {
        assert_eq!(
            outcome(Topic::Reclaim, &["direct_reclaim_begin", "direct_reclaim_end"]).state,
            HookState::Partial
        );
        assert_eq!(outcome(Topic::CgroupLifecycle, &["cgroup_transfer_tasks"]).state, HookState::Partial);
        assert_eq!(outcome(Topic::Network, &["network_ingress", "network_egress"]).state, HookState::Off);
    }
}
