//! Decodes a document into a type; errors contain the field and the line of the file.

use std::fmt::Display;

use serde::de::DeserializeOwned;

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
        // `<<` merges the keys of an anchor; to serde it is a normal key.
        Language::Yaml if document.text.contains("<<") => {
            let yaml = serde_yaml_ng::Deserializer::from_str(document.text);
            let mut value: serde_yaml_ng::Value = serde_path_to_error::deserialize(yaml)
                .map_err(|error| mismatch(document, &error, line(error.inner())))?;
            value.apply_merge().map_err(|error| Mismatch {
                line: document.line,
                field: None,
                reason: reason(&error),
            })?;
            serde_path_to_error::deserialize(value).map_err(|error| mismatch(document, &error, None))
        }
        Language::Yaml => {
            let yaml = serde_yaml_ng::Deserializer::from_str(document.text);
            serde_path_to_error::deserialize(yaml)
                .map_err(|error| mismatch(document, &error, line(error.inner())))
        }
    }
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
