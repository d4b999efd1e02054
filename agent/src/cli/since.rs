//! The argument of `--since`: a duration before now, or a point in time. Pure.

use jiff::{SignedDuration, Timestamp};

/// Reads `10m`, `1h30m`, `2d`, `45s` or an RFC 3339 time.
///
/// # Errors
/// A message that shows the accepted forms.
pub fn parse(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    const EXPECTED: &str =
        "expected a duration like 45s, 10m, 1h30m or 2d, or a time like 2026-11-21T04:30:00Z";
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let seconds = seconds(text).ok_or(EXPECTED)?;
    now.checked_sub(SignedDuration::from_secs(seconds)).map_err(|_| EXPECTED.to_owned())
}

fn seconds(text: &str) -> Option<i64> {
    let mut total = 0i64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        let unit = match rest[digits..].chars().next()? {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_parsed() {
        let now = Timestamp::new(1_000_000, 0).unwrap();
        for (text, expected) in [
            ("45s", 999_955),
            ("10m", 999_400),
            ("1h30m", 994_600),
            ("2d", 827_200),
            ("1970-01-02T00:00:00Z", 86_400),
        ] {
            assert_eq!(parse(text, now).map(|t| t.as_second()), Ok(expected), "{text}");
        }
        for text in ["", "10", "m", "10x", "-5m", "yesterday", "99999999999999999999s", "9999999999999d"] {
            assert!(parse(text, now).is_err(), "{text}");
        }
    }
}
