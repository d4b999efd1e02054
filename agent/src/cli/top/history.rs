//! The last figures of each cgroup, one a refresh. Pure.

use std::collections::{HashMap, VecDeque};

use super::rates::Row;

/// How many figures are kept of each.
pub const KEPT: usize = 120;
/// Of how many cgroups, pods and containers first. All of it is then at most some 13 MB.
const CGROUPS: usize = 8192;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Cpu,
    Memory,
    Wait,
}

impl Figure {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Wait];

    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::Cpu => row.cpu,
            Self::Memory => row.memory.map(|n| n as f64),
            Self::Wait => row.wait,
        }
    }

    /// The value that fills a bar: the limit of memory, since a working set hardly changes; else the highest
    /// of `values`, or a little more than nothing, so that idling does not look like work.
    pub fn top(self, row: &Row, values: &[Option<f64>]) -> f64 {
        let peak = values.iter().flatten().copied().fold(0.0, f64::max);
        match (self, row.memory_limit) {
            (Self::Memory, Some(limit)) if limit > 0 => limit as f64,
            (Self::Memory, _) => peak.max(1.0),
            (Self::Cpu | Self::Wait, _) => peak.max(0.1),
        }
    }
}

#[derive(Debug, Default)]
pub struct History {
    rings: HashMap<String, Ring>,
    rounds: u64,
}

#[derive(Debug, Default)]
struct Ring {
    /// In the order of [`Figure::ALL`]; NaN if unknown, which needs half the memory of an `Option`.
    samples: VecDeque<[f32; 3]>,
    /// The last round in which the cgroup was there.
    seen: u64,
}

impl Ring {
    fn push(&mut self, row: &Row, round: u64) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Figure::ALL.map(|figure| figure.of(row).map_or(f32::NAN, |n| n as f32)));
        self.seen = round;
    }
}

impl History {
    /// Adds one figure of each row, and forgets cgroups that are gone.
    pub fn add(&mut self, rows: &[Row]) {
        self.rounds += 1;
        let round = self.rounds;
        for row in rows {
            if let Some(ring) = self.rings.get_mut(&row.path) {
                ring.push(row, round);
            }
        }
        self.rings.retain(|_, ring| ring.seen == round);
        let first = |row: &&Row| row.kind == "pod" || row.kind == "container";
        for row in rows.iter().filter(first).chain(rows.iter().filter(|row| !first(row))) {
            if self.rings.len() >= CGROUPS {
                break;
            }
            if !self.rings.contains_key(&row.path) {
                self.rings.entry(row.path.clone()).or_default().push(row, round);
            }
        }
    }

    /// The last figures of a cgroup, at most so many, oldest first.
    pub fn last(&self, path: &str, figure: Figure, most: usize) -> Vec<Option<f64>> {
        let Some(ring) = self.rings.get(path) else { return Vec::new() };
        let known = |sample: &[f32; 3]| Some(f64::from(sample[figure as usize])).filter(|n| !n.is_nan());
        ring.samples.iter().skip(ring.samples.len().saturating_sub(most)).map(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str, kind: &str, cpu: Option<f64>) -> Row {
        Row { path: path.into(), kind: kind.into(), cpu, memory: Some(5), ..Row::default() }
    }

    #[test]
    fn one_figure_a_round_and_what_is_gone_is_forgotten() {
        let mut history = History::default();
        assert!(history.last("/a", Figure::Cpu, 9).is_empty());
        history.add(&[row("/a", "pod", None), row("/b", "pod", Some(2.0))]);
        history.add(&[row("/a", "pod", Some(0.5))]);
        assert_eq!(history.last("/a", Figure::Cpu, 9), [None, Some(0.5)]);
        assert_eq!(history.last("/a", Figure::Cpu, 1), [Some(0.5)]);
        assert_eq!(history.last("/a", Figure::Memory, 9), [Some(5.0), Some(5.0)]);
        assert_eq!(history.last("/a", Figure::Wait, 9), [None, None]);
        assert!(history.last("/b", Figure::Cpu, 9).is_empty());
    }

    #[test]
    fn it_is_bounded_and_pods_come_first() {
        let mut history = History::default();
        let mut rows: Vec<Row> = (0..CGROUPS).map(|n| row(&format!("/other{n}"), "other", None)).collect();
        rows.extend((0..3000).map(|n| row(&format!("/pod{n}"), "pod", Some(1.0))));
        for _ in 0..KEPT + 30 {
            history.add(&rows);
        }
        assert_eq!(history.rings.len(), CGROUPS);
        assert_eq!(history.last("/pod2999", Figure::Cpu, 999).len(), KEPT);
        let samples: usize = history.rings.values().map(|ring| ring.samples.capacity()).sum();
        assert!(samples * size_of::<[f32; 3]>() <= 13 << 20, "{samples}");
    }

    #[test]
    fn what_fills_a_bar() {
        let limited = Row { memory_limit: Some(64), ..Row::default() };
        for (figure, row, values, top) in [
            (Figure::Cpu, &limited, &[Some(0.01), None][..], 0.1),
            (Figure::Wait, &limited, &[Some(3.0), Some(1.0)], 3.0),
            (Figure::Memory, &limited, &[Some(3.0)], 64.0),
            (Figure::Memory, &Row::default(), &[Some(3.0)], 3.0),
            (Figure::Memory, &Row::default(), &[], 1.0),
        ] {
            assert_eq!(figure.top(row, values), top, "{figure:?} {values:?}");
        }
    }
}
