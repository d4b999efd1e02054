//! Families about the agent itself: the state of its topics, events seen and lost, its own resource usage.

use std::time::UNIX_EPOCH;

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{HookState, ProgramCost, Status};

/// Writes every family about the agent.
pub(super) fn write(out: &mut Exposition<'_>, status: &Status) {
    identity(out, status);
    topics(out, status);
    programs(out, status);
    events(out, status);
    let singles = [
        (Own::CgroupsTracked, Value::Int(status.cgroups)),
        (Own::CgroupCapacity, Value::Int(status.cgroup_capacity)),
        (Own::CgroupsUntracked, Value::Int(status.cgroups_untracked)),
        (Own::UntrackedCounts, Value::Int(status.untracked_counts)),
        (Own::MapMemory, Value::Int(status.cost.map_bytes)),
        (Own::JournalEvents, Value::Int(status.journal_events)),
        (Own::JournalWriteErrors, Value::Int(status.journal_write_errors)),
        (Own::AgentCpu, Value::Float(status.cost.cpu_seconds)),
        (Own::AgentMemory, Value::Int(status.cost.resident_bytes)),
        (Own::ProcessCpu, Value::Float(status.cost.cpu_seconds)),
        (Own::ProcessMemory, Value::Int(status.cost.resident_bytes)),
    ];
    for (family, value) in singles {
        out.single(family.desc(), value);
    }
}

fn identity(out: &mut Exposition<'_>, status: &Status) {
    let one = Value::Int(1);
    out.family(Own::BuildInfo.desc()).sample(&[], &[("version", &status.version)], one, &[]);
    let info = [
        ("cgroup_layout", &*status.cgroup_layout),
        ("kernel", &*status.kernel_version),
        ("mode", &*status.mode),
    ];
    out.family(Own::AgentInfo.desc()).sample(&[], &info, one, &[]);
    if let Ok(since) = status.started.duration_since(UNIX_EPOCH) {
        out.single(Own::StartTime.desc(), Value::Float(since.as_secs_f64()));
    }
}

fn topics(out: &mut Exposition<'_>, status: &Status) {
    let mut writer = out.family(Own::TopicState.desc());
    for topic in &status.topics {
        for state in [HookState::On, HookState::Partial, HookState::Off] {
            let extra = [("topic", topic.topic.name()), ("state", state.name())];
            writer.sample(&[], &extra, Value::Int(u64::from(topic.state == state)), &[]);
        }
    }
}

fn programs(out: &mut Exposition<'_>, status: &Status) {
    out.single(Own::ProgramsMeasured.desc(), Value::Float(status.programs_measured_seconds));
    type PickCost = fn(&ProgramCost) -> Option<Value>;
    let families: [(Own, PickCost); 4] = [
        (Own::ProgramRuns, |p| Some(Value::Int(p.run_count))),
        (Own::ProgramSeconds, |p| Some(Value::Nanos(p.run_time_ns))),
        (Own::ProgramMemory, |p| Some(Value::Int(p.memory_bytes))),
        (Own::ProgramMisses, |p| p.recursion_misses.map(Value::Int)),
    ];
    for (family, value) in families {
        let mut writer = out.family(family.desc());
        for program in &status.programs {
            if let Some(value) = value(program) {
                let extra = [("program", &*program.name), ("hook", &*program.hook)];
                writer.sample(&[], &extra, value, &[]);
            }
        }
    }
}

fn events(out: &mut Exposition<'_>, status: &Status) {
    let mut writer = out.family(Own::EventsSeen.desc());
    for count in &status.events {
        writer.sample(&[], &[("type", count.event_type.name())], Value::Int(count.seen), &[]);
    }
    let mut writer = out.family(Own::EventsLost.desc());
    for count in &status.events {
        writer.sample(&[], &[("type", count.event_type.name())], Value::Int(count.lost), &[]);
    }
}
