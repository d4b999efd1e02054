//! Attaching programs. Those of each topic are in `nodewarden_model::Topic::spec`. If the kernel refuses one,
//! that program alone stays off, and its topic has the reason.

use std::fs::File;
use std::path::Path;

use aya::programs::{BtfTracePoint, CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, KProbe, ProgramError};
use aya::{Btf, Ebpf};

use nodewarden_model::{Hook, HookState, Program, Topic, TopicStatus};

/// Programs that do nothing, for the benchmark of the overhead.
pub const EMPTY_PROGRAMS: &[(Topic, Program)] =
    &[(Topic::Cpu, Program::at("empty_sched_switch", "sched_switch"))];

/// The outcome of attaching one program.
#[derive(Clone, Debug)]
pub struct Attached {
    pub topic: Topic,
    pub program: Program,
    /// The feature that this kernel lacks, or its error, as text for the status.
    pub outcome: Result<(), String>,
}

/// Loads and attaches one program.
///
/// # Errors
/// The kernel's error, as text for the status.
pub fn attach(ebpf: &mut Ebpf, btf: &Btf, spec: &Program, unified: Option<&Path>) -> Result<(), String> {
    let hook = spec.hook;
    let explain = |what: &str, error: &ProgramError| format!("{hook}: {what}: {}", chain(error));
    match hook {
        Hook::Tracepoint(name) => {
            load_tracepoint(ebpf, btf, spec, name)?.attach().map_err(|e| explain("attach", &e))?;
        }
        Hook::Function(name) => {
            let program: &mut KProbe =
                named(ebpf, spec)?.try_into().map_err(|e| explain("wrong kind", &e))?;
            program.load().map_err(|e| explain("load", &e))?;
            program.attach(name, 0).map_err(|e| explain("attach", &e))?;
        }
        Hook::Ingress | Hook::Egress => {
            let root = unified.ok_or_else(|| format!("{hook}: no cgroup2 file system is mounted"))?;
            let root = File::open(root).map_err(|e| format!("{hook}: open {}: {e}", root.display()))?;
            let program: &mut CgroupSkb =
                named(ebpf, spec)?.try_into().map_err(|e| explain("wrong kind", &e))?;
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

/// Loads a program for the tracepoint of this name, without attaching it.
///
/// # Errors
/// The kernel's error, as text for the status.
pub fn load_tracepoint<'a>(
    ebpf: &'a mut Ebpf,
    btf: &Btf,
    spec: &Program,
    tracepoint: &str,
) -> Result<&'a mut BtfTracePoint, String> {
    let explain = |what: &str, error: &ProgramError| format!("{}: {what}: {}", spec.hook, chain(error));
    let program: &mut BtfTracePoint = named(ebpf, spec)?.try_into().map_err(|e| explain("wrong kind", &e))?;
    program.load(tracepoint, btf).map_err(|e| explain("load", &e))?;
    Ok(program)
}

/// The program in the object.
fn named<'a>(ebpf: &'a mut Ebpf, spec: &Program) -> Result<&'a mut aya::programs::Program, String> {
    ebpf.program_mut(spec.name).ok_or_else(|| format!("the eBPF object has no program {}", spec.name))
}

/// An error with its causes; a long text (the verifier's log) is cut in the middle.
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

/// A topic's state, from the outcomes of its programs and, if something else is missing that makes the topic
/// less than whole, from that.
pub fn status(topic: Topic, attached: &[Attached], degraded: Option<&str>) -> TopicStatus {
    let of_topic: Vec<_> = attached.iter().filter(|a| a.topic == topic).collect();
    // A reason that several programs have is given once.
    let mut reasons: Vec<&str> = Vec::new();
    for reason in of_topic.iter().filter_map(|a| a.outcome.as_ref().err()) {
        if !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    let required_failed = of_topic.iter().filter(|a| a.outcome.is_err() && !a.program.optional).count();
    let required = of_topic.iter().filter(|a| !a.program.optional).count();
    let state = match (reasons.len(), required_failed) {
        (0, _) if !of_topic.is_empty() => HookState::On,
        (_, n) if n < required => HookState::Partial,
        _ => HookState::Off,
    };
    let state = match (state, degraded) {
        (HookState::On | HookState::Partial, Some(reason)) => {
            reasons.push(reason);
            HookState::Partial
        }
        (state, _) => state,
    };
    TopicStatus { topic, state, reason: reasons.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(topic: Topic, failing: &[&str]) -> TopicStatus {
        let refused =
            |name: &str| if failing.contains(&name) { Err(format!("{name} refused")) } else { Ok(()) };
        status(topic, &all(refused), None)
    }

    /// Every program of every topic.
    fn all(outcome: impl Fn(&str) -> Result<(), String>) -> Vec<Attached> {
        let of = |topic: Topic| topic.spec().programs.iter().map(move |program| (topic, *program));
        let programs = Topic::ALL.into_iter().flat_map(of);
        programs.map(|(topic, program)| Attached { topic, program, outcome: outcome(program.name) }).collect()
    }

    #[test]
    fn one_refused_hook_turns_off_its_topic_alone() {
        assert_eq!(outcome(Topic::Cpu, &["sched_switch"]).state, HookState::Off);
        assert_eq!(outcome(Topic::Cpu, &["sched_switch"]).reason, "sched_switch refused");
        assert_eq!(outcome(Topic::Oom, &["sched_switch"]).state, HookState::On);
    }

    #[test]
    fn a_reason_that_programs_share_is_given_once() {
        let status = status(Topic::Network, &all(|_| Err("no such field".to_owned())), None);
        assert_eq!((status.state, status.reason.as_str()), (HookState::Off, "no such field"));
    }

    #[test]
    fn an_attached_topic_that_lacks_something_is_partial() {
        let state = |refused: bool| {
            let outcome = |_: &str| if refused { Err("refused".to_owned()) } else { Ok(()) };
            status(Topic::Oom, &all(outcome), Some("scope unknown"))
        };
        let TopicStatus { state: attached, reason, .. } = state(false);
        assert_eq!((attached, reason.as_str()), (HookState::Partial, "scope unknown"));
        assert_eq!((state(true).state, state(true).reason.as_str()), (HookState::Off, "refused"));
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
