//! The number in a quantity, in apimachinery's two representations.
//!
//! The two differ only where a result exceeds an `i64`: they overflow differently, and kubelets show both
//! kinds of overflow. Everything else is exact.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// `digits × 10^exponent`.
#[derive(Debug, Clone)]
pub(super) enum Amount {
    /// While an `i64` can hold the digits (apimachinery's `int64Amount`).
    Small { digits: i64, exponent: i32 },
    /// Any length (apimachinery's `infDecAmount`).
    // Boxed, since no pod has one, and each amount would be as large.
    Big(Box<Decimal>),
}

/// `digits × 10^exponent` of any length.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    pub(super) digits: BigInt,
    pub(super) exponent: i32,
}

impl Amount {
    pub(super) const ZERO: Self = Self::Small { digits: 0, exponent: 0 };

    pub(super) fn sign(&self) -> Ordering {
        match self {
            Self::Small { digits, .. } => digits.cmp(&0),
            Self::Big(decimal) => match decimal.digits.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    /// The number in units of `10^exponent`, rounded and wrapped like `Quantity.ScaledValue`.
    pub(super) fn in_units(&self, exponent: i32) -> i64 {
        match self {
            Self::Small { digits, exponent: own } if *own < exponent => {
                divided_away_from_zero(*digits, own.abs_diff(exponent)).0
            }
            Self::Small { digits, exponent: own } => shifted_wrapping(*digits, own.abs_diff(exponent)),
            Self::Big(decimal) => decimal.in_units(exponent),
        }
    }

    /// The number rounded away from zero to a multiple of `10^exponent` (`Quantity.RoundUp`).
    pub(super) fn rounded_up(&self, exponent: i32) -> Self {
        match self {
            Self::Small { exponent: own, .. } if *own >= exponent => self.clone(),
            Self::Small { digits, exponent: own } => {
                Self::Small { digits: divided_away_from_zero(*digits, own.abs_diff(exponent)).0, exponent }
            }
            Self::Big(decimal) => Self::Big(decimal.rounded_up(exponent).into()),
        }
    }

    /// Whether it is a whole number of units of `10^exponent`.
    pub(super) fn is_multiple_of(&self, exponent: i32) -> bool {
        match self {
            Self::Small { exponent: own, .. } if *own >= exponent => true,
            Self::Small { digits, exponent: own } => {
                divided_away_from_zero(*digits, own.abs_diff(exponent)).1
            }
            Self::Big(decimal) => decimal.rounded_up(exponent).cmp(decimal) == Ordering::Equal,
        }
    }

    pub(super) fn to_decimal(&self) -> Decimal {
        match self {
            Self::Small { digits, exponent } => Decimal { digits: (*digits).into(), exponent: *exponent },
            Self::Big(decimal) => (**decimal).clone(),
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        if let (Self::Small { digits, exponent }, Self::Small { digits: d, exponent: e }) = (self, other) {
            let sum = match (*digits, *d) {
                (_, 0) => Some((*digits, *exponent)),
                (0, _) => Some((*d, *e)),
                _ => {
                    let least = *exponent.min(e);
                    let own = shifted(*digits, exponent.abs_diff(least));
                    let its = shifted(*d, e.abs_diff(least));
                    own.zip(its).and_then(|(own, its)| own.checked_add(its)).map(|sum| (sum, least))
                }
            };
            if let Some((digits, exponent)) = sum {
                return Self::Small { digits, exponent };
            }
        }
        let (a, b) = (self.to_decimal(), other.to_decimal());
        let exponent = a.exponent.min(b.exponent);
        Self::Big(Decimal { digits: a.digits_at(exponent) + b.digits_at(exponent), exponent }.into())
    }

    pub(super) fn negated(&self) -> Self {
        match self {
            Self::Small { digits, exponent } => match digits.checked_neg() {
                Some(digits) => Self::Small { digits, exponent: *exponent },
                None => Self::Big(Decimal { digits: -BigInt::from(*digits), exponent: *exponent }.into()),
            },
            Self::Big(decimal) => {
                Self::Big(Decimal { digits: -&decimal.digits, exponent: decimal.exponent }.into())
            }
        }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Small { digits, exponent }, Self::Small { digits: d, exponent: e }) if exponent == e => {
                digits.cmp(d)
            }
            _ if self.sign() != other.sign() => self.sign().cmp(&other.sign()),
            _ => self.to_decimal().cmp(&other.to_decimal()),
        }
    }
}

impl Decimal {
    /// Compares the numbers, not their representations.
    fn cmp(&self, other: &Self) -> Ordering {
        let exponent = self.exponent.min(other.exponent);
        self.digits_at(exponent).cmp(&other.digits_at(exponent))
    }

