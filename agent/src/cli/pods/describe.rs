//! Details of one pod, in the order of `kubectl describe`. Pure.

use std::collections::HashMap;

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{Container, Ended, OomVictim, Pod, Use, container::State};

use super::list::age;
use super::page::{Page, moment};
use super::{probe, reason, used};

/// Number of events shown; `nodewarden events` prints the others.
const NEWEST: usize = 50;

/// The text. `before` is an earlier reading of the same pod, from which CPU usage is computed; `events` are
/// lines, newest last.
pub fn text(before: Option<&Pod>, pod: &Pod, events: &[String], now: Timestamp) -> String {
    let mut out = Page::default();
    out.line("Name", &pod.name);
    out.line("Namespace", &pod.namespace);
    out.line("UID", &pod.uid);
    out.line("Manifest", &pod.origin);
    out.line("QoS class", &pod.qos);
    out.line("Priority", &pod.priority.to_string());
    let started = age(pod.started.as_ref(), now);
    out.line("Accepted", &format!("{} ({started} ago)", moment(pod.started.as_ref())));
    for (key, list) in [("Labels", &pod.labels), ("Annotations", &pod.annotations)] {
        out.line(key, &pairs(list, "="));
    }
    let (ready, all) = reason::ready(pod);
    out.line("State", &format!("{}, {ready} of {all} ready", reason::state(pod)));
    out.line("Reason", &reason::reason(pod));
    out.line("Message", &pod.message);
    if let Some(since) = &pod.terminating {
        out.line("Terminating since", &format!("{} ({})", moment(Some(since)), age(Some(since), now)));
    }
    out.line("Resize", &pod.resize);
    out.line("Sandbox", &pod.sandbox_id);
    let ips = pod.ips.join(", ");
    out.line("IP", &if pod.host_network { format!("{ips} (the node's own network)") } else { ips });
    use_of(&mut out, before.and_then(|b| b.r#use.as_ref()), pod.r#use.as_ref());
    for (title, kinds) in [("Init containers", &["init", "sidecar"][..]), ("Containers", &["container"])] {
        let mut shown = pod.containers.iter().filter(|c| kinds.contains(&c.kind.as_str())).peekable();
        if shown.peek().is_some() {
            out.title(title);
        }
        for container in shown {
            let old = before.and_then(|b| b.containers.iter().find(|c| c.name == container.name));
            // The counters of another run of the container started at zero.
            describe_container(&mut out, old.filter(|old| old.id == container.id), container, now);
        }
    }
    out.title("Events");
    let left_out = events.len().saturating_sub(NEWEST);
    if left_out > 0 {
        out.item(&format!(
            "({left_out} older ones: nodewarden events --pod {}/{} --no-follow)",
            pod.namespace, pod.name
        ));
    }
    for event in events.iter().skip(left_out) {
        out.item(event);
    }
    if events.is_empty() {
        out.item("none in the journal");
    }
    out.text
}

fn describe_container(out: &mut Page, before: Option<&Container>, container: &Container, now: Timestamp) {
    let kind = if container.kind == "sidecar" { " (sidecar)" } else { "" };
    out.indent = 1;
    out.heading(&format!("{}{kind}", container.name));
    out.indent = 2;
    out.line("Container ID", &container.id);
    out.line("Image", &container.image);
    out.line("Image ID", &container.image_id);
    match &container.state {
        None => {}
        Some(State::Waiting(waiting)) => {
            out.line("State", "Waiting");
            out.inner("Reason", &waiting.reason);
            out.inner("Message", &waiting.message);
        }
        Some(State::RunningSince(since)) => {
            out.line("State", "Running");
            out.inner("Started", &format!("{} ({} ago)", moment(Some(since)), age(Some(since), now)));
        }
        Some(State::Terminated(ended)) => {
            out.line("State", "Terminated");
            describe_end(out, ended);
        }
    }
    if let Some(last) = &container.last {
        out.line("Last state", "Terminated");
        describe_end(out, last);
    }
    out.line("Ready", if container.ready { "yes" } else { "no" });
    out.line("Restarts", &container.restarts.to_string());
    let in_state = matches!(&container.state, Some(State::Terminated(ended)) if ended.oom.is_some());
    if let Some(victim) = container.oom.as_ref().filter(|_| !in_state) {
        out.line("Killed for memory", &killed(victim));
    }
    out.line("Requests", &pairs(&container.requests, " "));
    out.line("Limits", &pairs(&container.limits, " "));
    use_of(out, before.and_then(|b| b.r#use.as_ref()), container.r#use.as_ref());
    for own in &container.probes {
        probe::describe(out, own, now);
    }
    out.indent = 0;
}

fn describe_end(out: &mut Page, ended: &Ended) {
    out.inner("Reason", &ended.reason);
    let signal = nix::sys::signal::Signal::try_from(ended.signal).ok().map(|s| format!(" ({})", s.as_str()));
    out.inner("Exit code", &format!("{}{}", ended.exit_code, signal.unwrap_or_default()));
    out.inner("Message", ended.message.trim_end());
    if let Some(victim) = &ended.oom {
        out.inner("Killed for memory", &killed(victim));
    }
    out.inner("Started", &moment(ended.started.as_ref()));
    out.inner("Finished", &moment(ended.finished.as_ref()));
}

/// The process that the kernel's OOM killer chose.
fn killed(victim: &OomVictim) -> String {
    format!("{} (pid {}) at {}", victim.command, victim.pid, moment(victim.time.as_ref()))
}

fn use_of(out: &mut Page, before: Option<&Use>, now: Option<&Use>) {
    if now.is_none() {
        return;
    }
    let limits = match used::limits(now) {
        none if none.is_empty() => "without a limit".to_owned(),
        limits => format!("may use {limits}"),
    };
    let (cpu, memory) = (used::cpu(before, now), used::memory(now));
    out.line("Use", &format!("cpu {cpu}, memory {memory}; {limits}"));
}

fn pairs(map: &HashMap<String, String>, between: &str) -> String {
    let mut pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}{between}{value}")).collect();
    pairs.sort();
    pairs.join(", ")
}
