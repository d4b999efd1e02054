//! Durations in the kubelet's file: `metav1.Duration`, in the format of Go's `time.ParseDuration`.

use std::time::Duration;

/// Nanoseconds per unit; a unit comes before those that are prefixes of its name.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),  // the micro sign
    ("\u{3bc}s", 1_000), // the Greek letter
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The longest time that Go can hold: 2^63 - 1 nanoseconds.
const LONGEST: u128 = i64::MAX as u128;

/// Parses `300ms`, `1.5h`, `2h45m` or `0`. `None` for other texts and for negative durations.
pub fn parse(text: &str) -> Option<Duration> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (part, after) = term(rest)?;
        nanos = nanos.checked_add(part)?;
        rest = after;
    }
    if nanos > LONGEST || (negative && nanos > 0) {
        return None;
    }
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// One number with its unit in nanoseconds, and the rest of the text.
fn term(text: &str) -> Option<(u128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, rest) =
        UNITS.iter().find_map(|(name, nanos)| Some((u128::from(*nanos), rest.strip_prefix(name)?)))?;
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Further digits are below a nanosecond: 18 are enough even for hours.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = match fraction {
        "" => 0,
        digits => digits.parse::<u128>().ok()? * unit / 10_u128.pow(digits.len() as u32),
    };
    Some((whole.checked_mul(unit)?.checked_add(part)?, rest))
}

/// The leading digits of `text`, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Formats a duration such that [`parse`] returns it.
pub fn show(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (name, unit) = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)]
        .into_iter()
        .find(|(_, unit)| nanos.is_multiple_of(*unit))
        .unwrap_or(("ns", 1));
    format!("{}{name}", nanos / unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, nanos) in [
            ("0", 0),
            ("-0s", 0),
            ("100ms", 100_000_000),
            ("20s", 20_000_000_000),
            ("+1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            ("1.9ns", 1),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            ".s",
            "-30s",
            "1 s",
            "1d",
            "1.2.3s",
            "--1s",
            "1e3s",
            "9223372036854775808ns",
            "3000000h",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(nanos in 0..=i64::MAX as u64) {
            let time = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&show(time)), Some(time));
            let millis = Duration::from_millis(nanos % 100_000);
            prop_assert_eq!(parse(&show(millis)), Some(millis));
        }

        #[test]
        fn never_panics(text in "[-+.0-9a-zµ]{0,40}") {
            let _ = parse(&text);
        }
    }
}
