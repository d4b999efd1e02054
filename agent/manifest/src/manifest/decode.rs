//! Decodes a document into a value, and values into types, as a kubelet does: errors contain the field and
//! the line of the file. Types are decoded from values only, because each form of text would need code of its
//! own for every type.

use std::fmt::Display;

use serde::Deserializer;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::locate;
use super::split::{Document, Language};

/// A document that does not match the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Line of the file, from 1.
    pub(super) line: usize,
    /// The field; `None` for the document as a whole.
    pub(super) field: Option<String>,
    /// The parser's message without field and line.
    pub(super) reason: String,
}

pub(super) fn decode<T: DeserializeOwned>(document: &Document<'_>) -> Result<T, Mismatch> {
    match document.language {
        Language::Json => {
            let mut json = serde_json::Deserializer::from_str(document.text);
            serde_path_to_error::deserialize(&mut json)
                .map_err(|error| mismatch(document, &error, Some(error.inner().line())))
        }
        Language::Yaml => {
            let yaml = serde_yaml_ng::Deserializer::from_str(document.text);
            serde_path_to_error::deserialize(yaml)
                .map_err(|error| mismatch(document, &error, line(error.inner())))
        }
    }
}

/// The document's value. In YAML `<<` merges the keys of an anchor, which is a key like others to serde.
pub(super) fn value(document: &Document<'_>) -> Result<Value, Mismatch> {
    if document.language == Language::Json || !document.text.contains("<<") {
        return decode(document);
    }
    let mut value: serde_yaml_ng::Value = decode(document)?;
    let failed = |reason| Mismatch { line: document.line, field: None, reason };
    value.apply_merge().map_err(|error| failed(reason(&error)))?;
    serde_json::to_value(value).map_err(|error| failed(reason(&error)))
}

/// Decodes a document's value, or an item of it, into a type. `place`: the item's field, empty for the
/// document.
pub(super) fn typed<'de, T: serde::Deserialize<'de>>(
    value: impl Deserializer<'de, Error = serde_json::Error>,
    place: &str,
    document: &Document<'_>,
) -> Result<T, Mismatch> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = match (place, error.path().to_string()) {
            ("", path) => path,
            (place, path) if path == "." => place.to_owned(),
            (place, path) => format!("{place}.{path}"),
        };
        let reason = error.inner().to_string();
        match field == "." {
            true => Mismatch { line: document.line, field: None, reason },
            false => Mismatch { line: locate::line(document, &field), field: Some(field), reason },
        }
    })
}

fn line(error: &serde_yaml_ng::Error) -> Option<usize> {
    error.location().map(|location| location.line())
}

fn mismatch<E: Display>(
    document: &Document<'_>,
    error: &serde_path_to_error::Error<E>,
    line: Option<usize>,
) -> Mismatch {
    let path = error.path().to_string();
    let reason = reason(error.inner());
    let reason = reason.strip_prefix(&format!("{path}: ")).unwrap_or(&reason).to_owned();
    let field = (path != ".").then_some(path);
    Mismatch { line: document.line + line.unwrap_or(1).saturating_sub(1), field, reason }
}

/// The parser's message without its positions, which are relative to the document.
pub(super) fn reason(error: &impl Display) -> String {
    let text = error.to_string();
    let mut parts = text.split(" at line ");
    let mut reason = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match after_place(part) {
            Some(rest) => reason.push_str(rest),
            None => {
                reason.push_str(" at line ");
                reason.push_str(part);
            }
        }
    }
    reason
}

/// The text after `3 column 14`.
fn after_place(text: &str) -> Option<&str> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let line = digits(text);
    let rest = text[line..].strip_prefix(" column ")?;
    let column = digits(rest);
    (line > 0 && column > 0).then(|| &rest[column..])
}
