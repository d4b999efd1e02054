//! Reads typed values from a YAML mapping and collects all problems instead of stopping at the first.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use super::kubelet::meant;
use super::{Problem, duration};

/// A mapping being read. Keys that are never read are reported as unknown.
pub struct Fields<'p> {
    /// Path of the mapping, empty at the top.
    prefix: String,
    map: Mapping,
    known: Vec<&'static str>,
    /// Keys set by a flag, with the flag's name.
    flags: Vec<(&'static str, &'static str)>,
    problems: &'p mut Vec<Problem>,
}

impl<'p> Fields<'p> {
    pub fn new(
        prefix: &str,
        map: Mapping,
        flags: Vec<(&'static str, &'static str)>,
        problems: &'p mut Vec<Problem>,
    ) -> Self {
        Self { prefix: prefix.to_owned(), map, known: Vec::new(), flags, problems }
    }

    fn field(&self, key: &str) -> String {
        if let Some((_, flag)) = self.flags.iter().find(|(k, _)| *k == key) {
            return (*flag).to_owned();
        }
        join(&self.prefix, key)
    }

    /// The raw value; `None` if it is absent or null.
    pub fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.map.shift_remove(key).filter(|v| !v.is_null())
    }

    /// Records that the value of `key` is invalid.
    pub fn refuse(&mut self, key: &str, value: &str, expected: &str) {
        let field = self.field(key);
        self.problems.push(Problem::new(&field, value, expected));
    }

    /// Whether a problem of `key` was already recorded.
    pub fn has_problem(&self, key: &str) -> bool {
        let field = self.field(key);
        self.problems.iter().any(|p| p.field == field)
    }

    /// Adds problems found elsewhere.
    pub fn refuse_all(&mut self, found: Vec<Problem>) {
        self.problems.extend(found);
    }

    /// The value as read by `read`; if it is invalid, records a problem and returns the default.
    fn read<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(key)?;
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
        self.read(key, expected, |v| v.as_str().and_then(&parse))
    }

    pub fn flag(&mut self, key: &'static str, default: bool) -> bool {
        self.read(key, "true or false", Value::as_bool).unwrap_or(default)
    }

    /// A boolean; `None` if it is absent.
    pub fn optional_flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", Value::as_bool)
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
        let expected = whole_number(range);
        self.read(key, &expected, |v| v.as_u64().filter(|n| range.contains(n))).unwrap_or(default)
    }

    /// A time in whole seconds.
    pub fn seconds(&mut self, key: &'static str, default: Duration, range: &RangeInclusive<u64>) -> Duration {
        Duration::from_secs(self.number(key, default.as_secs(), range))
    }

    /// A time in whole seconds; none if absent.
    pub fn optional_seconds(&mut self, key: &'static str, range: &RangeInclusive<u64>) -> Option<Duration> {
        let expected = whole_number(range);
        self.read(key, &expected, |v| v.as_u64().filter(|n| range.contains(n))).map(Duration::from_secs)
    }

    /// A whole number that may be negative; none if absent.
    pub fn integer(&mut self, key: &'static str, expected: &str, range: &RangeInclusive<i64>) -> Option<i64> {
        self.read(key, expected, |v| v.as_i64().filter(|n| range.contains(n)))
    }

    /// A number that `fits`; none if absent.
    pub fn float(&mut self, key: &'static str, expected: &str, fits: impl Fn(f64) -> bool) -> Option<f64> {
        self.read(key, expected, |v| v.as_f64().filter(|n| fits(*n)))
    }

    /// A time that is not negative, written as Go writes it (`1m30s`); none if absent.
    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        self.text(key, "a time like 20s or 1m30s", duration::parse)
    }

    /// A list of texts; none if absent.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.read(key, "a list of texts", |v| {
            v.as_sequence()?.iter().map(|i| i.as_str().map(str::to_owned)).collect()
        })
    }

    /// A mapping of texts to texts; none if absent. Entries that are not texts are noted and left out.
    pub fn text_map(&mut self, key: &'static str) -> Option<BTreeMap<String, String>> {
        let map = self.read(key, "a mapping", |v| v.as_mapping().cloned())?;
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
        for (name, value) in self.section(key) {
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
        let expected =
            format!("{}bytes from {} to {}, as a number or like 16Mi", more.0, range.start(), range.end());
        self.read(key, &expected, |v| size(v).filter(|n| range.contains(n) && more.1(*n))).unwrap_or(default)
    }

    /// A mapping inside; empty if absent.
    pub fn section(&mut self, key: &'static str) -> Mapping {
        self.read(key, "a mapping", |v| v.as_mapping().cloned()).unwrap_or_default()
    }

    /// The keys that were not read, with their values as shown in problems.
    pub fn rest(&self) -> Vec<(String, String)> {
        self.map.iter().map(|(k, v)| (shown(k), shown(v))).collect()
    }

    /// Ends the reading; records a problem for every key that was not read.
    pub fn finish(mut self) {
        for (key, _) in self.rest() {
            let expected = match meant(&key, self.known.iter().copied()) {
                Some(near) => format!("a known key (did you mean {near}?)"),
                None => format!("one of {}", self.known.join(", ")),
            };
            self.refuse(&key, "unknown key", &expected);
        }
    }
}

fn whole_number(range: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
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
