//! The columns of the table: which fit on the screen, and their contents. Pure.

use super::rates::Row;
use crate::cli::format::{bytes, count, nanos};

/// A column to the right of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Cpu,
    Memory,
    Limit,
    Wait,
    WaitP99,
    Throttled,
    Read,
    Write,
    Rx,
    Tx,
    Pids,
    Oom,
    /// A sparkline; only on a screen.
    History,
}

impl Column {
    /// In display order.
    pub const ALL: [Self; 13] = [
        Self::Cpu,
        Self::History,
        Self::Wait,
        Self::WaitP99,
        Self::Throttled,
        Self::Memory,
        Self::Limit,
        Self::Read,
        Self::Write,
        Self::Rx,
        Self::Tx,
        Self::Pids,
        Self::Oom,
    ];

    /// By importance: if there is no room, the last ones are left out first.
    const WORTH: [Self; 13] = [
        Self::Cpu,
        Self::Memory,
        Self::Wait,
        Self::Limit,
        Self::History,
        Self::Rx,
        Self::Tx,
        Self::Read,
        Self::Write,
        Self::Pids,
        Self::Oom,
        Self::WaitP99,
        Self::Throttled,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Memory => "MEM",
            Self::Limit => "LIMIT",
            Self::Wait => "WAIT",
            Self::WaitP99 => "P99WAIT",
            Self::Throttled => "THROTT",
            Self::Read => "READ/s",
            Self::Write => "WRITE/s",
            Self::Rx => "RX/s",
            Self::Tx => "TX/s",
            Self::Pids => "PIDS",
            Self::Oom => "OOM",
            Self::History => "HISTORY",
        }
    }

    /// Width of the widest cell in characters, and the least of a sparkline.
    pub fn width(self) -> usize {
        match self {
            Self::WaitP99 | Self::Write => 7,
            Self::Oom => 5,
            Self::History => 10,
            _ => 6,
        }
    }

    /// The text; none for a sparkline.
    pub fn cell(self, row: &Row) -> String {
        let rate = |r: Option<f64>| r.map(|r| bytes(r as u64));
        let share = |s: Option<f64>| s.map(|s| format!("{:.0}%", s * 100.0));
        let text = match self {
            Self::Cpu => row.cpu.map(cores),
            Self::Wait => share(row.wait),
            Self::WaitP99 => row.wait_p99_ns.map(nanos),
            Self::Throttled => share(row.throttled),
            Self::Memory => row.memory.map(bytes),
            Self::Limit => row.memory_limit.map(bytes),
            Self::Read => rate(row.read),
            Self::Write => rate(row.write),
            Self::Rx => rate(row.rx),
            Self::Tx => rate(row.tx),
            Self::Pids => row.threads.map(|n| if n < 100_000 { n.to_string() } else { count(n) }),
            Self::Oom => row.oom_kills.map(|n| if n < 10_000 { n.to_string() } else { count(n) }),
            Self::History => Some(String::new()),
        };
        text.unwrap_or_else(|| "-".to_owned())
    }
}

fn cores(n: f64) -> String {
    if n < 100.0 { format!("{n:.2}") } else { format!("{n:.0}") }
}

/// Minimum width of the name column in characters, if the screen is that wide.
pub const NAME_LEAST: usize = 24;
/// From this width of the name on, what is left is the sparkline's, up to this much.
const NAME_ENOUGH: usize = 56;
const HISTORY_MOST: usize = 40;

/// What fits on a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// Width of the name.
    pub name: usize,
    /// The columns, with one space before each.
    pub columns: Vec<Column>,
    history: usize,
}

impl Fit {
    pub fn width(&self, column: Column) -> usize {
        if column == Column::History { self.history } else { column.width() }
    }
}

/// What fits into `width` characters.
pub fn fit(width: usize) -> Fit {
    let mut left = width.saturating_sub(NAME_LEAST);
    let mut chosen = Vec::new();
    for column in Column::WORTH {
        let needed = column.width() + 1;
        if needed > left {
            break;
        }
        left -= needed;
        chosen.push(column);
    }
    let columns: Vec<Column> = Column::ALL.into_iter().filter(|c| chosen.contains(c)).collect();
    let taken: usize = columns.iter().map(|c| c.width() + 1).sum();
    let (name, least) = (width - taken, Column::History.width());
    let grown = match columns.contains(&Column::History) {
        true => name.saturating_sub(NAME_ENOUGH).min(HISTORY_MOST - least),
        false => 0,
    };
    Fit { name: name - grown, columns, history: least + grown }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_width_decides_which_columns_are_shown() {
        let titles = |w| fit(w).columns.into_iter().map(Column::title).collect::<Vec<_>>().join(" ");
        for (width, expected) in [
            (10, ""),
            (40, "CPU MEM"),
            (60, "CPU WAIT MEM LIMIT"),
            (80, "CPU HISTORY WAIT MEM LIMIT RX/s TX/s"),
            (119, "CPU HISTORY WAIT P99WAIT MEM LIMIT READ/s WRITE/s RX/s TX/s PIDS OOM"),
            (120, "CPU HISTORY WAIT P99WAIT THROTT MEM LIMIT READ/s WRITE/s RX/s TX/s PIDS OOM"),
        ] {
            assert_eq!(titles(width), expected, "{width}");
        }
    }

    #[test]
    fn every_column_has_an_importance() {
        for column in Column::ALL {
            assert!(Column::WORTH.contains(&column), "{column:?}");
            assert!(column.title().len() <= column.width());
        }
    }

    proptest! {
        #[test]
        fn fits(width in 0usize..300) {
            let fit = fit(width);
            let used: usize = fit.columns.iter().map(|&c| fit.width(c) + 1).sum();
            prop_assert_eq!(fit.name + used, width);
            prop_assert!(fit.name >= NAME_LEAST.min(width));
            prop_assert!(fit.width(Column::History) <= HISTORY_MOST);
        }

        #[test]
        fn cells_fit(n in any::<u64>(), f in 0.0f64..10_000.0, share in 0.0f64..500.0) {
            let row = Row {
                cpu: Some(f), wait: Some(share), wait_p99_ns: Some(n >> 31), memory: Some(n),
                memory_limit: Some(n), read: Some(n as f64), write: Some(n as f64), rx: Some(n as f64),
                tx: Some(n as f64), threads: Some(n), oom_kills: Some(n), throttled: Some(1.0),
                ..Row::default()
            };
            for column in Column::ALL {
                prop_assert!(column.cell(&row).chars().count() <= column.width(), "{:?} {}", column, column.cell(&row));
            }
        }
    }
}
