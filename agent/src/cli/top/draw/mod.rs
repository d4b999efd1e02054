//! Draws one frame of `top`.

mod help;
mod page;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;

use super::columns::fit;
use super::history::History;
use super::lines;
use super::page::Content;
use super::rates::Row;
use super::state::State;
pub use page::room as page_room;

/// The contents of a frame.
pub struct View<'a> {
    pub node: &'a str,
    pub agent: &'a str,
    /// Why the figures are outdated, if they are.
    pub trouble: Option<&'a str>,
    pub rows: &'a [&'a Row],
    pub history: &'a History,
    pub state: &'a State,
    /// The open page, in front of the table.
    pub page: Option<&'a Content>,
}

/// Number of lines that are not rows: two header lines, the titles, the keys.
const AROUND: u16 = 4;

/// Number of rows that fit on a screen of this height.
pub fn room(height: u16) -> usize {
    usize::from(height.saturating_sub(AROUND))
}

pub fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let [first, second, middle, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let title = view.page.map_or(view.node, |page| page.title.as_str());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(Line::styled(title, bold)), first);
    let below = match (view.trouble, view.page) {
        (Some(trouble), _) => Line::styled(trouble, Style::new().fg(Color::Red)),
        (None, Some(page)) => page.subtitle.clone(),
        (None, None) => Line::raw(view.agent),
    };
    frame.render_widget(Paragraph::new(below), second);
    match (view.page, &view.state.page) {
        (Some(content), Some(state)) => page::draw(frame, content, state.scroll, middle),
        _ => frame.render_widget(Paragraph::new(table(view, middle)), middle),
    }
    frame.render_widget(Paragraph::new(footer(view, keys.width)), keys);
    if view.state.help {
        help::draw(frame);
    }
}

fn table(view: &View<'_>, area: Rect) -> Text<'static> {
    let (fit, state) = (fit(usize::from(area.width)), view.state);
    let room = usize::from(area.height).saturating_sub(1);
    let (from, chosen) = (state.cursor.offset(), state.cursor.at());
    let mut out = vec![lines::head("NAME", &fit, state.sort)];
    for (at, row) in view.rows.iter().enumerate().skip(from).take(room) {
        let line = lines::row(row, &row.name, &fit, view.history, state.sort);
        // The colours of a row stay readable on it.
        let marked = Style::new().bg(Color::Indexed(237)).add_modifier(Modifier::BOLD);
        out.push(if at == chosen { line.patch_style(marked) } else { line });
    }
    if view.rows.is_empty() {
        let shown = state.show.title();
        let hint = match state.filter.is_empty() {
            true => format!("no {shown}: press Tab for others"),
            false => format!("no {shown} with {:?}: Esc clears the filter", state.filter.text()),
        };
        out.push(Line::raw(hint));
    }
    Text::from(out)
}

/// The filter while it is typed; else the current settings, and as many keys as fit.
fn footer(view: &View<'_>, width: u16) -> Line<'static> {
    let state = view.state;
    let interval = format!("every {:.2}s", state.interval.as_secs_f64());
    let found = view.rows.len();
    if state.filter.editing && view.page.is_none() {
        let text = format!("/{}█", state.filter.text());
        let hint = format!("{text}  {found} {}  Enter keeps  Esc clears", state.show.title());
        let fits = hint.chars().count() <= usize::from(width);
        return Line::styled(if fits { hint } else { text }, Style::new().fg(Color::Cyan));
    }
    let (set, long, short) = match view.page {
        Some(_) => (interval, "↑↓ PgUp PgDn scroll  +/- speed  Esc back  ? keys", "Esc back  ? keys"),
        None => {
            let filter = match state.filter.is_empty() {
                true => String::new(),
                false => format!(" /{} ({found})", state.filter.text()),
            };
            (
                format!("{}{filter} by {}, {interval}", state.show.title(), state.sort.title()),
                "/ filter  Enter opens  cmwinpa sort  Tab pods/containers/all  ↑↓ choose  ? keys  q quit",
                "/ filter  Enter opens  ? keys  q quit",
            )
        }
    };
    let last = if view.page.is_some() { "Esc back" } else { "? keys  q quit" };
    let choices =
        [format!("{set}  {long}"), format!("{set}  {short}"), format!("{set}  {last}"), last.to_owned()];
    let width = usize::from(width);
    Line::raw(choices.into_iter().find(|text| text.chars().count() <= width).unwrap_or_default())
}