    /// The digits at an exponent that is not above its own.
    fn digits_at(&self, exponent: i32) -> BigInt {
        &self.digits * power_of_ten(self.exponent.abs_diff(exponent))
    }

    pub(super) fn rounded_up(&self, exponent: i32) -> Self {
        if self.exponent >= exponent {
            return Self { digits: self.digits_at(exponent), exponent };
        }
        let (mut digits, rest) = self.divided(exponent.abs_diff(self.exponent));
        match rest.sign() {
            Sign::NoSign => {}
            Sign::Plus => digits += 1,
            Sign::Minus => digits -= 1,
        }
        Self { digits, exponent }
    }

    /// Quotient by `10^places`, truncated, and the remainder with the digits' sign.
    fn divided(&self, places: u32) -> (BigInt, BigInt) {
        // A divisor longer than the digits is never built: 1e-2000000000 is a short text.
        if u64::from(places) > self.digits.bits() {
            return (BigInt::ZERO, self.digits.clone());
        }
        let divisor = power_of_ten(places);
        (&self.digits / &divisor, &self.digits % &divisor)
    }

    /// apimachinery's `scaledValue`, including its results for numbers beyond an `i64`.
    fn in_units(&self, exponent: i32) -> i64 {
        let places = self.exponent.abs_diff(exponent);
        match self.exponent.cmp(&exponent) {
            Ordering::Equal => low_bits(&self.digits),
            Ordering::Greater => {
                // apimachinery computes the factor as a float: 10^19 and up become the smallest i64 (on
                // amd64).
                let factor = 10_i64.checked_pow(places).unwrap_or(i64::MIN);
                low_bits(&self.digits).wrapping_mul(factor)
            }
            Ordering::Less if self.digits < BigInt::from(i64::MAX) && places < 19 => {
                // Truncated, then increased by one whatever the sign: -1.5 gives 0.
                let (digits, divisor) = (low_bits(&self.digits), 10_i64.pow(places));
                digits / divisor + i64::from(digits % divisor != 0)
            }
            Ordering::Less => {
                let (quotient, rest) = self.divided(places);
                // The ceiling; below zero truncation already gives it.
                low_bits(&quotient).wrapping_add(i64::from(rest.sign() == Sign::Plus))
            }
        }
    }
}

pub(super) fn power_of_ten(places: u32) -> BigInt {
    BigInt::from(10).pow(places)
}

/// The number modulo 2^64, with its sign.
fn low_bits(number: &BigInt) -> i64 {
    let magnitude = number.iter_u64_digits().next().unwrap_or(0).cast_signed();
    if number.sign() == Sign::Minus { magnitude.wrapping_neg() } else { magnitude }
}

/// `digits × 10^places`; `None` beyond an `i64`.
fn shifted(digits: i64, places: u32) -> Option<i64> {
    match digits {
        0 => Some(0),
        _ => digits.checked_mul(10_i64.checked_pow(places)?),
    }
}

/// `digits × 10^places`; a result beyond an `i64` wraps for those powers that apimachinery multiplies by in
/// one step, and is 0 for the others (`positiveScaleInt64`).
fn shifted_wrapping(digits: i64, places: u32) -> i64 {
    shifted(digits, places).unwrap_or(match places {
        1 | 2 | 3 | 6 | 9 if digits != i64::MIN => digits.wrapping_mul(10_i64.pow(places)),
        _ => 0,
    })
}

/// `digits / 10^places` rounded away from zero, and whether the division was exact.
fn divided_away_from_zero(digits: i64, places: u32) -> (i64, bool) {
    let Some(divisor) = 10_i64.checked_pow(places) else { return (digits.signum(), digits == 0) };
    let (quotient, rest) = (digits / divisor, digits % divisor);
    (quotient + rest.signum(), rest == 0)
}
