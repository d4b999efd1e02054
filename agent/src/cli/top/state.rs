//! What of `top` the user can change, and how keys change it. Pure.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::cursor::Cursor;
use super::filter::Filter;
use super::rates::Row;
use super::sort::{Show, Sort, compare};

/// A key that has a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Tab,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-U: removes all that was typed.
    Erase,
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Quit,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub sort: Sort,
    pub show: Show,
    pub interval: Duration,
    pub filter: Filter,
    pub cursor: Cursor,
    /// The open page; without one the table is shown.
    pub page: Option<Page>,
    /// Whether the keys are shown.
    pub help: bool,
    pub quit: bool,
}

/// The page of a pod, or of a cgroup that belongs to none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub path: String,
    pub name: String,
    /// Uid of the pod; empty for other cgroups.
    pub pod: String,
    /// How many of its lines are above the screen.
    pub scroll: usize,
}

/// What a key's effect depends on.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Every row, and those of the table in their order.
    pub all: &'a [Row],
    pub rows: &'a [&'a Row],
    /// Number of rows that fit.
    pub room: usize,
    /// Of the page: the number of lines that fit, and the most that it can be scrolled.
    pub lines: usize,
    pub last: usize,
}

const FASTEST: Duration = Duration::from_millis(250);
const SLOWEST: Duration = Duration::from_secs(60);

impl State {
    pub fn new(sort: Sort, show: Show, interval: Duration) -> Self {
        Self {
            sort,
            show,
            interval: interval.clamp(FASTEST, SLOWEST),
            filter: Filter::default(),
            cursor: Cursor::default(),
            page: None,
            help: false,
            quit: false,
        }
    }

    /// Handles a key.
    pub fn press(&mut self, key: Key, seen: &Seen<'_>) {
        // Letters have one meaning in both cases, except where they are typed.
        let command = match key {
            Key::Char(c) => Key::Char(c.to_ascii_lowercase()),
            other => other,
        };
        match (command, &mut self.page) {
            (Key::Quit, _) => self.quit = true,
            _ if self.help => {
                self.help = !matches!(command, Key::Char('?' | 'q') | Key::Escape | Key::Enter | Key::Left);
            }
            _ if self.filter.editing => self.type_in(key, seen),
            (Key::Char('?'), _) => self.help = true,
            (Key::Char('+' | '='), _) => self.interval = (self.interval * 2).min(SLOWEST),
            (Key::Char('-'), _) => self.interval = (self.interval / 2).max(FASTEST),
            (Key::Escape | Key::Char('q') | Key::Left, Some(_)) => self.page = None,
            (_, Some(page)) => page.scroll = scrolled(page.scroll, command, seen),
            (_, None) => self.press_in_table(command, seen),
        }
    }

    fn press_in_table(&mut self, key: Key, seen: &Seen<'_>) {
        match key {
            Key::Char('q') => self.quit = true,
            Key::Char('/') => self.filter.editing = true,
            Key::Escape => {
                self.filter.clear();
                self.cursor = Cursor::default();
            }
            Key::Tab | Key::Char('v') => (self.show, self.cursor) = (self.show.next(), Cursor::default()),
            Key::Enter | Key::Right => {
                let chosen = seen.rows.get(self.cursor.at()).copied();
                self.page = chosen.map(|row| Page::of(row, seen.all));
            }
            Key::Char('k') => self.move_to(Key::Up, seen),
            Key::Char('j') => self.move_to(Key::Down, seen),
            Key::Char(c) => {
                if let Some(sort) = Sort::by_key(c) {
                    (self.sort, self.cursor) = (sort, Cursor::default());
                }
            }
            other => self.move_to(other, seen),
        }
    }

    /// The filter has the keys, except those that move: the rows are chosen while it is typed.
    fn type_in(&mut self, key: Key, seen: &Seen<'_>) {
        match key {
            Key::Enter | Key::Tab => self.filter.editing = false,
            Key::Escape => self.filter.clear(),
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => self.filter.pop(),
            Key::Erase => {
                self.filter.clear();
                self.filter.editing = true;
            }
            other => return self.move_to(other, seen),
        }
        if key != Key::Enter && key != Key::Tab {
            self.cursor = Cursor::default();
        }
    }

    fn move_to(&mut self, key: Key, seen: &Seen<'_>) {
        let page = isize::try_from(seen.room.max(1)).unwrap_or(isize::MAX);
        let by = match key {
            Key::Up => -1,
            Key::Down => 1,
            Key::PageUp => -page,
            Key::PageDown => page,
            Key::Home => isize::MIN,
            Key::End => isize::MAX,
            _ => return,
        };
        self.cursor.step(by, seen.rows, seen.room);
    }

    /// The rows to show, in order.
    pub fn pick<'r>(&self, rows: &'r [Row]) -> Vec<&'r Row> {
        let mut picked: Vec<&Row> =
            rows.iter().filter(|row| self.show.has(row) && self.filter.has(row)).collect();
        // Equal rows are ordered by name, so that they do not change places at random.
        picked.sort_by(|a, b| compare(self.sort, a, b).then_with(|| a.name.cmp(&b.name)));
        picked
    }
}

impl Page {
    /// The page of this row: of its pod, if it belongs to one that has a row.
    fn of(row: &Row, all: &[Row]) -> Self {
        let pod = all.iter().find(|other| other.kind == "pod" && !row.pod.is_empty() && other.pod == row.pod);
        let row = pod.unwrap_or(row);
        Self { path: row.path.clone(), name: row.name.clone(), pod: row.pod.clone(), scroll: 0 }
    }
}

fn scrolled(scroll: usize, key: Key, seen: &Seen<'_>) -> usize {
    // The page may have become shorter.
    let scroll = scroll.min(seen.last);
    let to = match key {
        Key::Up | Key::Char('k') => scroll.saturating_sub(1),
        Key::Down | Key::Char('j') => scroll + 1,
        Key::PageUp => scroll.saturating_sub(seen.lines.max(1)),
        Key::PageDown => scroll + seen.lines.max(1),
        Key::Home => 0,
        Key::End => seen.last,
        _ => scroll,
    };
    to.min(seen.last)
}
