//! Draws one frame of `top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Paragraph;

use super::columns::{Column, fit};
use super::rates::Row;
use super::state::{Sort, State};
use crate::cli::format::{printable, shorten};

/// The contents of a frame.
pub struct View<'a> {
    pub node: &'a str,
    pub agent: &'a str,
    /// Why the figures are outdated, if they are.
    pub trouble: Option<&'a str>,
    pub rows: &'a [&'a Row],
    pub state: &'a State,
}

/// Number of lines that are not rows: two header lines, the titles, the keys.
const AROUND: u16 = 4;

/// Number of rows that fit on a screen of this height.
pub fn page(height: u16) -> usize {
    usize::from(height.saturating_sub(AROUND))
}

pub fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let [node, agent, table, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(Line::styled(view.node, bold)), node);
    let second = match view.trouble {
        Some(trouble) => Line::styled(trouble, Style::new().fg(Color::Red)),
        None => Line::raw(view.agent),
    };
    frame.render_widget(Paragraph::new(second), agent);
    frame.render_widget(Paragraph::new(lines(view, table)), table);
    frame.render_widget(Paragraph::new(footer(view, keys.width)), keys);
}

fn lines<'a>(view: &View<'a>, area: Rect) -> Text<'a> {
    let (name_width, columns) = fit(usize::from(area.width));
    let sorted = sorted_by(view.state.sort);
    let mut title = vec![Span::raw(format!("{:<name_width$}", shorten("NAME", name_width)))];
    for column in &columns {
        let text = format!(" {:>width$}", column.title(), width = column.width());
        let style = if sorted.contains(column) { Style::new().fg(Color::Cyan) } else { Style::new() };
        title.push(Span::styled(text, style));
    }
    let head = Line::from(title).style(Style::new().add_modifier(Modifier::REVERSED));
    let room = usize::from(area.height).saturating_sub(1);
    let body = view.rows.iter().skip(view.state.offset).take(room).map(|row| {
        let name = shorten(&printable(&row.name), name_width);
        let mut text = format!("{name:<name_width$}");
        for column in &columns {
            text.push_str(&format!(" {:>width$}", column.cell(row), width = column.width()));
        }
        Line::styled(text, style(row))
    });
    let mut lines: Vec<Line<'_>> = std::iter::once(head).chain(body).collect();
    if view.rows.is_empty() {
        lines.push(Line::raw(format!("no {}: press Tab for others", view.state.show.title())));
    }
    Text::from(lines)
}

/// Rows near their memory limit or throttled are highlighted.
fn style(row: &Row) -> Style {
    let full = match (row.memory, row.memory_limit) {
        (Some(used), Some(limit)) if limit > 0 => used as f64 / limit as f64,
        _ => 0.0,
    };
    if full >= 0.95 {
        Style::new().fg(Color::Red)
    } else if full >= 0.8 || row.throttled.is_some_and(|t| t >= 0.25) {
        Style::new().fg(Color::Yellow)
    } else {
        Style::new()
    }
}

fn sorted_by(sort: Sort) -> &'static [Column] {
    match sort {
        Sort::Cpu => &[Column::Cpu],
        Sort::Memory => &[Column::Memory],
        Sort::Wait => &[Column::Wait],
        Sort::Io => &[Column::Read, Column::Write],
        Sort::Net => &[Column::Rx, Column::Tx],
        Sort::Pids => &[Column::Pids],
        Sort::Name => &[],
    }
}

/// The current settings, and as many keys as fit.
fn footer(view: &View<'_>, width: u16) -> String {
    let state = view.state;
    let set = format!(
        "{} by {}, every {:.2}s",
        state.show.title(),
        state.sort.title(),
        state.interval.as_secs_f64()
    );
    let long =
        format!("{set}  sort c m w i n p a(name)  Tab pods/containers/all  +/- speed  ↑↓ scroll  q quit");
    let short = format!("{set}  cmwinpa sort  Tab show  q quit");
    let width = usize::from(width);
    [long, short, format!("{set}  q quit"), "q quit".to_owned()]
        .into_iter()
        .find(|t| t.chars().count() <= width)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::cli::top::state::Show;

    fn rows() -> Vec<Row> {
        let row = |name: &str, cpu, memory: u64| Row {
            name: name.into(),
            path: name.into(),
            kind: "pod".into(),
            cpu: Some(cpu),
            memory: Some(memory),
            memory_limit: Some(128 << 20),
            ..Row::default()
        };
        vec![
            row("shop/cart-5d9c7b8f6-abcde", 1.25, 127 << 20),
            row("shop/db-0", 0.5, 64 << 20),
            row("a/very-long-name-of-a-pod-that-does-not-fit-anywhere-at-all", 0.25, 1 << 20),
        ]
    }

    fn screen(width: u16, height: u16, state: &State, trouble: Option<&str>) -> Vec<String> {
        let rows = rows();
        let picked = state.pick(&rows);
        let view = View { node: "node-1  cpu 2 cores", agent: "agent ok", trouble, rows: &picked, state };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let cells = buffer.content().chunks(usize::from(width));
        cells
            .map(|l| l.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned())
            .collect()
    }

    fn state() -> State {
        State::new(Sort::Cpu, Show::Pods, Duration::from_secs(2))
    }

    #[test]
    fn narrow() {
        assert_eq!(
            screen(40, 7, &state(), None),
            [
                "node-1  cpu 2 cores",
                "agent ok",
                "NAME                          CPU    MEM",
                "shop/cart-5d9c7b8f6-abcde    1.25  127Mi",
                "shop/db-0                    0.50 64.0Mi",
                "a/very-l…t-anywhere-at-all   0.25 1.00Mi",
                "pods by cpu, every 2.00s  q quit",
            ]
        );
    }

    #[test]
    fn usual() {
        let screen = screen(80, 8, &state(), None);
        assert_eq!(screen[2].split_whitespace().collect::<Vec<_>>()[..4], ["NAME", "CPU", "WAIT", "MEM"]);
        assert!(screen.iter().all(|l| l.chars().count() <= 80));
        assert_eq!(screen[7], "pods by cpu, every 2.00s  cmwinpa sort  Tab show  q quit");
    }

    #[test]
    fn wide_shows_all_and_full_names() {
        let screen = screen(200, 8, &state(), None);
        for column in Column::ALL {
            assert!(screen[2].contains(column.title()), "{column:?}");
        }
        assert!(screen[5].starts_with("a/very-long-name-of-a-pod-that-does-not-fit-anywhere-at-all "));
        assert!(screen[7].contains("Tab pods/containers/all"));
    }

    #[test]
    fn a_problem_replaces_the_agents_line() {
        assert_eq!(screen(80, 8, &state(), Some("no answer since 5s"))[1], "no answer since 5s");
    }

    #[test]
    fn an_empty_table_shows_a_hint() {
        let mut state = state();
        state.show = Show::Containers;
        assert_eq!(screen(80, 8, &state, None)[3], "no containers: press Tab for others");
    }

    #[test]
    fn tiny_terminals_do_not_panic() {
        for width in 1..30 {
            for height in 1..8 {
                screen(width, height, &state(), None);
            }
        }
    }
}
