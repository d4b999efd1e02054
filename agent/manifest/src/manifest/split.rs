//! Splits a file into documents, so that a broken one does not hide those after it.

use serde::de::IgnoredAny;

use super::decode::{Mismatch, decode, reason};

const DEEPEST: usize = 1000;

/// A non-empty document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// Line of the file on which the text begins, from 1.
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

/// Whether there are more open brackets (including those in strings) than in any manifest: the time of the
/// YAML scanner grows with the square of their number.
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

/// The texts between `---` lines that contain more than comments, each with its first line number. No YAML
/// scalar contains a line that begins so, and no JSON string a line break.
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
            // `--- {kind: Pod}` begins a document on the line of the marker.
            let bare = is_empty(rest);
            (begin, first) = if bare { (at + text_line.len(), line + 1) } else { (at, line) };
        }
        at += text_line.len();
    }
    parts.push((&text[begin..], first));
    parts.retain(|(text, _)| !text.lines().all(is_empty));
    parts
}

/// Whether the line is blank, a comment, a directive or the marker of a document's end.
fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line == "..." || line.starts_with(['#', '%'])
}

/// Splits a text further: JSON documents may follow each other without a marker. A text that begins like JSON
/// may still be YAML in flow style.
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
