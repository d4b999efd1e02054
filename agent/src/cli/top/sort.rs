//! Which rows are shown, and in which order. Pure.

use std::cmp::Ordering;

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

    pub fn by_key(key: char) -> Option<Self> {
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

    pub fn next(self) -> Self {
        match self {
            Self::Pods => Self::Containers,
            Self::Containers => Self::All,
            Self::All => Self::Pods,
        }
    }

    pub fn has(self, row: &Row) -> bool {
        match self {
            Self::Pods => row.kind == "pod",
            Self::Containers => row.kind == "container",
            Self::All => true,
        }
    }
}

/// Descending; unknown values last.
pub fn compare(sort: Sort, a: &Row, b: &Row) -> Ordering {
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

    #[test]
    fn every_key_of_an_order() {
        for (key, sort) in [
            ('c', Sort::Cpu),
            ('m', Sort::Memory),
            ('w', Sort::Wait),
            ('i', Sort::Io),
            ('n', Sort::Net),
            ('p', Sort::Pids),
            ('a', Sort::Name),
        ] {
            assert_eq!(Sort::by_key(key), Some(sort));
        }
        assert_eq!(Sort::by_key('z'), None);
    }

    #[test]
    fn the_largest_first_and_unknown_ones_last() {
        let row = |cpu, read, write| Row { cpu, read, write, ..Row::default() };
        let (busy, idle, unknown) =
            (row(Some(2.0), None, Some(3.0)), row(Some(0.0), Some(5.0), None), row(None, None, None));
        for (sort, a, b) in [
            (Sort::Cpu, &busy, &idle),
            (Sort::Cpu, &idle, &unknown),
            (Sort::Io, &idle, &busy),
            (Sort::Io, &busy, &unknown),
        ] {
            assert_eq!((compare(sort, a, b), compare(sort, b, a)), (Ordering::Less, Ordering::Greater));
        }
        assert_eq!(compare(Sort::Name, &busy, &idle), Ordering::Equal);
    }
}
