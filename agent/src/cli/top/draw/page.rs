//! Draws the page of a pod: its charts, and as much of the text below them as fits.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Sparkline};

use super::super::history::KEPT;
use super::super::lines::colour;
use super::super::page::{Chart, Content};
use super::super::spark;

/// The height of the bars, and the least heights and width of a screen with charts.
const BARS: u16 = 4;
const LEAST_HEIGHT: u16 = 8;
const HIGH: u16 = 20;
const WIDE: u16 = 66;
/// What is not the page: two header lines and the keys.
const AROUND: u16 = 3;
/// Bars have this many steps in a line; a known zero is one step high.
const STEPS: u64 = 8;

/// Number of lines of text that fit on a screen of this size.
pub fn room(width: u16, height: u16) -> usize {
    usize::from(height.saturating_sub(AROUND).saturating_sub(charts(width, height)))
}

/// The height of all charts on such a screen.
fn charts(width: u16, height: u16) -> u16 {
    match (width >= WIDE, height) {
        (_, 0..LEAST_HEIGHT) => 0,
        (true, HIGH..) => 1 + BARS,
        (true, _) => 2,
        (false, _) => 3,
    }
}

/// Draws it into the part of the screen between header and keys.
pub fn draw(frame: &mut Frame<'_>, content: &Content, scroll: usize, area: Rect) {
    let screen = frame.area();
    let height = charts(screen.width, screen.height).min(area.height);
    let [above, below] = Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area);
    if above.height > 0 {
        match screen.width >= WIDE {
            true => side_by_side(frame, &content.charts, above),
            false => one_a_line(frame, &content.charts, above),
        }
    }
    let room = usize::from(below.height);
    let scroll = scroll.min(content.body.len().saturating_sub(room));
    let lines: Vec<Line<'_>> = content.body.iter().skip(scroll).take(room).cloned().collect();
    frame.render_widget(Paragraph::new(Text::from(lines)), below);
}

fn side_by_side(frame: &mut Frame<'_>, charts: &[Chart], area: Rect) {
    let parts = Layout::horizontal(charts.iter().map(|_| Constraint::Fill(1))).spacing(2).split(area);
    for (chart, part) in charts.iter().zip(parts.iter()) {
        let [title, bars] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(*part);
        let style = Style::new().fg(colour(chart.figure));
        frame.render_widget(Paragraph::new(Line::styled(chart.title.as_str(), style)), title);
        let most = STEPS * u64::from(bars.height);
        let width = usize::from(bars.width);
        let shown = &chart.values[chart.values.len().saturating_sub(width)..];
        let unknown = std::iter::repeat_n(None, width - shown.len());
        let bar = |value: &Option<f64>| value.map(|value| ((value / chart.top * most as f64) as u64).max(1));
        let data: Vec<Option<u64>> = unknown.chain(shown.iter().map(bar)).collect();
        frame.render_widget(Sparkline::default().style(style).max(most).data(data), bars);
    }
}

fn one_a_line(frame: &mut Frame<'_>, charts: &[Chart], area: Rect) {
    let title = charts.iter().map(|chart| chart.title.chars().count()).max().unwrap_or(0);
    let width = usize::from(area.width).saturating_sub(title + 1).min(KEPT);
    let lines = charts.iter().map(|chart| {
        let bars = spark::text(&chart.values, chart.top, width);
        let style = Style::new().fg(colour(chart.figure));
        Line::from(vec![Span::raw(format!("{:<title$} ", chart.title)), Span::styled(bars, style)])
    });
    frame.render_widget(Paragraph::new(Text::from(lines.collect::<Vec<_>>())), area);
}
