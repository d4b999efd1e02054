//! The agent's last answers, and a frame of them.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{GetStatusResponse, ListCgroupsResponse};
use ratatui::Frame;

use super::draw::{View, draw, page_room, room};
use super::history::History;
use super::page::Known;
use super::page::details::Details;
use super::rates::{self, Row};
use super::state::State;
use super::{CliError, header};
use crate::cli::format::span;

/// An answer that takes longer is missed.
const SLOW: Duration = Duration::from_secs(5);

/// Contents of the last answers.
pub struct Shown {
    list: ListCgroupsResponse,
    pub rows: Vec<Row>,
    history: History,
    /// About the pod whose page is open.
    pub details: Details,
    node: String,
    agent: String,
    answered: Instant,
    error: Option<String>,
}

impl Shown {
    /// The first answer, from which there are no rates.
    pub fn new(list: ListCgroupsResponse) -> Self {
        let rows = rates::rows(None, &list);
        Self {
            node: header::node(&list, &rows),
            agent: String::new(),
            list,
            rows,
            history: History::default(),
            details: Details::default(),
            answered: Instant::now(),
            error: None,
        }
    }

    /// The next one. Without an answer the old figures stay, marked as outdated.
    pub fn take(&mut self, answer: Result<(ListCgroupsResponse, GetStatusResponse), CliError>) {
        match answer {
            Ok((now, status)) => {
                self.rows = rates::rows(Some(&self.list), &now);
                self.history.add(&self.rows);
                self.node = header::node(&now, &self.rows);
                self.agent = header::agent(&status);
                self.list = now;
                self.answered = Instant::now();
                self.error = None;
            }
            Err(e) => self.error = Some(e.to_string()),
        }
    }

    /// Draws a frame, and returns how far the open page can be scrolled.
    pub fn draw(&self, frame: &mut Frame<'_>, state: &mut State, now: Timestamp) -> usize {
        let size = frame.area();
        let rows = state.pick(&self.rows);
        state.cursor.settle(&rows, room(size.height));
        let content = state.page.as_ref().map(|page| {
            let known = Known {
                page,
                rows: &self.rows,
                cgroups: &self.list.cgroups,
                history: &self.history,
                details: &self.details,
                sort: state.sort,
                now,
            };
            known.content(size.width.into())
        });
        let trouble = self.trouble(state.interval);
        let view = View {
            node: &self.node,
            agent: &self.agent,
            trouble: trouble.as_deref(),
            rows: &rows,
            history: &self.history,
            state,
            page: content.as_ref(),
        };
        draw(frame, &view);
        let lines = content.map_or(0, |content| content.body.len());
        lines.saturating_sub(page_room(size.width, size.height))
    }

    fn trouble(&self, interval: Duration) -> Option<String> {
        let since = self.answered.elapsed();
        match &self.error {
            Some(error) => Some(format!("no answer for {}, trying again: {error}", span(since))),
            None if since > interval + SLOW => Some(format!("no answer for {}", span(since))),
            None => None,
        }
    }
}
