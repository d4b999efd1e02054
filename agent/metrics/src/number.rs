//! Numbers as text, written directly into the output: no allocation, and no float where the value is whole.

use std::io::Write;

/// A sample's value in the unit it was counted in. Nano- and microseconds come out as seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// Written unchanged.
    Int(u64),
    /// Nanoseconds, written as seconds.
    Nanos(u64),
    /// Microseconds, written as seconds.
    Micros(u64),
    /// Written in the shortest decimal form that reads back as the same number.
    Float(f64),
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Int(n)
    }
}

impl Value {
    /// Appends the value in the form that Go's `ParseFloat` (Prometheus) accepts.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Int(n) => int(out, n),
            Self::Nanos(n) => decimal(out, n, 9),
            Self::Micros(n) => decimal(out, n, 6),
            Self::Float(f) => float(out, f),
        }
    }
}

/// Appends `n` in decimal digits.
pub(crate) fn int(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Appends `n` / 10^`places` exactly, without trailing zeros. At most 9 places.
fn decimal(out: &mut Vec<u8>, n: u64, places: usize) {
    debug_assert!(places <= 9);
    let unit = 10u64.pow(places as u32);
    int(out, n / unit);
    // Less than 10^9: divisions of 32 bits take less time.
    let mut rest = (n % unit) as u32;
    if rest == 0 {
        return;
    }
    let mut text = *b".000000000";
    for digit in text[1..=places].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let end = text.iter().rposition(|&d| d != b'0').map_or(0, |last| last + 1);
    out.extend_from_slice(&text[..end]);
}

fn float(out: &mut Vec<u8>, f: f64) {
    if f.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if f.is_infinite() {
        out.extend_from_slice(if f > 0.0 { b"+Inf" } else { b"-Inf" });
    } else {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{f}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Value;

    fn text(value: Value) -> String {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_have_the_form_that_prometheus_reads() {
        let cases = [
            (Value::Int(0), "0"),
            (Value::Int(u64::MAX), "18446744073709551615"),
            (Value::Nanos(0), "0"),
            (Value::Nanos(1), "0.000000001"),
            (Value::Nanos(1_024), "0.000001024"),
            (Value::Nanos(1_500_000_000), "1.5"),
            (Value::Nanos(3_000_000_000), "3"),
            (Value::Nanos(51_969_309_768), "51.969309768"),
            (Value::Micros(2_050_000), "2.05"),
            (Value::Float(0.25), "0.25"),
            (Value::Float(f64::NAN), "NaN"),
            (Value::Float(f64::INFINITY), "+Inf"),
            (Value::Float(f64::NEG_INFINITY), "-Inf"),
        ];
        for (value, want) in cases {
            assert_eq!(text(value), want, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_read_back(n: u64) {
            prop_assert_eq!(text(Value::Int(n)).parse::<u64>().unwrap(), n);
        }

        #[test]
        fn seconds_are_exact(n: u64) {
            let shown = text(Value::Nanos(n));
            let (whole, rest) = shown.split_once('.').unwrap_or((&shown, ""));
            prop_assert!(!rest.ends_with('0'));
            let nanos: u64 = format!("{rest:0<9}").parse().unwrap();
            prop_assert_eq!(u128::from(whole.parse::<u64>().unwrap()) * 1_000_000_000 + u128::from(nanos), u128::from(n));
        }

        #[test]
        fn floats_read_back(f in proptest::num::f64::NORMAL) {
            prop_assert_eq!(text(Value::Float(f)).parse::<f64>().unwrap(), f);
        }
    }
}
