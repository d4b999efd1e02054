//! `nodewarden status`: which parts work, which are off and why, and the agent's own resource usage.

mod pressure;
mod privileges;

use std::fmt::Write as _;
use std::time::SystemTime;

use clap::Args;
use nodewarden_proto::nodewarden::v1::{
    GetStatusRequest, GetStatusResponse, HierarchyStatus, NodeResource, PodCgroup, PodCounts, ProgramCost,
};
use serde_json::json;

use super::events::Output;
use super::format::{bytes, count, nanos, span};
use super::output::print;
use super::table::{Align, table};
use super::{CliError, SocketArg, client};
use nodewarden_api::grpc::time;

/// Print which parts of the agent work, which are off and why, and its own resource usage
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodewarden status
  nodewarden status --output json | jq '.pressure.conditions[] | select(.status == \"True\") | .message'
  nodewarden status --output json | jq '.topics[] | select(.state != \"on\")'")]
pub struct StatusArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Text or one JSON object
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub async fn run(args: StatusArgs) -> Result<(), CliError> {
    let mut client = client::connect(&args.socket.socket).await?;
    let status =
        client.get_status(GetStatusRequest {}).await.map_err(CliError::call("GetStatus"))?.into_inner();
    let text = match args.output {
        Output::Text => text(&status, SystemTime::now()),
        Output::Json => format!("{}\n", json(&status)),
    };
    Ok(print(&text)?)
}

/// Mean run time in nanoseconds; `None` before the first run, or if the kernel does not measure it.
fn mean_ns(program: &ProgramCost) -> Option<u64> {
    (program.run_time_ns > 0).then(|| program.run_time_ns.checked_div(program.run_count)).flatten()
}

