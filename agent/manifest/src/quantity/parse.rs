//! Parses texts like apimachinery's `ParseQuantity`, including what it accepts by mistake (`-`, `.`, `k` are
//! zero).

use num_bigint::BigInt;

use super::amount::{Amount, Decimal, power_of_ten};
use super::{Format, Quantity, QuantityError, QuantityFault};

/// The exponent of the finest amount that is kept.
const NANO: i32 = -9;
/// Decimal digits that always fit an `i64`.
const SMALL_DIGITS: usize = 18;
/// Maximum length of a text and maximum exponent. apimachinery has no limit: comparing `1e999999999` takes
/// it a gigabyte.
const LONGEST: usize = 512;

/// The parts of a text, not yet validated.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros; never empty.
    whole: &'a str,
    fraction: &'a str,
    /// Whether any digit was written.
    has_digit: bool,
    suffix: &'a str,
}

/// The factor that a suffix stands for: a power of ten or of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Ten(i32),
    Two(u32),
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    quantity(text).map_err(|fault| QuantityError { text: text.to_owned(), fault })
}

fn quantity(text: &str) -> Result<Quantity, QuantityFault> {
    match text {
        "" => return Err(QuantityFault::Empty),
        "0" => return Ok(Quantity::default()),
        _ if text.len() > LONGEST => return Err(QuantityFault::TooLarge),
        _ => {}
    }
    let parts = split(text)?;
    let (scale, format) = interpret(parts.suffix)?;
    let zero = parts.whole == "0" && parts.fraction.bytes().all(|b| b == b'0');
    if let Scale::Ten(exponent) = scale
        && !zero
        && usize::try_from(exponent).is_ok_and(|exponent| exponent > LONGEST)
    {
        return Err(QuantityFault::TooLarge);
    }
    if let Some((amount, canonical)) = small(&parts, scale) {
        let text = canonical.then(|| text.into());
        return Ok(Quantity { amount, format, text });
    }
    if !parts.has_digit {
        return Err(QuantityFault::NoDigits);
    }
    Ok(big(&parts, scale, format))
}

fn split(text: &str) -> Result<Parts<'_>, QuantityFault> {
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number = unsigned.trim_start_matches('0');
    if number.is_empty() {
        return Ok(Parts { negative, whole: "0", fraction: "", has_digit: true, suffix: "" });
    }
    let zeros = unsigned.len() > number.len();
    let (whole, rest) = take(number, |b| b.is_ascii_digit());
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => take(rest, |b| b.is_ascii_digit()),
        None => ("", rest),
    };
    let (_, power) = take(suffix, |b| b"eEinumkKMGTP".contains(&b));
    let power = power.strip_prefix(['-', '+']).unwrap_or(power);
    if !power.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityFault::Form);
    }
    let has_digit = zeros || !whole.is_empty() || !fraction.is_empty();
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts { negative, whole, fraction, has_digit, suffix })
}

/// The longest beginning of which every byte is `wanted` (ASCII), and the rest.
fn take(text: &str, wanted: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|b| !wanted(b)).unwrap_or(text.len()))
}

fn interpret(suffix: &str) -> Result<(Scale, Format), QuantityFault> {
    let unknown = || QuantityFault::Suffix { suffix: suffix.to_owned() };
    if let Some(exponent) = super::decimal_exponent(suffix) {
        return Ok((Scale::Ten(exponent), Format::DecimalSi));
    }
    if let Some(power) = super::binary_power(suffix) {
        return Ok((Scale::Two(power), Format::BinarySi));
    }
    let exponent: i64 =
        suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse().ok()).ok_or_else(unknown)?;
    // apimachinery keeps only the low 32 bits of the exponent: it reads 1e4294967296 as 1.
    let exponent = exponent.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    Ok((Scale::Ten(exponent), Format::DecimalExponent))
}

/// The number if an `i64` certainly holds it, and whether apimachinery displays its text unchanged.
fn small(parts: &Parts<'_>, scale: Scale) -> Option<(Amount, bool)> {
    let places = parts.fraction.len();
    let (factor, exponent) = match scale {
        Scale::Ten(exponent) => {
            if parts.whole.len() + places > SMALL_DIGITS {
                return None;
            }
            (1, exponent.checked_sub(i32::try_from(places).ok()?)?)
        }
        Scale::Two(power) => {
            // 2^10 has about three decimal digits; two digits are spare.
            if places > 0 || parts.whole.len() + usize::try_from(power).ok()? * 3 / 10 > 14 {
                return None;
            }
            (1_i64 << power, 0)
        }
    };
    if exponent < NANO {
        return None;
    }
    let written = [parts.whole, parts.fraction].concat();
    let value: i64 = written.parse().ok()?;
    let digits = value.checked_mul(factor)?;
    let canonical = match scale {
        Scale::Ten(_) => exponent % 3 == 0 && !written.ends_with("000") && !written.starts_with('0'),
        Scale::Two(_) => value & 7 != 0,
    };
    let digits = if parts.negative { -digits } else { digits };
    // 0e512 is zero, whatever its exponent.
    let exponent = if digits == 0 { 0 } else { exponent };
    Some((Amount::Small { digits, exponent }, canonical))
}

/// Any other number: rounded away from zero to billionths; a binary one capped at the largest `i64`.
fn big(parts: &Parts<'_>, scale: Scale, mut format: Format) -> Quantity {
    let mut digits = BigInt::default();
    for byte in parts.whole.bytes().chain(parts.fraction.bytes()) {
        digits = digits * 10 + (byte - b'0');
    }
    let mut exponent = -i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    match scale {
        Scale::Ten(power) => exponent = exponent.saturating_add(power),
        Scale::Two(power) => digits <<= power,
    }
    let zero = digits == BigInt::ZERO;
    let mut decimal = match zero {
        true => Decimal { digits, exponent: 0 },
        false => Decimal { digits, exponent }.rounded_up(NANO),
    };
    if format == Format::BinarySi && !zero {
        let one = power_of_ten(NANO.unsigned_abs());
        if decimal.digits > i64::MAX * &one {
            decimal = Decimal { digits: i64::MAX.into(), exponent: 0 };
        } else if decimal.digits < one {
            format = Format::DecimalSi;
        }
    }
    let amount = Amount::Big(decimal.into());
    Quantity { amount: if parts.negative { amount.negated() } else { amount }, format, text: None }
}
