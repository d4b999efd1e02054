//! Numbers as bytes. A byte below [`ZEROS`] is that number. One from there and below [`LONG`] is a row of so
//! many zeros. One from there on says how many bytes of a number follow, the lowest first. Zeros at the end
//! are left out.

use super::Figures;

const ZEROS: u8 = 0xc0;
const LONG: u8 = 0xe0;
/// The longest row of zeros in one byte.
const ROW: u32 = (LONG - ZEROS) as u32;
/// Room for nearly all cgroups.
const ROOM: usize = 320;

/// Figures that were written down. Without a byte they all are 0 or missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Packed(Box<[u8]>);

impl Packed {
    /// Replaces them by the figures over which `each` goes.
    pub fn set(&mut self, each: impl FnOnce(&mut Writer)) {
        let mut writer = Writer { bytes: Vec::with_capacity(ROOM), zeros: 0 };
        each(&mut writer);
        if self.0.len() == writer.bytes.len() {
            // As a rule: most figures differ by little from one reading to the next.
            self.0.copy_from_slice(&writer.bytes);
        } else {
            self.0 = writer.bytes.as_slice().into();
        }
    }

    /// Sets figures to what was written, in the order in which that was done.
    pub fn reader(&self) -> Reader<'_> {
        Reader { bytes: &self.0, zeros: 0 }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Writes figures down.
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// How many zeros came last that are not written yet.
    zeros: u32,
}

impl Writer {
    fn end_row(&mut self) {
        while self.zeros > 0 {
            let row = self.zeros.min(ROW);
            self.bytes.push(ZEROS + row as u8 - 1);
            self.zeros -= row;
        }
    }
}

impl Figures for Writer {
    fn number(&mut self, figure: &mut u64) {
        if *figure == 0 {
            self.zeros += 1;
            return;
        }
        self.end_row();
        if *figure < u64::from(ZEROS) {
            return self.bytes.push(*figure as u8);
        }
        let length = (u64::BITS - figure.leading_zeros()).div_ceil(8) as usize;
        self.bytes.push(LONG + length as u8);
        self.bytes.extend_from_slice(&figure.to_le_bytes()[..length]);
    }

    fn text(&mut self, text: &mut Option<String>) {
        let mut length = text.as_ref().map(|text| text.len() as u64);
        self.optional(&mut length);
        // Zeros are not written before it: the length of a text that is there is not written as 0.
        self.bytes.extend_from_slice(text.as_deref().unwrap_or_default().as_bytes());
    }
}

/// Reads what was written down.
pub(super) struct Reader<'a> {
    /// What follows.
    bytes: &'a [u8],
    /// How many zeros come before that.
    zeros: u8,
}

impl<'a> Reader<'a> {
    /// A number of so many bytes.
    fn long(&mut self, length: usize) -> u64 {
        let bytes = self.take(length).iter().zip((0..).step_by(8));
        bytes.fold(0, |number, (byte, shift)| number | u64::from(*byte) << shift)
    }

    /// The next bytes; less at the end.
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }
}

impl Figures for Reader<'_> {
    fn number(&mut self, figure: &mut u64) {
        *figure = 0;
        if self.zeros > 0 {
            self.zeros -= 1;
            return;
        }
        let Some((first, rest)) = self.bytes.split_first() else { return };
        self.bytes = rest;
        match *first {
            small @ ..ZEROS => *figure = small.into(),
            row @ ZEROS..LONG => self.zeros = row - ZEROS,
            long @ LONG.. => *figure = self.long(usize::from(long - LONG)),
        }
    }

    fn text(&mut self, text: &mut Option<String>) {
        let mut length = None;
        self.optional(&mut length);
        *text = length.map(|length| String::from_utf8_lossy(self.take(length as usize)).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Small ones, long rows of zeros, and the bounds of each form.
    fn number() -> impl Strategy<Value = u64> {
        let bits = (0..=u64::BITS, any::<u64>());
        let any_length = bits.prop_map(|(bits, number)| number.checked_shr(bits).unwrap_or(0));
        let bounds =
            prop::sample::select(vec![0xbf, 0xc0, 0xff, 0x100, u64::MAX - 2, u64::MAX - 1, u64::MAX]);
        prop_oneof![4 => Just(0), 2 => any_length, 1 => bounds]
    }

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let zeros = prop::collection::vec(Just(0), 0..100);
        let some = || prop::collection::vec(number(), 0..40);
        (some(), zeros, some()).prop_map(|(a, b, c)| [a, b, c].concat())
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(mut numbers in numbers()) {
            let written = numbers.clone();
            let mut packed = Packed::default();
            packed.set(|w| numbers.iter_mut().for_each(|n| w.number(n)));
            prop_assert_eq!(&numbers, &written, "writing changes nothing");
            let mut reader = packed.reader();
            numbers.iter_mut().for_each(|n| reader.number(n));
            prop_assert_eq!(numbers, written);
        }

        #[test]
        fn what_may_be_missing_is_read_as_it_was_written(
            mut all in prop::collection::vec((prop::option::of(number()), prop::option::of(".{0,9}")), 0..30)
        ) {
            let written = all.clone();
            let mut packed = Packed::default();
            let both = |w: &mut Writer| for (number, text) in &mut all {
                w.optional(number);
                w.text(text);
            };
            packed.set(both);
            prop_assert_eq!(&all, &written, "writing changes nothing");
            let mut reader = packed.reader();
            for (number, text) in &mut all {
                (*number, *text) = (Some(1), Some("before".to_owned()));
                reader.optional(number);
                reader.text(text);
            }
            prop_assert_eq!(all, written);
        }
    }

    #[test]
    fn zeros_take_no_room() {
        let length = |numbers: &[u64]| {
            let mut packed = Packed::default();
            packed.set(|w| numbers.iter().for_each(|n| w.number(&mut { *n })));
            packed.len()
        };
        assert_eq!(length(&[0; 50]), 0, "at the end");
        assert_eq!(length(&[&[0; 50][..], &[1]].concat()), 3);
        assert_eq!(length(&[191, 192, 1 << 32]), 1 + 2 + 6);
    }
}
