//! Judges from the use of the disk at each removal whether collections started and stopped where they should.
//! Pure functions.

use std::time::{Duration, Instant};

use crate::fixture::{Removal, Space};

/// Bytes that the use may change on its own between a reading and a removal: blocks of containerd's own
/// database.
const SLACK: i64 = 512 << 10;
/// Percent. The kubelet rounds the free part of the disk down to a whole percent: the use seems to be up to
/// one more.
const WHOLE_PERCENT: u64 = 1;

/// A removal this soon after the last one belongs to the same collection: writes may have brought the use
/// above the threshold again before the collection read it. Less than the time between two collections.
const SAME_COLLECTION: Duration = Duration::from_millis(500);

/// The removals of one collection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    pub removals: usize,
    /// Use before its first removal and after its last, in percent.
    pub from: f64,
    pub to: f64,
}

/// Groups removals into collections from above `high` to `low` percent.
///
/// # Errors
/// A removal that was not due, or a collection that stopped too early. The last collection may be in
/// progress.
pub fn runs(removals: &[Removal], high: u64, low: u64) -> Result<Vec<Run>, String> {
    let mut runs: Vec<Run> = Vec::new();
    let mut open = false;
    let mut ended = None;
    for (number, removal) in removals.iter().enumerate() {
        let before = removal.before;
        let soon =
            ended.is_some_and(|ended| removal.asked.saturating_duration_since(ended) < SAME_COLLECTION);
        ended = removal.ended.or(ended);
        open |= soon;
        if open && before.above(low) <= -SLACK {
            return Err(format!(
                "removal {number} at {:.2} %: {low} % had been reached: {}",
                before.percent(),
                shown(removals)
            ));
        }
        if !open {
            if before.above(high - WHOLE_PERCENT) < -SLACK {
                return Err(format!(
                    "removal {number} at {:.2} %: none is due below {high} %: {}",
                    before.percent(),
                    shown(removals)
                ));
            }
            runs.push(Run { removals: 0, from: before.percent(), to: before.percent() });
        }
        let after = removal.after.unwrap_or(before);
        if let Some(run) = runs.last_mut() {
            run.removals += 1;
            run.to = after.percent();
        }
        open = after.above(low) > 0;
    }
    Ok(runs)
}

/// Every removal as text: use before and after it.
fn shown(removals: &[Removal]) -> String {
    let shown = removals.iter().map(|removal| {
        let after =
            removal.after.map_or_else(|| "not done".to_owned(), |after| format!("{:.2}", after.percent()));
        format!("{:.2} to {after}", removal.before.percent())
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Checks that every collection reached `low` percent. One that makes no removal for longer than `pause`
/// counts as ended.
///
/// # Errors
/// The collection that ended above `low` percent.
pub fn all_ended(removals: &[Removal], low: u64, pause: Duration, end: Instant) -> Result<(), String> {
    for (number, removal) in removals.iter().enumerate() {
        let next = removals.get(number + 1).map_or(end, |next| next.asked);
        let reached = removal.after.is_some_and(|after| after.above(low) <= 0);
        if !reached && next.duration_since(removal.asked) > pause {
            return Err(format!(
                "nothing followed removal {number}, which left the disk above {low} %: {}",
                shown(removals)
            ));
        }
    }
    Ok(())
}

/// The most that one removal freed, in bytes.
pub fn largest(removals: &[Removal]) -> u64 {
    let freed = |removal: &Removal| {
        removal.after.map_or(0, |after| after.available.saturating_sub(removal.before.available))
    };
    removals.iter().map(freed).max().unwrap_or(0)
}

/// The lowest use among these readings.
pub fn lowest(seen: &[Space]) -> Option<Space> {
    seen.iter().copied().min_by_key(|space| space.used())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::RemovalAction;

    /// Removals on a disk of 100 MB, by the use before and after in percent.
    fn removals(all: &[(u64, Option<u64>)]) -> Vec<Removal> {
        let space = |used: u64| Space { capacity: 100_000_000, available: 100_000_000 - used * 1_000_000 };
        let begun = Instant::now();
        let mut minutes = 0..;
        let removal = |&(before, after): &(u64, Option<u64>)| {
            let asked = begun + Duration::from_secs(60) * minutes.next().unwrap_or(0);
            Removal {
                id: "x".to_owned(),
                names: Vec::new(),
                action: RemovalAction::Pass,
                asked,
                before: space(before),
                after: after.map(space),
                ended: Some(asked),
            }
        };
        all.iter().map(removal).collect()
    }

    #[test]
    fn collections_that_start_and_stop_at_the_thresholds_pass() {
        let good = removals(&[(86, Some(83)), (83, None), (83, Some(79)), (85, Some(78))]);
        let seen = runs(&good, 85, 80).unwrap();
        assert_eq!(seen.iter().map(|run| run.removals).collect::<Vec<_>>(), [3, 1]);
        assert!((seen[0].from - 86.0).abs() < 0.01 && (seen[0].to - 79.0).abs() < 0.01);
        assert_eq!(largest(&good), 7_000_000);
        assert!(runs(&[], 85, 80).unwrap().is_empty());
    }

    #[test]
    fn a_removal_too_many_or_without_need_is_an_error() {
        // Written to in the same moment: the collection cannot know that it had reached the threshold.
        let mut soon = removals(&[(86, Some(80)), (81, Some(78))]);
        soon[1].asked = soon[0].asked;
        assert_eq!(runs(&soon, 85, 80).map(|runs| runs.len()), Ok(1));
        for wrong in [
            [(86, Some(79)), (79, Some(76))],
            [(86, Some(83)), (79, Some(76))],
            [(86, Some(80)), (81, Some(78))],
        ] {
            assert!(runs(&removals(&wrong), 85, 80).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_collection_that_stops_too_early_is_an_error() {
        let mut all = removals(&[(86, Some(83)), (83, Some(79))]);
        let pause = Duration::from_secs(1);
        let soon = all[0].asked + Duration::from_millis(10);
        let late = all[0].asked + Duration::from_secs(5);
        for removal in &mut all {
            removal.asked = soon;
        }
        assert!(all_ended(&all, 80, pause, late).is_ok());
        all[1].asked = late;
        assert!(all_ended(&all, 80, pause, late).is_err(), "five seconds at 83 %");
        all.truncate(1);
        assert!(all_ended(&all, 80, pause, soon).is_ok() && all_ended(&all, 80, pause, late).is_err());
    }

    #[test]
    fn lowest_returns_the_reading_with_most_space() {
        let space = |available| Space { capacity: 10, available };
        assert_eq!(lowest(&[space(3), space(5), space(4)]), Some(space(5)));
        assert_eq!(lowest(&[]), None);
    }
}