fn text(s: &GetStatusResponse, now: SystemTime) -> String {
    let up = s
        .started
        .and_then(|t| time::between(&t, &time::from_system_time(now)))
        .map(|d| format!(", up {}", span(d)))
        .unwrap_or_default();
    let mut out = format!("nodewarden {} in mode {}{up}\n", s.version, s.mode);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "kernel     {}", s.kernel_version);
    let _ = writeln!(out, "cgroups    {}: {}", s.cgroup_layout, s.controllers.join(", "));
    let _ = writeln!(out, "counted    {} of at most {} cgroups", s.cgroups, s.cgroup_capacity);
    if s.cgroups_untracked > 0 || s.untracked_counts > 0 {
        let (groups, counts) = (s.cgroups_untracked, count(s.untracked_counts));
        let _ = writeln!(
            out,
            "           {groups} cgroups not counted so far ({counts} counts lost): raise maxCgroups"
        );
    }
    let _ = writeln!(out, "names      {}", s.runtime);
    if let Some(h) = &s.hierarchy {
        hierarchy(&mut out, h);
    }
    if let Some(pods) = &s.pods {
        pod_counts(&mut out, pods);
    }
    for (at, own) in s.devices.iter().enumerate() {
        let head = if at == 0 { "devices" } else { "" };
        let away = if own.away_since.is_some() { ", plugin disconnected" } else { "" };
        let _ = writeln!(
            out,
            "{head:<11}{}: {} of {} allocatable, {} allocated{away}",
            own.name,
            own.allocatable.map_or_else(|| "an unknown number".to_owned(), |devices| devices.to_string()),
            own.capacity,
            own.allocated
        );
    }
    if let Some(own) = &s.pressure {
        pressure::lines(&mut out, own, now);
    }
    let errors = match s.journal_write_errors {
        0 => String::new(),
        n => format!(", {n} write errors"),
    };
    let _ = writeln!(out, "journal    {} events in memory{errors}", s.journal_events);
    let (cpu, rss, maps) = (s.cpu_seconds, bytes(s.resident_bytes), bytes(s.map_bytes));
    let _ = writeln!(out, "cost       {cpu:.2} CPU seconds, {rss} resident, {maps} in eBPF maps");
    if let Some(own) = &s.privileges {
        privileges::lines(&mut out, own);
    }
    for warning in &s.warnings {
        let _ = writeln!(out, "warning    {warning}");
    }
    let row = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
    let left = Align::Left;
    let right = Align::Right;

    if let Some(own) = &s.pressure {
        pressure::table(&mut out, own);
    }
    if let Some(own) = s.privileges.as_ref().filter(|own| !own.capabilities.is_empty()) {
        let mut held = vec![row(&["CAPABILITY", "FOR"])];
        held.extend(own.capabilities.iter().map(|c| row(&[&c.name, privileges::why(c)])));
        let _ = write!(out, "\n{}", table(&held, &[left, left]));
    }
    let mut topics = vec![row(&["TOPIC", "STATE", "REASON"])];
    topics.extend(s.topics.iter().map(|t| row(&[&t.topic, &t.state, &t.reason])));
    let _ = write!(out, "\n{}", table(&topics, &[left, left, left]));

    let mut programs = vec![row(&["PROGRAM", "TOPIC", "HOOK", "RUNS", "MEAN", "MEMORY", "SKIPPED"])];
    programs.extend(s.programs.iter().map(|p| {
        let mean = mean_ns(p).map_or_else(|| "-".to_owned(), nanos);
        let skipped = p.recursion_misses.map_or_else(|| "-".to_owned(), count);
        row(&[&p.name, &p.topic, &p.hook, &count(p.run_count), &mean, &bytes(p.memory_bytes), &skipped])
    }));
    let _ = write!(out, "\n{}", table(&programs, &[left, left, left, right, right, right, right]));
    let _ = writeln!(
        out,
        "(runs during the {:.0} s in which the kernel measured them; skipped: the program was already running on that CPU, and what \
         it would have counted is missing)",
        s.programs_measured_seconds
    );

    let mut events = vec![row(&["EVENT", "SEEN", "LOST"])];
    events.extend(s.events.iter().map(|e| row(&[&e.r#type, &e.seen.to_string(), &e.lost.to_string()])));
    let _ = write!(out, "\n{}", table(&events, &[left, right, right]));
    out
}

/// Number of pods by state; states without pods are left out.
fn pod_counts(out: &mut String, pods: &PodCounts) {
    let counts = [
        (pods.running, "running"),
        (pods.pending, "pending"),
        (pods.succeeded, "succeeded"),
        (pods.failed, "failed"),
        (pods.ending, "terminating"),
    ];
    let nonzero: Vec<_> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let _ = writeln!(out, "           {}", nonzero.join(", "));
}

fn hierarchy(out: &mut String, h: &HierarchyStatus) {
    let _ = writeln!(out, "hierarchy  {} by {} ({})", h.kubepods, h.driver, h.driver_from);
    for (at, own) in h.resources.iter().enumerate() {
        let head = if at == 0 { "node" } else { "" };
        let amount = |amount| amount_of(own, amount);
        let _ = writeln!(
            out,
            "{head:<11}{}: {} of {} allocatable",
            own.name,
            amount(own.allocatable),
            amount(own.capacity)
        );
    }
    let failed = h.pods.iter().filter(|p| !p.problem.is_empty());
    let removing = match h.removing.len() {
        0 => String::new(),
        n => format!(", {n} being removed"),
    };
    let _ = writeln!(
        out,
        "pods       {}{removing}; {} limits corrected since start",
        h.pods.len(),
        h.corrections
    );
    for pod in failed.chain(&h.removing).filter(|p| !p.problem.is_empty()) {
        let name =
            if pod.name.is_empty() { pod.uid.clone() } else { format!("{}/{}", pod.namespace, pod.name) };
        let _ = writeln!(out, "           {name} [{}]: {}", pod.path, pod.problem);
    }
    for path in &h.foreign {
        let _ = writeln!(out, "           {path} is not the agent's and is left alone");
    }
    for problem in &h.problems {
        let _ = writeln!(out, "warning    {problem}");
    }
}

/// An amount of a resource as text.
fn amount_of(resource: &NodeResource, amount: u64) -> String {
    let NodeResource { name, capacity, allocatable } = resource.clone();
    let resource = nodewarden_model::NodeResource { name, capacity, allocatable };
    match resource.is_bytes() {
        true => bytes(amount),
        false if resource.name == nodewarden_model::NodeResource::CPU => format!("{amount}m"),
        false => amount.to_string(),
    }
}

fn hierarchy_json(h: &HierarchyStatus) -> serde_json::Value {
    let pods = |pods: &[PodCgroup]| {
        pods.iter()
            .map(|p| {
                json!({
                    "uid": p.uid, "namespace": p.namespace, "name": p.name, "qos": p.qos, "path": p.path,
                    "problem": p.problem,
                })
            })
            .collect::<Vec<_>>()
    };
    let last = h.last_reconcile.as_ref().and_then(time::to_timestamp).map(|t| t.to_string());
    json!({
        "driver": h.driver, "driverFrom": h.driver_from, "kubepods": h.kubepods,
        "pods": pods(&h.pods), "removing": pods(&h.removing), "foreign": h.foreign,
        "resources": h.resources.iter().map(|r| json!({
            "name": r.name, "capacity": r.capacity, "allocatable": r.allocatable,
        })).collect::<Vec<_>>(),
        "lastReconcile": last, "corrections": h.corrections, "problems": h.problems,
    })
}

fn json(s: &GetStatusResponse) -> serde_json::Value {
    let started = s.started.as_ref().and_then(time::to_timestamp).map(|t| t.to_string());
    json!({
        "version": s.version,
        "mode": s.mode,
        "started": started,
        "kernelVersion": s.kernel_version,
        "cgroupLayout": s.cgroup_layout,
        "controllers": s.controllers,
        "topics": s.topics.iter().map(|t| json!({
            "topic": t.topic, "state": t.state, "reason": t.reason,
        })).collect::<Vec<_>>(),
        "programsMeasuredSeconds": s.programs_measured_seconds,
        "programs": s.programs.iter().map(|p| json!({
            "name": p.name, "topic": p.topic, "hook": p.hook, "runCount": p.run_count,
            "runTimeNs": p.run_time_ns, "meanNs": mean_ns(p), "memoryBytes": p.memory_bytes,
            "recursionMisses": p.recursion_misses,
        })).collect::<Vec<_>>(),
        "events": s.events.iter().map(|e| json!({
            "type": e.r#type, "seen": e.seen, "lost": e.lost,
        })).collect::<Vec<_>>(),
        "cgroups": s.cgroups,
        "cgroupCapacity": s.cgroup_capacity,
        "cgroupsUntracked": s.cgroups_untracked,
        "untrackedCounts": s.untracked_counts,
        "cost": {
            "cpuSeconds": s.cpu_seconds, "residentBytes": s.resident_bytes, "mapBytes": s.map_bytes,
        },
        "runtime": s.runtime,
        "warnings": s.warnings,
        "journalEvents": s.journal_events,
        "journalWriteErrors": s.journal_write_errors,
        "privileges": s.privileges.as_ref().map(privileges::json),
        "pressure": s.pressure.as_ref().map(pressure::json),
        "hierarchy": s.hierarchy.as_ref().map(hierarchy_json),
        "pods": s.pods.as_ref().map(|p| json!({
            "pending": p.pending, "running": p.running, "succeeded": p.succeeded, "failed": p.failed,
            "ending": p.ending,
        })),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use nodewarden_api::grpc::status::counted as answer;
    use nodewarden_model::fixture::Node;
    use nodewarden_model::{AgentState, DevicesView};

    fn devices() -> DevicesView {
        nodewarden_metrics::fixture::devices()
    }

    #[test]
    fn the_text_shows_what_is_off_and_why() {
        let status = Node::default().status();
        let now = status.started + Duration::from_secs(90);
        let text = text(&answer(status, &Node::default().pods(), devices()), now);
        for part in [
            "nodewarden 0.1.0 in mode observe, up 1m30s\n",
            "cgroups    hybrid: cpu (v1), memory (v1)\n",
            "warning    journal: disk full\n",
            "privileges none by programs' files, 50 system calls refused; given up: CAP_SYSLOG, CAP_PERFMON\n",
            "CAP_BPF     read maps\n",
            "cpu      on\n",
            "network  off    cgroup_skb: operation not permitted\n",
            "sched_switch  cpu    tp_btf/sched_switch  1.00k  150ns  4.00Ki        2\n",
            "oom       3     0\n",
            "hierarchy  /kubepods by cgroupfs (configuration)\nnode       cpu: 1900m of 2000m allocatable\n",
            "           memory: 3.00Gi of 4.00Gi allocatable\n           pods: 110 of 110 allocatable\npods       1, 1 being removed; 4 limits corrected since start\n",
            "           1 running\n",
            "devices    a.b/c: 1 of 2 allocatable, 1 allocated\n           x.y/z: 0 of 0 allocatable, 0 allocated, plugin disconnected\n",
            "           u2 [/kubepods/podu2]: pid 7 does not die\n",
            "           /kubepods/podx is not the agent's and is left alone\nwarning    the manifest directory is gone\n",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn the_json_has_the_same_content() {
        let json = json(&answer(Node::default().status(), &Node::default().pods(), devices()));
        assert_eq!((&json["pods"]["running"], &json["pods"]["ending"]), (&1.into(), &0.into()));
        let cpu = serde_json::json!({"name": "cpu", "capacity": 2000, "allocatable": 1900});
        assert_eq!(json["hierarchy"]["resources"][0], cpu);
        assert_eq!(json["programs"][0]["meanNs"], 150);
        assert_eq!(json["topics"][1]["state"], "off");
        assert_eq!(json["cost"]["cpuSeconds"], 1.25);
        assert_eq!(json["privileges"]["capabilities"][0]["name"], "CAP_BPF");
    }

    #[test]
    fn there_is_no_mean_without_a_measurement() {
        let program = ProgramCost { run_count: 5, ..ProgramCost::default() };
        assert_eq!(mean_ns(&program), None);
    }
}
