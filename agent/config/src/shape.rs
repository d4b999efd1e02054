//! The types of values: what a reader asks for, and what the schema says.

use serde_yaml_ng::Value;

use super::duration;

/// The type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Integer { least: i64, most: i64 },
    /// Any number.
    Number,
    /// Any text.
    Text,
    /// One of these texts, or the empty one where `empty` says so.
    OneOf { names: &'static [&'static str], empty: bool },
    /// A time as Go writes it: `1m30s`.
    Duration,
    /// Bytes: a number, or a text like `16Mi`.
    Bytes { least: u64, most: u64 },
    /// A list.
    List(&'static Self),
    /// A mapping of any names to values.
    Map(&'static Self),
    /// A mapping of these keys.
    Keys(&'static [(&'static str, Self)]),
    /// A mapping whose keys are read one by one.
    Section,
    /// A mapping that is not looked into.
    Object,
    /// Only null.
    Nothing,
    /// One of these types.
    AnyOf(&'static [Self]),
}

impl Shape {
    /// A whole number in this range, whose ends may be beyond what the type holds.
    pub fn up_to(range: &std::ops::RangeInclusive<u64>) -> Self {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        Self::Integer { least: signed(*range.start()), most: signed(*range.end()) }
    }

    /// Whether the value is of this type.
    pub fn fits(&self, value: &Value) -> bool {
        match self {
            Self::Switch => value.is_bool(),
            Self::Integer { least, most } => value.as_i64().is_some_and(|n| (*least..=*most).contains(&n)),
            Self::Number => value.is_number(),
            Self::Text => value.is_string(),
            Self::OneOf { names, empty } => {
                value.as_str().is_some_and(|text| names.contains(&text) || (*empty && text.is_empty()))
            }
            Self::Duration => value.as_str().and_then(duration::parse).is_some(),
            Self::Bytes { .. } => value.is_u64() || value.is_string(),
            Self::List(inner) => value.as_sequence().is_some_and(|list| list.iter().all(|v| inner.fits(v))),
            Self::Map(inner) => value.as_mapping().is_some_and(|map| map.values().all(|v| inner.fits(v))),
            Self::Keys(keys) => value.as_mapping().is_some_and(|map| {
                map.iter().all(|(name, value)| {
                    keys.iter().any(|(key, inner)| name == *key && (value.is_null() || inner.fits(value)))
                })
            }),
            Self::Section | Self::Object => value.is_mapping(),
            Self::Nothing => value.is_null(),
            Self::AnyOf(shapes) => shapes.iter().any(|shape| shape.fits(value)),
        }
    }

    /// What is expected, for messages.
    pub fn expected(&self) -> String {
        match self {
            Self::Switch => "true or false".to_owned(),
            Self::Integer { least, most } => format!("a whole number from {least} to {most}"),
            Self::Number => "a number".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::OneOf { names, .. } => match names.split_last() {
                Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
                _ => names.concat(),
            },
            Self::Duration => "a time like 20s or 1m30s".to_owned(),
            Self::Bytes { least, most } => format!("bytes from {least} to {most}, as a number or like 16Mi"),
            Self::List(inner) => format!("a list, each {}", inner.expected()),
            Self::Map(inner) => format!("a mapping, each {}", inner.expected()),
            Self::Keys(keys) => {
                let names: Vec<&str> = keys.iter().map(|(name, _)| *name).collect();
                format!("a mapping of {}", names.join(", "))
            }
            Self::Section | Self::Object => "a mapping".to_owned(),
            Self::Nothing => "nothing".to_owned(),
            Self::AnyOf(shapes) => {
                let all: Vec<String> = shapes.iter().map(Self::expected).collect();
                all.join(", or ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_by_their_type() {
        let percent = Shape::Integer { least: 0, most: 100 };
        let mode = Shape::OneOf { names: &["a", "b"], empty: true };
        for (shape, good, bad) in [
            (Shape::Switch, "true", "1"),
            (percent, "100", "101"),
            (percent, "0", "'0'"),
            (Shape::Number, "0.5", "x"),
            (Shape::Text, "x", "1"),
            (mode, "b", "c"),
            (mode, "''", "null"),
            (Shape::Duration, "1m30s", "90"),
            (Shape::List(&Shape::Text), "[a]", "[1]"),
            (Shape::Map(&Shape::Switch), "{a: true}", "{a: 1}"),
            (Shape::Keys(&[("a", Shape::Text)]), "{a: x}", "{b: x}"),
            (Shape::Object, "{a: [1]}", "[]"),
        ] {
            let value = |text: &str| serde_yaml_ng::from_str::<Value>(text).unwrap();
            assert!(shape.fits(&value(good)), "{shape:?} {good}");
            assert!(!shape.fits(&value(bad)), "{shape:?} {bad}");
        }
        assert_eq!(mode.expected(), "a or b");
        assert_eq!(percent.expected(), "a whole number from 0 to 100");
    }
}
