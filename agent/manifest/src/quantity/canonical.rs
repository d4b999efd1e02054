//! Formats quantities: with the largest suffix that leaves no fraction (apimachinery's `CanonicalizeBytes`).

use std::fmt;

use num_bigint::BigInt;

use super::amount::{Amount, Decimal};
use super::{Format, Quantity};

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.pad(text),
            None => f.pad(&canonical(&self.amount, self.format)),
        }
    }
}

fn canonical(amount: &Amount, format: Format) -> String {
    if amount.sign().is_eq() {
        return "0".to_owned();
    }
    match format {
        Format::BinarySi if fits_binary(amount) => binary(amount),
        Format::BinarySi | Format::DecimalSi => decimal(amount, super::decimal_suffix),
        Format::DecimalExponent => decimal(amount, |exponent| match exponent {
            0 => String::new(),
            _ => format!("e{exponent}"),
        }),
    }
}

/// Whether the binary format can be used: small numbers and fractions are always written in decimal.
fn fits_binary(amount: &Amount) -> bool {
    let beyond = |bound: i64| amount.compare(&Amount::Small { digits: bound, exponent: 0 });
    (beyond(1024).is_ge() || beyond(-1024).is_le()) && amount.is_multiple_of(0)
}

fn binary(amount: &Amount) -> String {
    let (digits, times) = without_factors(amount.to_decimal().rounded_up(0).digits, 1024);
    format!("{digits}{}", super::binary_suffix(times * 10))
}

fn decimal(amount: &Amount, suffix: impl Fn(i32) -> String) -> String {
    let Decimal { digits, exponent } = amount.to_decimal();
    let (mut digits, times) = without_factors(digits, 10);
    let mut exponent = exponent + times.cast_signed();
    while exponent % 3 != 0 {
        digits *= 10;
        exponent -= 1;
    }
    format!("{digits}{}", suffix(exponent))
}

/// `digits = result × factor^times`, for digits that are not zero.
fn without_factors(mut digits: BigInt, factor: u32) -> (BigInt, u32) {
    let mut times = 0;
    while &digits % factor == BigInt::ZERO {
        digits /= factor;
        times += 1;
    }
    (digits, times)
}
