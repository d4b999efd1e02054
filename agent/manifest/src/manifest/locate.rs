//! Finds the line of the file on which a field is.
//!
//! serde's data model has no positions, but its parsers report the position of an error. So the document is
//! parsed again by a deserializer that fails at the field.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::split::{Document, Language};

/// The line of the file, from 1: that of the field, else that of the innermost existing field around it, else
/// the first line of the document.
pub(super) fn line(document: &Document<'_>, field: &str) -> usize {
    let path = segments(field);
    let found = (1..=path.len()).rev().find_map(|length| seek(document, &path[..length]));
    document.line + found.unwrap_or(1).saturating_sub(1)
}

#[derive(Debug, PartialEq, Eq)]
enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// Splits `spec.containers[1].resources.limits[example.com/gpu]`: numbers in brackets are indexes, other
/// texts keys.
fn segments(field: &str) -> Vec<Segment<'_>> {
    let mut all = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        if let Some((inner, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            all.push(inner.parse().map_or(Segment::Key(inner), Segment::Index));
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).filter(|end| *end > 0).unwrap_or(rest.len());
            all.push(Segment::Key(&rest[..end]));
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    all
}

/// The line in the document; `None` if it does not have the field.
fn seek(document: &Document<'_>, path: &[Segment<'_>]) -> Option<usize> {
    let found = Cell::new(false);
    let seeker = FieldLocator { path, found: &found };
    let line = match document.language {
        Language::Json => {
            let mut json = serde_json::Deserializer::from_str(document.text);
            seeker.deserialize(&mut json).err().map(|error| error.line())
        }
        Language::Yaml => {
            let yaml = serde_yaml_ng::Deserializer::from_str(document.text);
            let error = seeker.deserialize(yaml).err();
            error.and_then(|error| error.location()).map(|place| place.line())
        }
    };
    line.filter(|line| found.get() && *line > 0)
}

/// Visits a document and returns an error at the end of its path; the error has the position.
#[derive(Clone, Copy)]
struct FieldLocator<'a> {
    path: &'a [Segment<'a>],
    found: &'a Cell<bool>,
}

impl FieldLocator<'_> {
    fn found<E: Error>(self) -> E {
        self.found.set(true);
        E::custom("found")
    }

    /// A value without elements or fields: found if it is the end of the path.
    fn leaf<E: Error>(self) -> Result<(), E> {
        if self.path.is_empty() { Err(self.found()) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for FieldLocator<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldLocator<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.leaf()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.leaf()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.leaf()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.leaf()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.leaf()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.leaf()
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.leaf()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let index = match self.path.first() {
            None => return Err(self.found()),
            Some(Segment::Index(index)) => Some(*index),
            Some(Segment::Key(_)) => None,
        };
        for at in 0.. {
            let more = if Some(at) == index {
                list.next_element_seed(FieldLocator { path: &self.path[1..], ..self })?.is_some()
            } else {
                list.next_element::<IgnoredAny>()?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.path.is_empty() {
            return Err(self.found());
        }
        while let Some(wanted) = map.next_key_seed(Key(self))? {
            if wanted {
                map.next_value_seed(FieldLocator { path: &self.path[1..], ..self })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Compares a key with the path; returns the error at the last key, because its value may begin on another
/// line.
struct Key<'a>(FieldLocator<'a>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        match self.0.path {
            [Segment::Key(wanted)] if *wanted == key => Err(self.0.found()),
            [Segment::Key(wanted), ..] => Ok(*wanted == key),
            // Digits in brackets may also be a key.
            [Segment::Index(wanted), ..] => Ok(wanted.to_string() == key),
            [] => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
# a pod
apiVersion: v1
metadata:
  name: x
  labels: {a.b/c: d}
spec:
  containers:
  - name: a
    env:
    - name: A

      value: 1
  - {name: b,
     image: i}
  hostPID: true
";

    fn at(document: &str, language: Language, field: &str) -> usize {
        line(&Document { text: document, line: 11, language }, field)
    }

    #[test]
    fn paths_are_split_into_keys_and_indexes() {
        use Segment::{Index, Key};
        assert_eq!(
            segments("spec.containers[10].resources.limits[a.b/c]"),
            [Key("spec"), Key("containers"), Index(10), Key("resources"), Key("limits"), Key("a.b/c")]
        );
        assert_eq!(
            segments("items[1].metadata.name"),
            [Key("items"), Index(1), Key("metadata"), Key("name")]
        );
        assert_eq!(segments("a[b"), [Key("a"), Key("[b")]);
    }

    #[test]
    fn fields_of_yaml_have_their_lines() {
        for (field, line) in [
            ("apiVersion", 2),
            ("metadata", 3),
            ("metadata.name", 4),
            ("metadata.labels[a.b/c]", 5),
            ("spec", 6),
            ("spec.containers", 7),
            ("spec.containers[0]", 8),
            ("spec.containers[0].env[0].value", 12),
            ("spec.containers[1].name", 13),
            ("spec.containers[1].image", 14),
            ("spec.hostPID", 15),
            // A missing field has the line of the field around it.
            ("spec.containers[0].image", 8),
            ("spec.containers[0].env[0].valueFrom.fieldRef", 10),
            ("spec.containers[7].name", 7),
            ("spec.dnsPolicy", 6),
            ("status", 1),
            ("", 1),
        ] {
            assert_eq!(at(YAML, Language::Yaml, field), line + 10, "{field}");
        }
    }

    #[test]
    fn fields_of_json_have_their_lines() {
        let json = "{\"metadata\":\n {\"name\": \"x\"},\n \"spec\": {\"containers\": [\n {\"name\": \"a\"},\n {\n  \"name\": 5}]}}";
        for (field, line) in [
            ("metadata", 1),
            ("metadata.name", 2),
            ("spec", 3),
            ("spec.containers[0].name", 4),
            ("spec.containers[1].name", 6),
        ] {
            assert_eq!(at(json, Language::Json, field), line + 10, "{field}");
        }
    }
}
