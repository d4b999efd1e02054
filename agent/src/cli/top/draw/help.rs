//! The keys, in a box in front of everything.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph};

/// The keys and what they do.
const KEYS: [(&str, &str); 14] = [
    ("c m w", "sort by CPU, memory, waits"),
    ("i n p a", "sort by disk, network, processes, name"),
    ("Tab", "pods, containers, all cgroups"),
    ("/", "filter: every word in name or path"),
    ("Enter", "filter: keep it · table: open the page"),
    ("Esc", "clear the filter · leave the page"),
    ("↑ ↓ j k", "choose a row · scroll"),
    ("PgUp PgDn", "a screen up, down"),
    ("Home End", "first, last"),
    ("+ -", "slower, faster"),
    ("q", "leave the page · quit"),
    ("Ctrl-C", "quit"),
    ("?", "these keys"),
    ("", "History: a bar a refresh, newest right"),
];

pub fn draw(frame: &mut Frame<'_>) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, what)| {
            let bold = Style::new().add_modifier(Modifier::BOLD);
            Line::from(vec![Span::styled(format!(" {key:<10}"), bold), Span::raw(*what)])
        })
        .collect();
    let screen = frame.area();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 3;
    let (width, height) = (width.min(screen.width), (KEYS.len() as u16 + 2).min(screen.height));
    let area = Rect {
        x: screen.x + (screen.width - width) / 2,
        y: screen.y + (screen.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(Text::from(lines)).block(Block::bordered().title(" Keys ")), area);
}
