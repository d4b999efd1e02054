//! Reads typed values from a YAML mapping and collects all problems instead of stopping at the first.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use super::keys::{self, SECTION, Unread};
use super::reading::{ReadKey, Reading, WithoutEffect};
use super::shape::Shape;
use super::{Problem, duration};

/// A mapping being read. Keys that are never read are reported: as without effect, or as unknown.
pub struct Fields<'p> {
    /// Path of the mapping, empty at the top.
    prefix: String,
    map: Mapping,
    known: Vec<&'static str>,
    /// Keys set by a flag, with the flag's name.
    flags: Vec<(&'static str, &'static str)>,
    reading: &'p mut Reading,
}

impl<'p> Fields<'p> {
    pub fn new(
        prefix: &str,
        map: Mapping,
        flags: Vec<(&'static str, &'static str)>,
        reading: &'p mut Reading,
    ) -> Self {
        Self { prefix: prefix.to_owned(), map, known: Vec::new(), flags, reading }
    }

    /// The flag that sets `key`, if one does.
    fn flag_of(&self, key: &str) -> Option<&'static str> {
        self.flags.iter().find(|(of, _)| *of == key).map(|(_, flag)| *flag)
    }

    fn field(&self, key: &str) -> String {
        self.flag_of(key).map_or_else(|| join(&self.prefix, key), str::to_owned)
    }

    /// The raw value; `None` if it is absent or null. `expected` describes valid values beyond the shape.
    pub fn take(&mut self, key: &'static str, shape: Shape, expected: &str) -> Option<Value> {
        self.known.push(key);
        let value = self.map.shift_remove(key).filter(|v| !v.is_null());
        self.reading.keys.push(ReadKey {
            path: join(&self.prefix, key),
            shape,
            expected: expected.to_owned(),
            given: value.is_some(),
        });
        value
    }

    /// Records that the value of `key` is invalid.
    pub fn refuse(&mut self, key: &str, value: &str, expected: &str) {
        let problem = match self.flag_of(key) {
            Some(flag) => Problem::of_flag(flag, value, expected),
            None => Problem::new(&join(&self.prefix, key), value, expected),
        };
        self.reading.problems.push(problem);
    }

    /// Whether a problem of `key` was already recorded.
    pub fn has_problem(&self, key: &str) -> bool {
        let field = self.field(key);
        self.reading.problems.iter().any(|p| p.field == field)
    }

    /// Adds problems found elsewhere.
    pub fn refuse_all(&mut self, found: Vec<Problem>) {
        self.reading.problems.extend(found);
    }

    /// Records that this key of the file has no effect here.
    pub fn without_effect(&mut self, key: &str, reason: &str) {
        let key = join(&self.prefix, key);
        self.reading.without_effect.push(WithoutEffect { key, reason: reason.to_owned() });
    }

    /// The value as read by `read`; if it is invalid, records a problem and returns the default.
    fn read<T>(
        &mut self,
        key: &'static str,
        shape: Shape,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(key, shape, expected)?;
        let found = read(&value);
        if found.is_none() {
            self.refuse(key, &shown(&value), expected);
        }
        found
    }

    /// A text as parsed by `parse`.
    pub fn text<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.read(key, Shape::Text, expected, |v| v.as_str().and_then(&parse))
    }

    /// One of these names; none if absent, or empty where `empty` says that this means the default.
    pub fn choice<T: std::str::FromStr>(
        &mut self,
        key: &'static str,
        names: &'static [&'static str],
        empty: bool,
    ) -> Option<T> {
        let shape = Shape::OneOf { names, empty };
        let read = |value: &Value| match value.as_str()? {
            "" if empty => Some(None),
            name => names.contains(&name).then(|| name.parse().ok().map(Some)).flatten(),
        };
        self.read(key, shape, &shape.expected(), read).flatten()
    }

    pub fn flag(&mut self, key: &'static str, default: bool) -> bool {
        self.optional_flag(key).unwrap_or(default)
    }

    /// A boolean; `None` if it is absent.
    pub fn optional_flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, Shape::Switch, "true or false", Value::as_bool)
    }

    pub fn path(&mut self, key: &'static str, default: &str, max_bytes: usize) -> PathBuf {
        let expected = if max_bytes == usize::MAX {
            "an absolute path".to_owned()
        } else {
            format!("an absolute path of at most {max_bytes} bytes")
        };
        self.text(key, &expected, |t| {
            (t.starts_with('/') && !t.contains('\0') && t.len() <= max_bytes).then(|| PathBuf::from(t))
        })
        .unwrap_or_else(|| PathBuf::from(default))
    }

    pub fn number(&mut self, key: &'static str, default: u64, range: &RangeInclusive<u64>) -> u64 {
        self.optional_number(key, range).unwrap_or(default)
    }

    /// A whole number; none if absent.
    pub fn optional_number(&mut self, key: &'static str, range: &RangeInclusive<u64>) -> Option<u64> {
        let shape = Shape::up_to(range);
        self.read(key, shape, &shape.expected(), |v| v.as_u64().filter(|n| range.contains(n)))
    }

    /// A time in whole seconds.
    pub fn seconds(&mut self, key: &'static str, default: Duration, range: &RangeInclusive<u64>) -> Duration {
        Duration::from_secs(self.number(key, default.as_secs(), range))
    }

    /// A time in whole seconds; none if absent.
    pub fn optional_seconds(&mut self, key: &'static str, range: &RangeInclusive<u64>) -> Option<Duration> {
        self.optional_number(key, range).map(Duration::from_secs)
    }

    /// A whole number that may be negative; none if absent.
    pub fn integer(&mut self, key: &'static str, expected: &str, range: &RangeInclusive<i64>) -> Option<i64> {
        let shape = Shape::Integer { least: *range.start(), most: *range.end() };
        self.read(key, shape, expected, |v| v.as_i64().filter(|n| range.contains(n)))
    }

    /// A number that `fits`; none if absent.
    pub fn float(&mut self, key: &'static str, expected: &str, fits: impl Fn(f64) -> bool) -> Option<f64> {
        self.read(key, Shape::Number, expected, |v| v.as_f64().filter(|n| fits(*n)))
    }

    /// A time that is not negative, written as Go writes it (`1m30s`); none if absent.
    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        self.duration_if(key, &Shape::Duration.expected(), |_| true)
    }

    /// Such a time that `fits`; none if absent.
    pub fn duration_if(
        &mut self,
        key: &'static str,
        expected: &str,
        fits: impl Fn(&Duration) -> bool,
    ) -> Option<Duration> {
        self.read(key, Shape::Duration, expected, |v| v.as_str().and_then(duration::parse).filter(&fits))
    }

    /// A list of texts; none if absent.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.texts_of(key, &Shape::Text)
    }

    /// A list of texts, which should be of this shape; none if absent. The caller checks each.
    pub fn texts_of(&mut self, key: &'static str, each: &'static Shape) -> Option<Vec<String>> {
        self.read(key, Shape::List(each), "a list of texts", |v| {
            v.as_sequence()?.iter().map(|i| i.as_str().map(str::to_owned)).collect()
        })
    }

    /// A mapping of texts to texts; none if absent. Entries that are not texts are noted and left out.
    pub fn text_map(&mut self, key: &'static str) -> Option<BTreeMap<String, String>> {
        let map = self.read(key, Shape::Map(&Shape::Text), "a mapping", |v| v.as_mapping().cloned())?;
        let mut texts = BTreeMap::new();
        for (name, value) in map {
            let name = shown(&name);
            match value {
                Value::String(text) => {
                    texts.insert(name, text);
                }
                other => self.refuse(&join(key, &name), &shown(&other), "a text in quotation marks"),
            }
        }
        Some(texts)
    }

    /// A mapping of names to true or false; empty if absent. Other entries are noted and left out.
    pub fn switches(&mut self, key: &'static str) -> BTreeMap<String, bool> {
        let mut switches = BTreeMap::new();
        for (name, value) in self.map(key, &Shape::Switch) {
            let name = shown(&name);
            match value {
                Value::Bool(on) => {
                    switches.insert(name, on);
                }
                other => self.refuse(&join(key, &name), &shown(&other), "true or false"),
            }
        }
        switches
    }

    /// A size in bytes: a whole number, or with a suffix as Kubernetes writes it (`16Mi`).
    pub fn bytes(
        &mut self,
        key: &'static str,
        default: u64,
        range: &RangeInclusive<u64>,
        more: (&str, impl Fn(u64) -> bool),
    ) -> u64 {
        let shape = Shape::Bytes { least: *range.start(), most: *range.end() };
        let expected = format!("{}{}", more.0, shape.expected());
        let read = |v: &Value| size(v).filter(|n| range.contains(n) && more.1(*n));
        self.read(key, shape, &expected, read).unwrap_or(default)
    }

    /// A mapping of any names to values of this shape, which the caller checks; empty if absent.
    pub fn map(&mut self, key: &'static str, each: &'static Shape) -> Mapping {
        let read = |v: &Value| v.as_mapping().cloned();
        self.read(key, Shape::Map(each), "a mapping", read).unwrap_or_default()
    }

    /// A list of values of this shape, which the caller checks; empty if absent.
    pub fn list(&mut self, key: &'static str, each: &'static Shape, expected: &str) -> Vec<Value> {
        self.read(key, Shape::List(each), expected, |v| v.as_sequence().cloned()).unwrap_or_default()
    }

    /// A mapping inside, whose keys are then read by [`Fields`] of its own; empty if absent.
    pub fn section(&mut self, key: &'static str) -> Mapping {
        self.read(key, Shape::Section, "a mapping", |v| v.as_mapping().cloned()).unwrap_or_default()
    }

    /// The fields of a mapping inside; empty if absent.
    pub fn inside(&mut self, key: &'static str) -> Fields<'_> {
        let map = self.section(key);
        Fields::new(&join(&self.prefix, key), map, Vec::new(), self.reading)
    }

    /// Ends the reading. Every key that was not read is without effect, or a problem: by the table of the
    /// kubelet's keys ([`keys::unread`]), and as unknown where it is not in there.
    pub fn finish(mut self) {
        for (key, value) in std::mem::take(&mut self.map) {
            let key = shown(&key);
            if value.is_null() && keys::find(&join(&self.prefix, &key)).is_some() {
                continue;
            }
            match keys::unread(&join(&self.prefix, &key), &value) {
                Unread::WithoutEffect(reason) => self.without_effect(&key, reason),
                Unread::Refused(expected) => self.refuse(&key, &shown(&value), &expected),
                Unread::Unknown => {
                    let expected = self.expected_instead_of(&key);
                    self.refuse(&key, "unknown key", &expected);
                }
            }
        }
    }

    fn expected_instead_of(&self, key: &str) -> String {
        let top = self.prefix.is_empty();
        let near = match top {
            true => keys::meant(key, keys::top_level().chain(["apiVersion", "kind"])),
            false => keys::meant(key, self.known.iter().copied()),
        };
        match (near, top) {
            (Some(near), true) => format!("a key of {} (did you mean {near}?)", keys::KIND),
            (Some(near), false) => format!("a known key (did you mean {near}?)"),
            (None, true) => format!("a key of {} or {SECTION}", keys::KIND),
            (None, false) if self.known.len() == 1 => self.known.concat(),
            (None, false) => format!("one of {}", self.known.join(", ")),
        }
    }
}

/// Path of `key` in the mapping at `prefix`.
pub fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// A value as one short line.
pub fn shown(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = match value {
        Value::String(s) => s.clone(),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
        other => serde_yaml_ng::to_string(other).unwrap_or_default().trim().to_owned(),
    };
    if text.is_empty() {
        return "\"\"".to_owned();
    }
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Bytes from a number or a text with a binary suffix.
fn size(value: &Value) -> Option<u64> {
    if let Some(n) = value.as_u64() {
        return Some(n);
    }
    let text = value.as_str()?;
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}
