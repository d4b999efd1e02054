use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const LINE: u64 = 600 * MIB;
const DISTANCE: u64 = 400 * MIB;
const LEAST: u64 = 64 * MIB;
const BASE: u64 = 10;
const MOST: u64 = 300;

fn level() -> Level {
    Level::new(LINE, DISTANCE, LEAST, ReleaseDelay::new(Duration::from_secs(BASE), Duration::from_secs(MOST)))
}

fn seen(second: u64, available_mib: u64, used_mib: u64) -> Reading {
    Reading { at: Duration::from_secs(second), available: available_mib * MIB, used: used_mib * MIB }
}

#[test]
fn burstables_line_is_nearer_to_the_threshold() {
    assert_eq!(lines(100, 40), [140, 120]);
    assert_eq!(lines(u64::MAX, 40), [u64::MAX; 2]);
}

#[test]
fn the_limit_is_lowered_by_what_is_missing_above_the_line() {
    let mut l = level();
    assert_eq!(l.update(seen(0, 600, 1000)), None);
    assert_eq!(l.update(seen(1, 599, 1000)), Some(Change::Squeezed(999 * MIB)));
    // The rest of the machine takes more.
    assert_eq!(l.update(seen(2, 560, 990)), None, "within the band");
    assert_eq!(l.update(seen(3, 500, 980)), Some(Change::Squeezed(880 * MIB)));
    assert_eq!(l.update(seen(4, 0, 300)), Some(Change::Squeezed(LEAST)), "never below the least");
    assert_eq!(l.update(seen(5, 0, 200)), None);
}

#[test]
fn memory_freed_by_throttling_does_not_end_it() {
    let mut l = level();
    l.update(seen(0, 500, 1000));
    assert_eq!(l.high(), Some(900 * MIB));
    assert!((1..1000).all(|second| l.update(seen(second, 600, 900)).is_none()));
}

#[test]
fn the_limit_is_raised_after_the_hold_time_and_removed_when_enough_is_free() {
    let mut l = level();
    l.update(seen(0, 500, 1000));
    assert!((1..11).all(|second| l.update(seen(second, 700, 900)).is_none()));
    assert_eq!(l.update(seen(11, 700, 900)), Some(Change::Released(Some(1000 * MIB))));
    assert!((12..22).all(|second| l.update(seen(second, 800, 1000)).is_none()));
    assert_eq!(l.update(seen(22, 800, 1000)), Some(Change::Released(None)));
    assert_eq!(l.high(), None);
}

proptest! {
    /// The rest of the machine and what the level wants do not change, and it obeys: releases that fail
    /// become rare.
    #[test]
    fn it_never_oscillates(rest in 0..3000u64, wants in 0..3000u64, lag in 1..20u64) {
        const SECONDS: u64 = 20_000;
        let mut l = level();
        let (mut used, mut back, mut released) = (wants, 0u64, false);
        for second in 0..SECONDS {
            let available = 4000u64.saturating_sub(rest + used);
            match l.update(seen(second, available, used)) {
                Some(Change::Squeezed(_)) => {
                    back += u64::from(released);
                    released = false;
                }
                Some(Change::Released(_)) => released = true,
                None => {}
            }
            let goal = l.high().map_or(wants, |high| wants.min(high / MIB));
            used = if used > goal { used - (used - goal).div_ceil(lag) } else { used + (goal - used).div_ceil(lag) };
        }
        let doublings = u64::from((MOST / BASE).ilog2()) + 1;
        prop_assert!(back <= doublings + SECONDS / MOST + 1, "{back} times back");
    }

    #[test]
    fn it_begins_only_below_the_line_and_always_ends(
        noise in prop::collection::vec((0..2000u64, 0..2000u64), 0..200),
    ) {
        let mut l = level();
        for (second, (available, used)) in noise.iter().enumerate() {
            let change = l.update(seen(second as u64, *available, *used));
            if let Some(Change::Squeezed(high)) = change {
                prop_assert!(available * MIB < LINE);
                prop_assert!(high >= LEAST && high <= (used * MIB).max(LEAST));
            }
        }
        let second = noise.len() as u64;
        for later in 0..MOST + 2 {
            l.update(seen(second + later, 1000, 500));
        }
        prop_assert_eq!(l.high(), None);
    }
}
