//! The page of a pod (or of a cgroup that belongs to none): what it waits for, its limits, containers and
//! events. Pure.

mod containers;
pub mod details;
mod facts;
mod wrap;

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::Cgroup;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::history::{Figure, History, KEPT};
use super::rates::Row;
use super::sort::Sort;
use super::state::Page;
use crate::cli::event_line;
use crate::cli::format::{printable, span};
use crate::cli::pods::list::age;
use crate::cli::pods::reason;
use details::Details;
use nodewarden_model::{Event, EventType, Place};
use wrap::wrap;

/// What is known of its subject.
pub struct Known<'a> {
    pub page: &'a Page,
    pub rows: &'a [Row],
    pub cgroups: &'a [Cgroup],
    pub history: &'a History,
    pub details: &'a Details,
    /// The order of the table, which decides whose history the containers have.
    pub sort: Sort,
    pub now: Timestamp,
}

/// What is drawn.
pub struct Content {
    pub title: String,
    pub subtitle: Line<'static>,
    pub charts: Vec<Chart>,
    /// As wide as the screen, and as long as need be.
    pub body: Vec<Line<'static>>,
}

/// The history of a figure.
pub struct Chart {
    pub title: String,
    pub figure: Figure,
    pub values: Vec<Option<f64>>,
    /// What fills a bar.
    pub top: f64,
}

impl<'a> Known<'a> {
    fn row(&self, path: &str) -> Option<&'a Row> {
        self.rows.iter().find(|row| row.path == path)
    }

    fn cgroup(&self, path: &str) -> Option<&'a Cgroup> {
        self.cgroups.iter().find(|cgroup| cgroup.path == path && cgroup.removed.is_none())
    }

    /// For a screen of this width.
    pub fn content(&self, width: usize) -> Content {
        let row = self.row(&self.page.path);
        let mut body = Vec::new();
        if let Some((row, cgroup)) = row.zip(self.cgroup(&self.page.path)) {
            for (key, value) in facts::facts(row, cgroup) {
                let text = format!("{key:<10} {}", printable(&value));
                body.extend(wrap(&text, width, 11).into_iter().map(Line::raw));
            }
        }
        body.extend(containers::lines(self, width));
        if !self.page.pod.is_empty() {
            body.push(heading("EVENTS", width));
            body.extend(self.details.events.iter().rev().flat_map(|event| self.event(event, width)));
            if self.details.events.is_empty() {
                body.push(Line::raw("none in the journal"));
            }
        }
        let charts =
            row.map(|row| Figure::ALL.map(|figure| self.chart(row, figure)).into()).unwrap_or_default();
        Content { title: printable(&self.page.name), subtitle: self.subtitle(row.is_some()), charts, body }
    }

    /// What the agent says of it in one line, or why that is not known.
    fn subtitle(&self, is_there: bool) -> Line<'static> {
        let cgroup = self.cgroup(&self.page.path);
        let created = cgroup.map(|own| format!("created {} ago", age(own.created.as_ref(), self.now)));
        let mut parts = Vec::new();
        if let Some(pod) = &self.details.pod {
            let ((ready, all), restarts) = (reason::ready(pod), reason::restarts(pod));
            parts.push(reason::state(pod).to_owned());
            parts.push(reason::reason(pod));
            parts.push(format!("{ready} of {all} ready"));
            parts.push(format!("{restarts} restart{}", if restarts == 1 { "" } else { "s" }));
            parts.push(pod.qos.clone());
            parts.push(pod.ips.join(" "));
            parts.push(pod.message.clone());
            parts.push(pod.resize.clone());
        } else {
            parts.push(cgroup.map(|own| own.qos.clone()).unwrap_or_default());
        }
        parts.extend(created);
        parts.retain(|part| !part.is_empty());
        let text = printable(&parts.join(", "));
        match (&self.details.trouble, is_there) {
            (Some(trouble), _) => Line::styled(printable(trouble), Style::new().fg(Color::Red)),
            (None, false) => {
                let gone = if text.is_empty() {
                    "it has no cgroup any more".into()
                } else {
                    format!("no cgroup; {text}")
                };
                Line::styled(gone, Style::new().fg(Color::Yellow))
            }
            (None, true) => Line::raw(text),
        }
    }

    fn chart(&self, row: &Row, figure: Figure) -> Chart {
        let values = self.history.last(&row.path, figure, KEPT);
        let top = figure.top(row, &values);
        Chart { title: facts::chart(row, figure, &values), figure, values, top }
    }

    fn event(&self, event: &Event, width: usize) -> Vec<Line<'static>> {
        let since = span(self.now.duration_since(event.time).try_into().unwrap_or_default());
        let kind = event.detail.event_type();
        let text = format!("{since:>7} ago  {:<15} {}", kind.name(), event_text(event));
        let style = match kind {
            EventType::Oom => Style::new().fg(Color::Red),
            EventType::Exit | EventType::Lost => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        wrap(&text, width, 13).into_iter().map(|line| Line::styled(line, style)).collect()
    }
}

/// The event without the names of the pod and the path of the cgroup, which the whole page is about.
fn event_text(event: &Event) -> String {
    let place = Place { cgroup: &event.cgroup, pod: event.pod.as_ref() }.to_string();
    let container = event.pod.as_ref().map_or("", |pod| match pod.container_name.as_str() {
        "" => pod.container_id.get(..12).unwrap_or(&pod.container_id),
        name => name,
    });
    let text = event_line::text(event);
    match container {
        // It names no place.
        _ if place.is_empty() => text,
        "" => text.replace(&format!(" in {}", printable(&place)), "").replace(&printable(&place), "the pod"),
        name => text.replace(&printable(&place), &printable(&format!("container {name}"))),
    }
}

fn heading(text: &str, width: usize) -> Line<'static> {
    Line::styled(format!("{text:<width$}"), Style::new().add_modifier(Modifier::REVERSED))
}
