//! Formats numbers and times for display. Pure.

use std::time::Duration;

use jiff::Timestamp;

pub use nodewarden_model::text::{bytes, count};

/// Nanoseconds in a suitable unit: `850ns`, `1.25ms`.
pub fn nanos(n: u64) -> String {
    match n {
        0..1_000 => format!("{n}ns"),
        1_000..1_000_000 => format!("{:.1}µs", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}ms", n as f64 / 1e6),
        _ => format!("{:.2}s", n as f64 / 1e9),
    }
}

/// A duration as its two largest units: `3d4h`, `90s` as `1m30s`.
pub fn span(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{}h", s / 86_400, s % 86_400 / 3600),
    }
}

/// RFC 3339 in UTC to the millisecond: sorts as text, and can be given to `--since`.
pub fn time(t: Timestamp) -> String {
    format!("{t:.3}")
}

/// Shortens a text in the middle to at most `width` characters, because the ends of a path or name say most.
pub fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    let head = (width - 1) / 3;
    let tail = width - 1 - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

/// Replaces control characters by `?`: command names and paths may hold any byte and could move the cursor.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_shown_with_a_unit() {
        for (n, expected) in [
            (0, "0"),
            (999, "999"),
            (1000, "0.98Ki"),
            (1024, "1.00Ki"),
            (64 << 20, "64.0Mi"),
            (1023 << 20, "1.00Gi"),
            (3 << 29, "1.50Gi"),
            (128 << 30, "128Gi"),
            (u64::MAX, "16.0Ei"),
        ] {
            assert_eq!(bytes(n), expected);
        }
        assert_eq!([0, 999, 1500, 999_999].map(count), ["0", "999", "1.50k", "1.00M"]);
        assert_eq!([5, 1500, 2_500_000, 3_000_000_000].map(nanos), ["5ns", "1.5µs", "2.5ms", "3.00s"]);
        assert_eq!(
            [5, 90, 3700, 100_000].map(|s| span(Duration::from_secs(s))),
            ["5s", "1m30s", "1h1m", "1d3h"]
        );
    }

    #[test]
    fn times_sort_as_text() {
        let t = Timestamp::new(1_700_000_000, 5_000_000).unwrap();
        assert_eq!(time(t), "2023-11-14T22:13:20.005Z");
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\x1b[2Jb\nc"), "a?[2Jb?c");
    }

    proptest! {
        #[test]
        fn narrow(n in any::<u64>()) {
            prop_assert!(bytes(n).len() <= 6, "{}", bytes(n));
            prop_assert!(count(n).len() <= 5, "{}", count(n));
        }

        #[test]
        fn shortened_fits_and_keeps_the_ends(text in "[a-zé/]{0,60}", width in 0usize..70) {
            let short = shorten(&text, width);
            prop_assert!(short.chars().count() <= width);
            if width > 3 && !text.is_empty() {
                prop_assert_eq!(short.chars().last(), text.chars().last());
                prop_assert_eq!(short.chars().next(), text.chars().next());
            }
        }
    }
}
