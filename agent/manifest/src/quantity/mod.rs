//! Amounts of resources, exactly as Kubernetes reads, adds, rounds and writes them (apimachinery
//! `resource.Quantity`).

mod amount;
mod canonical;
#[cfg(test)]
mod golden;
mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;
use std::sync::Arc;

use amount::Amount;

/// An exact amount (apimachinery `resource.Quantity`). Two are equal if they are the same number, however
/// they are written. [`Display`](std::fmt::Display) gives the canonical form.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text that it was parsed from, where apimachinery displays it unchanged. That is not always the
    /// canonical form (`+5`, `1E3`, `1.500`), but a kubelet displays it all the same.
    text: Option<Arc<str>>,
}

/// The format in which a quantity was written and is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Format {
    /// `12M`
    #[default]
    DecimalSi,
    /// `12Mi`
    BinarySi,
    /// `12e6`
    DecimalExponent,
}

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: {fault}")]
pub struct QuantityError {
    /// The text.
    pub text: String,
    /// Why it is not a quantity.
    pub fault: QuantityFault,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityFault {
    /// When the text is empty.
    #[error("it is empty")]
    Empty,
    /// When it is not of the form number and suffix.
    #[error("want a number and a suffix, as in 100m, 1.5 or 2Gi")]
    Form,
    /// When there is a sign, point or suffix but no digit, in a text that apimachinery refuses too.
    #[error("it has no digit")]
    NoDigits,
    /// When the number is followed by an unknown suffix.
    #[error(
        "no suffix is called {suffix:?}; there are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and e with an exponent"
    )]
    Suffix {
        /// The unknown suffix.
        suffix: String,
    },
    /// When the text is longer than 512 characters or has an exponent above 512.
    #[error("it is too large")]
    TooLarge,
}

const MILLI: i32 = -3;
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", MILLI),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    /// Parses like Kubernetes: amounts finer than a billionth are rounded up, and binary ones beyond an `i64`
    /// are capped.
    ///
    /// # Errors
    /// When the text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// An amount of thousandths (millicores), displayed in decimal.
    pub fn from_milli(thousandths: i64) -> Self {
        Self::new(Amount::Small { digits: thousandths, exponent: MILLI }, Format::DecimalSi)
    }

    /// An amount of whole units (CPUs, processes), displayed in decimal.
    pub fn from_whole(units: i64) -> Self {
        Self::new(Amount::Small { digits: units, exponent: 0 }, Format::DecimalSi)
    }

    /// An amount of bytes, displayed with binary suffixes.
    pub fn from_bytes(bytes: i64) -> Self {
        Self::new(Amount::Small { digits: bytes, exponent: 0 }, Format::BinarySi)
    }

    fn new(amount: Amount, format: Format) -> Self {
        Self { amount, format, text: None }
    }

    /// Whole units, rounded up. A result beyond an `i64` wraps, as in Kubernetes; see [`Self::fits_i64`].
    pub fn value(&self) -> i64 {
        self.amount.in_units(0)
    }

    /// Thousandths, rounded up. A result beyond an `i64` wraps, as in Kubernetes.
    pub fn milli_value(&self) -> i64 {
        self.amount.in_units(MILLI)
    }

    /// Whether [`Self::value`] is exact, not wrapped.
    pub fn fits_i64(&self) -> bool {
        self.within(0)
    }

    /// Whether [`Self::milli_value`] is exact, not wrapped.
    pub(super) fn fits_i64_milli(&self) -> bool {
        self.within(MILLI)
    }

    fn within(&self, exponent: i32) -> bool {
        let bound = |digits| Amount::Small { digits, exponent };
        self.amount.compare(&bound(i64::MAX)).is_le() && self.amount.compare(&bound(i64::MIN)).is_ge()
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.amount.sign().is_eq()
    }

    /// Whether it is above 0.
    pub fn is_positive(&self) -> bool {
        self.amount.sign().is_gt()
    }

    /// Whether it is below 0.
    pub(super) fn is_negative(&self) -> bool {
        self.amount.sign().is_lt()
    }

    /// Whether it has no fraction.
    pub(super) fn is_whole(&self) -> bool {
        self.amount.is_multiple_of(0)
    }

    /// Rounds to thousandths, away from zero, as the API server does with every amount of a pod
    /// (`SetDefaults_ResourceList`).
    #[must_use]
    pub(super) fn rounded_up_to_milli(self) -> Self {
        match self.amount {
            Amount::Small { exponent, .. } if exponent >= MILLI => self,
            _ => Self::new(self.amount.rounded_up(MILLI), self.format),
        }
    }
}

/// Zero.
impl Default for Quantity {
    fn default() -> Self {
        Self::new(Amount::ZERO, Format::DecimalSi)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

/// The sum is written as the left side was, unless that is zero.
impl AddAssign<&Quantity> for Quantity {
    fn add_assign(&mut self, other: &Quantity) {
        let format = if self.is_zero() { other.format } else { self.format };
        *self = Self::new(self.amount.plus(&other.amount), format);
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Quantity) {
        *self += &other;
    }
}

impl Add for Quantity {
    type Output = Quantity;

    fn add(mut self, other: Quantity) -> Quantity {
        self += &other;
        self
    }
}

impl SubAssign<&Quantity> for Quantity {
    fn sub_assign(&mut self, other: &Quantity) {
        let format = if self.is_zero() { other.format } else { self.format };
        *self = Self::new(self.amount.plus(&other.amount.negated()), format);
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(mut self, other: Quantity) -> Quantity {
        self -= &other;
        self
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

fn decimal_exponent(suffix: &str) -> Option<i32> {
    DECIMAL.iter().find(|(name, _)| *name == suffix).map(|(_, exponent)| *exponent)
}

fn binary_power(suffix: &str) -> Option<u32> {
    BINARY.iter().find(|(name, _)| *name == suffix).map(|(_, power)| *power)
}

/// The suffix of a power of ten; empty beyond the table, as in apimachinery: `1000E` is displayed as `1`.
fn decimal_suffix(exponent: i32) -> String {
    DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(name, _)| name).to_owned()
}

/// The suffix of a power of two; empty for 0 and beyond the table.
fn binary_suffix(power: u32) -> &'static str {
    BINARY.iter().find(|(_, p)| *p == power).map_or("", |(name, _)| name)
}
