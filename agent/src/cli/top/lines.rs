//! The lines of a table of cgroups: its titles, and one of each row. Pure.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::columns::{Column, Fit};
use super::history::{Figure, History};
use super::rates::Row;
use super::sort::Sort;
use super::spark;
use crate::cli::format::{printable, shorten};

/// The titles; those of columns by which the rows are sorted are coloured.
pub fn head(name: &str, fit: &Fit, sort: Sort) -> Line<'static> {
    let sorted = sorted_by(sort);
    let mut spans = vec![Span::raw(format!("{:<width$}", shorten(name, fit.name), width = fit.name))];
    for &column in &fit.columns {
        let title = match (column, figure(sort)) {
            (Column::History, Figure::Cpu) => "CPU HIST",
            (Column::History, Figure::Memory) => "MEM HIST",
            (Column::History, Figure::Wait) => "WAIT HIST",
            _ => column.title(),
        };
        let style = if sorted.contains(&column) { Style::new().fg(Color::Cyan) } else { Style::new() };
        spans.push(Span::styled(format!(" {title:>width$}", width = fit.width(column)), style));
    }
    Line::from(spans).style(Style::new().add_modifier(Modifier::REVERSED))
}

/// A row, highlighted near its memory limit and while it is throttled.
pub fn row(row: &Row, name: &str, fit: &Fit, history: &History, sort: Sort) -> Line<'static> {
    let name = shorten(&printable(name), fit.name);
    let mut spans = vec![Span::raw(format!("{name:<width$}", width = fit.name))];
    for &column in &fit.columns {
        let width = fit.width(column);
        if column == Column::History {
            let figure = figure(sort);
            let values = history.last(&row.path, figure, width);
            let bars = spark::text(&values, figure.top(row, &values), width);
            spans.push(Span::styled(format!(" {bars}"), Style::new().fg(colour(figure))));
        } else {
            spans.push(Span::raw(format!(" {:>width$}", column.cell(row))));
        }
    }
    Line::from(spans).style(style(row))
}

/// The figure whose history is shown in this order.
fn figure(sort: Sort) -> Figure {
    match sort {
        Sort::Memory => Figure::Memory,
        Sort::Wait => Figure::Wait,
        Sort::Cpu | Sort::Io | Sort::Net | Sort::Pids | Sort::Name => Figure::Cpu,
    }
}

pub fn colour(figure: Figure) -> Color {
    match figure {
        Figure::Cpu => Color::Green,
        Figure::Memory => Color::Blue,
        Figure::Wait => Color::Magenta,
    }
}

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
