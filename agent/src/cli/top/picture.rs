//! Writes docs/pictures/top.svg and top-pod.svg: frames of an example node as pictures, and compares them
//! with what is there.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use ratatui::{Frame, Terminal};

use super::example;
use super::sort::{Show, Sort};
use super::state::{Key, Seen, State};

/// Of a character, in pixels.
const WIDTH: u16 = 8;
const HEIGHT: u16 = 17;
/// Around the screen.
const EDGE: u16 = 12;
/// Where the letters of a line stand, below its upper end.
const BASE: u16 = 13;
const BACKGROUND: &str = "#1b1f24";
const FOREGROUND: &str = "#d0d7de";

/// As many as the history has room for.
const READINGS: u64 = 119;

#[test]
fn the_pictures() {
    let mut shown = example::shown(12, READINGS);
    let now = example::now(READINGS);
    shown.details = example::details(now);
    let mut state = State::new(Sort::Cpu, Show::Pods, Duration::from_secs(2));
    for (name, open, height) in [("top", false, 17), ("top-pod", true, 34)] {
        if open {
            let at = state.pick(&shown.rows).iter().position(|row| row.name.contains("cart"));
            for key in std::iter::repeat_n(Key::Down, at.unwrap()).chain([Key::Enter]) {
                let rows = state.pick(&shown.rows);
                let seen = Seen { all: &shown.rows, rows: &rows, room: 12, lines: 1, last: 0 };
                state.press(key, &seen);
            }
        }
        let mut terminal = Terminal::new(TestBackend::new(118, height)).unwrap();
        let draw = |frame: &mut Frame<'_>| _ = shown.draw(frame, &mut state, now);
        terminal.draw(draw).unwrap();
        compare(name, &svg(terminal.backend().buffer()));
    }
}

/// With NODEWARDEN_WRITE_DOCS the picture is written instead.
fn compare(name: &str, picture: &str) {
    assert!(picture.len() < 150_000, "{name} has {} bytes", picture.len());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/pictures/{name}.svg"));
    if std::env::var_os("NODEWARDEN_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(&path, picture).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == picture,
        "docs/pictures/{name}.svg is not what `top` draws: write it with `cargo xtask pictures top`"
    );
}

/// The screen as a picture. Each word has its place and width, so that lines are straight with any font.
fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (area.width * WIDTH + 2 * EDGE, area.height * HEIGHT + 2 * EDGE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g transform=\"translate({EDGE} {EDGE})\">\n"
    );
    for (row, line) in buffer.content().chunks(usize::from(area.width)).enumerate() {
        let y = row as u16 * HEIGHT;
        backgrounds(&mut out, line, y);
        bars(&mut out, line, y);
        words(&mut out, line, y);
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// Neighbours for which the function gives the same, with the column at which they begin.
fn runs<T: PartialEq>(line: &[Cell], of: impl Fn(&Cell) -> Option<T>) -> Vec<(u16, u16, T)> {
    let mut runs: Vec<(u16, u16, T)> = Vec::new();
    for (column, cell) in line.iter().enumerate() {
        let (column, Some(value)) = (column as u16, of(cell)) else { continue };
        match runs.last_mut() {
            Some((start, length, last)) if *last == value && *start + *length == column => *length += 1,
            _ => runs.push((column, 1, value)),
        }
    }
    runs
}

fn backgrounds(out: &mut String, line: &[Cell], y: u16) {
    let filled = |cell: &Cell| Some(colours(cell).1).filter(|colour| *colour != BACKGROUND);
    for (start, length, colour) in runs(line, filled) {
        let (x, width) = (start * WIDTH, length * WIDTH);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"{colour}\"/>"
        );
    }
}

/// Bars of sparklines as rectangles, since fonts leave gaps between them.
fn bars(out: &mut String, line: &[Cell], y: u16) {
    let bar = |cell: &Cell| eighths(cell).map(|_| colours(cell).0);
    for (start, length, colour) in runs(line, bar) {
        let mut path = String::new();
        for column in start..start + length {
            let eighths = eighths(&line[usize::from(column)]).unwrap_or_default();
            let high = f64::from(HEIGHT) * f64::from(eighths) / 8.0;
            let _ = write!(path, "M{} {}h{}v-{high:.1}h-{}z", column * WIDTH, y + HEIGHT, WIDTH, WIDTH);
        }
        let _ = writeln!(out, "<path fill=\"{colour}\" d=\"{path}\"/>");
    }
}

fn words(out: &mut String, line: &[Cell], y: u16) {
    let word = |cell: &Cell| {
        let letters = cell.symbol() != " " && eighths(cell).is_none();
        letters.then(|| (colours(cell).0, cell.modifier.contains(Modifier::BOLD)))
    };
    for (start, length, (colour, bold)) in runs(line, word) {
        let cells = &line[usize::from(start)..usize::from(start + length)];
        let text: String = cells.iter().map(Cell::symbol).collect();
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let (x, width, y) = (start * WIDTH, length * WIDTH, y + BASE);
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\" \
             fill=\"{colour}\"{weight}>{text}</text>"
        );
    }
}

/// The height of a bar.
fn eighths(cell: &Cell) -> Option<u32> {
    let c = cell.symbol().chars().next().filter(|c| ('▁'..='█').contains(c))?;
    Some(u32::from(c) - u32::from('▁') + 1)
}

/// Of the letters, and behind them.
fn colours(cell: &Cell) -> (&'static str, &'static str) {
    let (front, back) = (colour(cell.fg, FOREGROUND), colour(cell.bg, BACKGROUND));
    if cell.modifier.contains(Modifier::REVERSED) { (back, front) } else { (front, back) }
}

fn colour(colour: Color, default: &'static str) -> &'static str {
    match colour {
        Color::Red => "#ff7b72",
        Color::Green => "#3fb950",
        Color::Yellow => "#d29922",
        Color::Blue => "#58a6ff",
        Color::Magenta => "#bc8cff",
        Color::Cyan => "#39c5cf",
        Color::DarkGray => "#8b949e",
        Color::Indexed(_) => "#373e47",
        _ => default,
    }
}
