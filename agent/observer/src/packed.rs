//! The last readings of the cgroups, kept in little memory. There are thousands of cgroups, and most figures
//! of one are 0, small or missing. Nothing looks at them between two readings, so they are kept as bytes and
//! made into the values of the model for each reading: about 200 bytes instead of 1,200 for a cgroup.
//!
//! [`KeptUsage`]: of a cgroup's files. [`KeptCounters`]: of the kernel programs. Both name each figure once,
//! in one function that serves both directions ([`Figures`]).

mod bytes;
mod counters;
mod usage;

use bytes::Packed;
pub(crate) use counters::KeptCounters;
pub(crate) use usage::KeptUsage;

/// Goes over the figures of a value in a fixed order: one implementation writes them down, the other one sets
/// them to what was written, beginning with a default value.
trait Figures: Sized {
    /// Any number; small ones take one byte, and a row of zeros takes one byte.
    fn number(&mut self, figure: &mut u64);

    /// A text that may be missing.
    fn text(&mut self, text: &mut Option<String>);

    /// A number of 32 bits.
    fn short(&mut self, figure: &mut u32) {
        let mut number = u64::from(*figure);
        self.number(&mut number);
        // Nothing is cut off: it was an `u32` when it was written.
        *figure = number as u32;
    }

    /// A number with a fraction, bit by bit.
    fn fraction(&mut self, figure: &mut f64) {
        let mut bits = figure.to_bits();
        self.number(&mut bits);
        *figure = f64::from_bits(bits);
    }

    /// A number that may be missing.
    fn optional(&mut self, figure: &mut Option<u64>) {
        // 0 is a missing one, so each number is written as the next one. The greatest number has none: it is
        // written as the number before it, and what follows tells the two apart.
        let mut code = figure.map_or(0, |number| number.saturating_add(1));
        self.number(&mut code);
        let mut is_greatest = u64::from(*figure == Some(u64::MAX));
        if code == u64::MAX {
            self.number(&mut is_greatest);
        }
        *figure = code.checked_sub(1).map(|number| number + is_greatest);
    }

    /// A part that may be missing.
    fn part<T: Default>(&mut self, part: &mut Option<T>, each: impl FnOnce(&mut Self, &mut T)) {
        let mut is_there = u64::from(part.is_some());
        self.number(&mut is_there);
        if is_there != 0 {
            each(self, part.get_or_insert_default());
        }
    }

    /// Several parts of the same kind.
    fn list<T: Default>(&mut self, list: &mut Vec<T>, each: impl Fn(&mut Self, &mut T)) {
        let mut length = list.len() as u64;
        self.number(&mut length);
        list.resize_with(length as usize, T::default);
        for part in list {
            each(self, part);
        }
    }
}
