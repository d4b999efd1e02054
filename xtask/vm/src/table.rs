//! What a run of guests ends with: the table, what failed, what was skipped and why.

use std::fmt::Write;
use std::time::Duration;

use super::guest::{Guest, layout_name};
use xtask_common::tally::{Counts, Tally};

/// One guest's row.
#[derive(Debug, Clone)]
pub struct Row {
    /// Which guest.
    pub guest: Guest,
    /// Its kernel; `None` if it never came up.
    pub release: Option<String>,
    /// Its tests.
    pub tally: Tally,
    /// How long it took.
    pub took: Duration,
}

/// Kernel × layout × passed, failed, skipped, seconds.
pub fn table(rows: &[Row]) -> String {
    let header = ["kernel", "layout", "passed", "failed", "skipped", "seconds"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let Counts { passed, failed, skipped } = row.tally.counts;
        [
            row.release.clone().unwrap_or_else(|| format!("{} (never came up)", row.guest.family.name())),
            layout_name(row.guest.layout).to_owned(),
            passed.to_string(),
            failed.to_string(),
            skipped.to_string(),
            format!("{:.0}", row.took.as_secs_f64()),
        ]
    });
    let lines = std::iter::once(header).chain(cells).collect::<Vec<_>>();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in &lines {
        for (column, cell) in line.iter().enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let width = width(column);
            // Writing into a String can't fail.
            let _ = if column < 2 {
                write!(text, "{gap}{cell:<width$}")
            } else {
                write!(text, "{gap}{cell:>width$}")
            };
        }
        text.push('\n');
    }
    text
}

/// One tally of all guests, their names in front; what was skipped in several for the same reason comes once.
pub fn merged(rows: &[Row]) -> Tally {
    let mut merged = Tally::default();
    let mut skipped: Vec<(Vec<String>, &str, &str)> = Vec::new();
    for row in rows {
        let of_guest = |lines: &[String]| lines.iter().map(|line| format!("{}: {line}", row.guest)).collect();
        let mut of_row = row.tally.clone();
        of_row.failed = of_guest(&of_row.failed);
        of_row.second_attempts = of_guest(&of_row.second_attempts);
        of_row.skipped.clear();
        merged.add(of_row);
        for (name, reason) in &row.tally.skipped {
            match skipped.iter_mut().find(|known| (known.1, known.2) == (name, reason)) {
                Some(known) => known.0.push(row.guest.to_string()),
                None => skipped.push((vec![row.guest.to_string()], name, reason)),
            }
        }
    }
    merged.skipped = skipped
        .into_iter()
        .map(|(guests, name, reason)| (format!("{}: {name}", guests.join(", ")), reason.to_owned()))
        .collect();
    merged
}

#[cfg(test)]
mod tests {
    use super::super::guest::MATRIX;
    use super::*;

    fn row(guest: Guest, release: Option<&str>, lines: &[&str]) -> Row {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.line(line));
        Row { guest, release: release.map(str::to_owned), tally, took: Duration::from_millis(61_700) }
    }

    fn rows() -> [Row; 2] {
        let lines = ["test a ... skipped: no disk", "test b ... skipped: no tool"];
        let first = [&lines[..], &["e2e: 30 passed, 0 failed, 2 skipped"]].concat();
        let second =
            [&lines[..1], &["test c ... FAILED (1 s)", "e2e: 8 passed, 1 failed, 1 skipped"]].concat();
        [row(MATRIX[1], Some("6.1.0-50-cloud-amd64"), &first), row(MATRIX[5], None, &second)]
    }

    #[test]
    fn figures_stand_below_each_other() {
        let expected = "\
kernel                layout   passed  failed  skipped  seconds
6.1.0-50-cloud-amd64  v2           30       0        2       62
6.12 (never came up)  systemd       8       1        1       62
";
        assert_eq!(table(&rows()), expected);
    }

    #[test]
    fn names_tell_the_guest_and_reasons_come_once() {
        let merged = merged(&rows());
        assert_eq!(merged.counts, Counts { passed: 38, failed: 1, skipped: 3 });
        assert_eq!(merged.failed, ["6.12 systemd: c"]);
        let skipped =
            merged.skipped.iter().map(|(name, reason)| format!("{name}: {reason}")).collect::<Vec<_>>();
        assert_eq!(skipped, ["6.1 v2, 6.12 systemd: a: no disk", "6.1 v2: b: no tool"]);
    }
}
