//! A file into its documents, so that a broken one hides none after it.

use serde::de::IgnoredAny;

use super::decode::{Mismatch, decode, reason};

const DEEPEST: usize = 1000;

/// One document, not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// The line of the file on which the text begins, from 1.
    pub(super) line: usize,
    pub(super) language: Language,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Yaml,
    Json,
}

pub(super) fn split(text: &str) -> Vec<Result<Document<'_>, Mismatch>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parts = between_markers(text).into_iter();
    parts
        .flat_map(|(text, line)| match is_deep(text) {
            true => {
                let reason = format!("brackets within brackets, more than {DEEPEST}");
                vec![Err(Mismatch { line, field: None, reason })]
            }
            false => documents(text, line),
        })
        .collect()
}

/// Whether brackets stay open that no manifest has: the YAML scanner's time grows with the square of their number.
/// Those in strings count too.
fn is_deep(text: &str) -> bool {
    let mut open = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > DEEPEST
    })
}

/// The texts between `---` lines that hold more than comments, each with its first line. No scalar of YAML holds a line
/// that begins so, and no string of JSON holds a line break.
fn between_markers(text: &str) -> Vec<(&str, usize)> {
    let mut parts = Vec::new();
    let (mut begin, mut first) = (0, 1);
    let (mut at, mut line) = (0, 0);
    for text_line in text.split_inclusive('\n') {
        line += 1;
        if let Some(rest) =
            text_line.strip_prefix("---").filter(|r| r.is_empty() || r.starts_with([' ', '\t', '\r', '\n']))
        {
            parts.push((&text[begin..at], first));
            // `--- {kind: Pod}` begins a document on the marker's own line.
            let bare = is_empty(rest);
            (begin, first) = if bare { (at + text_line.len(), line + 1) } else { (at, line) };
        }
        at += text_line.len();
    }
    parts.push((&text[begin..], first));
    parts.retain(|(text, _)| !text.lines().all(is_empty));
    parts
}

/// Blank, a comment, a directive or the mark of a document's end.
fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line == "..." || line.starts_with(['#', '%'])
}

/// JSON may follow JSON without any mark. What begins like JSON and is not may be YAML in braces.
fn documents(text: &str, line: usize) -> Vec<Result<Document<'_>, Mismatch>> {
    let yaml = Document { text, line, language: Language::Yaml };
    let Some(inside) = text.trim_start().strip_prefix('{') else { return vec![Ok(yaml)] };
    let mut documents = Vec::new();
    let (mut begin, mut at) = (0, line);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    while let Some(next) = stream.next() {
        match next {
            Ok(_) => {
                let end = stream.byte_offset();
                let blank = text[begin..end].len() - text[begin..end].trim_start().len();
                let start = begin + blank;
                at += text[begin..start].matches('\n').count();
                documents.push(Ok(Document { text: &text[start..end], line: at, language: Language::Json }));
                at += text[start..end].matches('\n').count();
                begin = end;
            }
            Err(error) => {
                let quoted = inside.trim_start().starts_with(['"', '}']);
                if !quoted || decode::<IgnoredAny>(&yaml).is_ok() {
                    return vec![Ok(yaml)];
                }
                let line = line + error.line().saturating_sub(1);
                documents.push(Err(Mismatch { line, field: None, reason: reason(&error) }));
                break;
            }
        }
    }
    documents
}
