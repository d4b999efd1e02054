//! The settings of `top`: order, selection and interval, and how keys change them. Pure.

use std::cmp::Ordering;
use std::time::Duration;

use super::rates::Row;

/// The order of the rows, largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Sort {
    Cpu,
    Memory,
    Wait,
    Io,
    Net,
    Pids,
    /// The only ascending order.
    Name,
}

impl Sort {
    pub fn title(self) -> &'static str {
        self.into()
    }

    fn by_key(key: char) -> Option<Self> {
        Some(match key {
            'c' => Self::Cpu,
            'm' => Self::Memory,
            'w' => Self::Wait,
            'i' => Self::Io,
            'n' => Self::Net,
            'p' => Self::Pids,
            'a' => Self::Name,
            _ => return None,
        })
    }
}

/// Which cgroups are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Show {
    Pods,
    Containers,
    #[strum(serialize = "all cgroups")]
    All,
}

impl Show {
    pub fn title(self) -> &'static str {
        self.into()
    }

    fn next(self) -> Self {
        match self {
            Self::Pods => Self::Containers,
            Self::Containers => Self::All,
            Self::All => Self::Pods,
        }
    }

    fn has(self, row: &Row) -> bool {
        match self {
            Self::Pods => row.kind == "pod",
            Self::Containers => row.kind == "container",
            Self::All => true,
        }
    }
}

/// A key that has a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Tab,
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
    /// Index of the first row shown.
    pub offset: usize,
    pub quit: bool,
}

const FASTEST: Duration = Duration::from_millis(250);
const SLOWEST: Duration = Duration::from_secs(60);

impl State {
    pub fn new(sort: Sort, show: Show, interval: Duration) -> Self {
        Self { sort, show, interval: interval.clamp(FASTEST, SLOWEST), offset: 0, quit: false }
    }

    /// Handles a key. `page` is the number of rows that fit, `rows` the number of rows.
    pub fn press(&mut self, key: Key, page: usize, rows: usize) {
        let last = rows.saturating_sub(page);
        match key {
            Key::Quit | Key::Char('q') => self.quit = true,
            Key::Tab | Key::Char('v') => (self.show, self.offset) = (self.show.next(), 0),
            Key::Char('+' | '=') => self.interval = (self.interval * 2).min(SLOWEST),
            Key::Char('-') => self.interval = (self.interval / 2).max(FASTEST),
            Key::Up | Key::Char('k') => self.offset = self.offset.saturating_sub(1),
            Key::Down | Key::Char('j') => self.offset = (self.offset + 1).min(last),
            Key::PageUp => self.offset = self.offset.saturating_sub(page),
            Key::PageDown => self.offset = (self.offset + page).min(last),
            Key::Home => self.offset = 0,
            Key::End => self.offset = last,
            Key::Char(c) => {
                if let Some(sort) = Sort::by_key(c) {
                    (self.sort, self.offset) = (sort, 0);
                }
            }
        }
    }

    /// The rows to show, in order.
    pub fn pick<'r>(&self, rows: &'r [Row]) -> Vec<&'r Row> {
        let mut picked: Vec<&Row> = rows.iter().filter(|r| self.show.has(r)).collect();
        // Equal rows are ordered by name, so that they do not change places at random.
        picked.sort_by(|a, b| compare(self.sort, a, b).then_with(|| a.name.cmp(&b.name)));
        picked
    }
}

/// Descending; unknown values last.
fn compare(sort: Sort, a: &Row, b: &Row) -> Ordering {
    let sum = |x: Option<f64>, y: Option<f64>| match (x, y) {
        (None, None) => None,
        (x, y) => Some(x.unwrap_or(0.0) + y.unwrap_or(0.0)),
    };
    let value = |r: &Row| match sort {
        Sort::Cpu => r.cpu,
        Sort::Memory => r.memory.map(|n| n as f64),
        Sort::Wait => r.wait,
        Sort::Io => sum(r.read, r.write),
        Sort::Net => sum(r.rx, r.tx),
        Sort::Pids => r.threads.map(|n| n as f64),
        Sort::Name => None,
    };
    value(b).unwrap_or(-1.0).total_cmp(&value(a).unwrap_or(-1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, kind: &str, cpu: Option<f64>, memory: u64) -> Row {
        Row { name: name.into(), kind: kind.into(), cpu, memory: Some(memory), ..Row::default() }
    }

    fn names(state: &State, rows: &[Row]) -> String {
        state.pick(rows).iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn order_and_choice() {
        let rows = [
            row("b", "pod", Some(0.1), 5),
            row("a", "pod", Some(0.1), 9),
            row("x", "container", None, 1),
            row("/s", "other", Some(3.0), 2),
        ];
        let mut state = State::new(Sort::Cpu, Show::All, Duration::from_secs(1));
        assert_eq!(names(&state, &rows), "/s a b x");
        for (key, expected) in [('m', "a b /s x"), ('a', "/s a b x"), ('c', "/s a b x"), ('?', "/s a b x")] {
            state.press(Key::Char(key), 10, 4);
            assert_eq!(names(&state, &rows), expected, "{key}");
        }
        for expected in ["a b", "x", "/s a b x"] {
            state.press(Key::Tab, 10, 4);
            assert_eq!(names(&state, &rows), expected);
        }
    }

    #[test]
    fn every_sort_key() {
        for (key, sort) in [
            ('c', Sort::Cpu),
            ('m', Sort::Memory),
            ('w', Sort::Wait),
            ('i', Sort::Io),
            ('n', Sort::Net),
            ('p', Sort::Pids),
            ('a', Sort::Name),
        ] {
            let mut state = State::new(Sort::Cpu, Show::All, Duration::from_secs(1));
            state.press(Key::Char(key), 1, 1);
            assert_eq!(state.sort, sort);
        }
    }

    #[test]
    fn scrolling_and_speed_have_bounds() {
        let mut state = State::new(Sort::Cpu, Show::All, Duration::from_secs(1));
        for (key, offset) in [
            (Key::Up, 0),
            (Key::PageDown, 10),
            (Key::PageDown, 15),
            (Key::Down, 15),
            (Key::PageUp, 5),
            (Key::End, 15),
            (Key::Home, 0),
        ] {
            state.press(key, 10, 25);
            assert_eq!(state.offset, offset, "{key:?}");
        }
        (0..20).for_each(|_| state.press(Key::Char('-'), 1, 1));
        assert_eq!(state.interval, FASTEST);
        (0..20).for_each(|_| state.press(Key::Char('+'), 1, 1));
        assert_eq!(state.interval, SLOWEST);
        state.press(Key::Char('q'), 1, 1);
        assert!(state.quit);
    }
}
