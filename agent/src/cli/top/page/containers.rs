//! The containers of a pod, or the cgroups directly below another: a line of figures each as in the table,
//! and below it what is known of the container. Pure.

use std::collections::HashMap;

use nodewarden_proto::nodewarden::v1::{Cgroup, Container, Ended, Probe, container::State};
use ratatui::style::{Color, Style};
use ratatui::text::Line;

use super::super::columns::fit;
use super::super::lines;
use super::super::rates::Row;
use super::Known;
use super::wrap::wrap;
use crate::cli::format::printable;
use crate::cli::neighbours;
use crate::cli::pods::list::age;

/// One of them. A container that does not run has no row, and one that the agent does not run is known as a
/// cgroup only.
struct Part<'a> {
    name: String,
    row: Option<&'a Row>,
    cgroup: Option<&'a Cgroup>,
    container: Option<&'a Container>,
}

pub fn lines(known: &Known<'_>, width: usize) -> Vec<Line<'static>> {
    let (title, parts) = match known.page.pod.is_empty() {
        true => ("CGROUP BELOW", below(known)),
        false => ("CONTAINER", containers(known)),
    };
    if parts.is_empty() {
        return Vec::new();
    }
    let fit = fit(width);
    let mut out = vec![lines::head(title, &fit, known.sort)];
    let nothing = Row::default();
    for part in &parts {
        out.push(lines::row(part.row.unwrap_or(&nothing), &part.name, &fit, known.history, known.sort));
        for (text, style) in more(known, part) {
            let text = format!("  {}", printable(&text));
            out.extend(wrap(&text, width, 4).into_iter().map(|line| Line::styled(line, style)));
        }
    }
    out
}

/// The cgroups directly below, by name.
fn below<'a>(known: &Known<'a>) -> Vec<Part<'a>> {
    let above = known.page.path.trim_end_matches('/');
    let name = |row: &Row| Some(row.path.strip_prefix(above)?.strip_prefix('/')?.to_owned());
    let direct = |name: &String| !name.is_empty() && !name.contains('/');
    let rows = known.rows.iter().filter_map(|row| Some((name(row).filter(direct)?, row)));
    let mut parts: Vec<Part<'_>> =
        rows.map(|(name, row)| Part { name, row: Some(row), cgroup: None, container: None }).collect();
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

/// Those of the manifest in its order, then others that have a cgroup.
fn containers<'a>(known: &Known<'a>) -> Vec<Part<'a>> {
    let of_pod = |own: &&Cgroup| {
        let pod = own.pod.as_ref().is_some_and(|pod| pod.uid == known.page.pod);
        pod && own.kind == "container" && own.removed.is_none()
    };
    let id = |own: &Cgroup| own.pod.as_ref().map(|pod| pod.container_id.clone()).unwrap_or_default();
    let mut running: Vec<&Cgroup> = known.cgroups.iter().filter(of_pod).collect();
    let mut parts = Vec::new();
    for container in known.details.pod.iter().flat_map(|pod| &pod.containers) {
        let at = running.iter().position(|own| !container.id.is_empty() && id(own) == container.id);
        let cgroup = at.map(|at| running.remove(at));
        parts.push(Part {
            name: container.name.clone(),
            row: cgroup.and_then(|own| known.row(&own.path)),
            cgroup,
            container: Some(container),
        });
    }
    for cgroup in running {
        let name = cgroup.pod.as_ref().map(|pod| pod.container_name.clone()).unwrap_or_default();
        let name = if name.is_empty() { id(cgroup).chars().take(12).collect() } else { name };
        parts.push(Part { name, row: known.row(&cgroup.path), cgroup: Some(cgroup), container: None });
    }
    parts
}

/// What is known besides its figures.
fn more(known: &Known<'_>, part: &Part<'_>) -> Vec<(String, Style)> {
    let (quiet, bad) = (Style::new().fg(Color::DarkGray), Style::new().fg(Color::Red));
    let mut out = Vec::new();
    if let Some(own) = part.container {
        let starts =
            if own.kind == "container" { String::new() } else { format!("{} container: ", own.kind) };
        let restarts = format!("{} restart{}", own.restarts, if own.restarts == 1 { "" } else { "s" });
        let ready = if own.ready { "ready" } else { "not ready" };
        let state = state(known, own);
        out.push((format!("{starts}{state}, {ready}, {restarts}, image {}", own.image), Style::new()));
        if let Some(last) = &own.last {
            out.push((format!("last ended: {}", ended(known, last)), Style::new().fg(Color::Yellow)));
        }
        let sizes = [("requests", &own.requests), ("limits", &own.limits)];
        let sizes = sizes.into_iter().filter(|(_, map)| !map.is_empty());
        let sizes: Vec<String> = sizes.map(|(what, map)| format!("{what} {}", pairs(map))).collect();
        if !sizes.is_empty() {
            out.push((sizes.join("; "), quiet));
        }
        for own in &own.probes {
            out.push((probe(own), if own.result == "failure" { bad } else { quiet }));
        }
    } else if let Some(cgroup) = part.cgroup {
        let image = if cgroup.image.is_empty() { String::new() } else { format!(", image {}", cgroup.image) };
        out.push((format!("created {} ago{image}", age(cgroup.created.as_ref(), known.now)), quiet));
    }
    let waits = part.cgroup.map(|cgroup| neighbours::lines(&cgroup.waits)).unwrap_or_default();
    out.extend(waits.into_iter().map(|line| (line, quiet)));
    out
}

fn state(known: &Known<'_>, own: &Container) -> String {
    match &own.state {
        None => "unknown".to_owned(),
        Some(State::Waiting(waiting)) if waiting.message.is_empty() => format!("Waiting: {}", waiting.reason),
        Some(State::Waiting(waiting)) => format!("Waiting: {}: {}", waiting.reason, waiting.message),
        Some(State::RunningSince(since)) => format!("Running for {}", age(Some(since), known.now)),
        Some(State::Terminated(end)) => format!("Terminated: {}", ended(known, end)),
    }
}

fn ended(known: &Known<'_>, end: &Ended) -> String {
    let how = if end.reason.is_empty() { String::new() } else { format!("{}, ", end.reason) };
    let victim =
        end.oom.as_ref().map(|own| format!(", killed for memory: {} (pid {})", own.command, own.pid));
    let (code, since) = (end.exit_code, age(end.finished.as_ref(), known.now));
    format!("{how}exit code {code}, {since} ago{}", victim.unwrap_or_default())
}

fn probe(own: &Probe) -> String {
    let result = if own.result.is_empty() { "no result yet" } else { &own.result };
    let in_a_row = if own.in_a_row > 1 { format!(" ({} in a row)", own.in_a_row) } else { String::new() };
    let waits =
        if own.waits_for.is_empty() { String::new() } else { format!(", waits for {}", own.waits_for) };
    let output = own
        .last
        .as_ref()
        .filter(|last| last.outcome != "success")
        .and_then(|last| last.output.lines().next());
    let output = output.map(|line| format!(": {}", line.trim())).unwrap_or_default();
    format!("{} {result}{in_a_row}{waits}{output}; {}", own.r#type.to_lowercase(), own.spec)
}

fn pairs(map: &HashMap<String, String>) -> String {
    let mut pairs: Vec<String> = map.iter().map(|(name, value)| format!("{name} {value}")).collect();
    pairs.sort();
    pairs.join(", ")
}
