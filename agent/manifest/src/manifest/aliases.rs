//! Bounds what aliases (`*name`) expand to.
//!
//! The parser bounds only how often it follows an alias, not how much comes out: one list of ten thousand
//! texts that ten thousand containers refer to would be a hundred million texts. So a document with aliases
//! is first read by a visitor that keeps nothing and counts.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::split::{Document, Language};

/// What the documents with aliases of one file may expand to, in bytes as counted by [`Room`]. Without
/// aliases a file of the greatest length (10 MiB) with values of ten bytes has about 42 MiB.
pub const LARGEST: usize = 64 << 20;
/// What a value counts beside its text: about what it takes in memory.
const VALUE: usize = 32;

/// What the remaining documents of a file may expand to.
#[derive(Debug)]
pub(super) struct Room(Cell<usize>);

impl Default for Room {
    fn default() -> Self {
        Self(Cell::new(LARGEST))
    }
}

impl Room {
    /// Whether there is room for what the document expands to, which is then taken. Documents without aliases
    /// take none: the length of the file bounds them. A document that cannot be parsed has room, so that its
    /// error is reported.
    pub(super) fn has_for(&mut self, document: &Document<'_>) -> bool {
        document.language == Language::Json || self.has_for_yaml(document.text)
    }

    fn has_for_yaml(&mut self, text: &str) -> bool {
        if !(text.contains('&') && text.contains('*')) {
            return true;
        }
        let full = Cell::new(false);
        let counter = Counter { left: &self.0, full: &full };
        let _ = counter.deserialize(serde_yaml_ng::Deserializer::from_str(text));
        !full.get()
    }
}

/// Whether aliases expand one YAML document to no more than [`LARGEST`]. True if it cannot be parsed.
pub fn fits(text: &str) -> bool {
    Room::default().has_for_yaml(text)
}

/// Counts values and their texts; fails when nothing is left.
#[derive(Clone, Copy)]
struct Counter<'a> {
    left: &'a Cell<usize>,
    full: &'a Cell<bool>,
}

impl Counter<'_> {
    fn take<E: Error>(self, text: usize) -> Result<(), E> {
        match self.left.get().checked_sub(VALUE + text) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.full.set(true);
                Err(E::custom("too large"))
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Counter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.take(0)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<(), E> {
        self.take(0)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<(), E> {
        self.take(0)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.take(0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.take(text.len())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.take(0)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.take(0)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.take(0)?;
        while list.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.take(0)?;
        while map.next_key_seed(self)?.is_some() {
            map.next_value_seed(self)?;
        }
        Ok(())
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        use serde::de::VariantAccess;
        // A value with a tag such as !x.
        let ((), value) = tagged.variant_seed(self)?;
        value.newtype_variant_seed(self)
    }
}
