//! Selects and formats entries of a log. Pure.

use std::ops::ControlFlow;

use jiff::Timestamp;

use super::{Entry, Stream};

/// A piece of a container's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The stream to which the container wrote it.
    pub stream: Stream,
    /// The text; a line may be spread over several pieces.
    pub bytes: Vec<u8>,
}

/// Converts entries into pieces and keeps the state between entries.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    since: Option<Timestamp>,
    timestamps: bool,
    stream: Option<Stream>,
    /// Bytes that may still be shown.
    remaining: Option<u64>,
    /// For each stream, whether a line has begun and not ended.
    inside: [bool; 2],
}

impl Selection {
    /// `since`: only entries since then. `timestamps`: prefix each line with the time at which it began.
    /// `limit`: maximum number of bytes, including times; the last line may be cut.
    pub fn new(since: Option<Timestamp>, timestamps: bool, limit: Option<u64>) -> Self {
        Self { since, timestamps, stream: None, remaining: limit, inside: [false; 2] }
    }

    /// Only what was written to this stream, if one is given.
    pub fn only(self, stream: Option<Stream>) -> Self {
        Self { stream, ..self }
    }

    /// Adds one entry. Returns `Break` when the limit is reached.
    pub fn take(&mut self, entry: &Entry<'_>, out: &mut Vec<Piece>) -> ControlFlow<()> {
        let other_stream = self.stream.is_some_and(|stream| stream != entry.stream);
        if other_stream || self.since.is_some_and(|since| entry.time < since) {
            return ControlFlow::Continue(());
        }
        let inside = &mut self.inside[usize::from(entry.stream == Stream::Stderr)];
        let head = if self.timestamps && !*inside { entry.stamp } else { "" };
        *inside = entry.partial;
        let end: &[u8] = if entry.partial { b"" } else { b"\n" };
        let space: &[u8] = if head.is_empty() { b"" } else { b" " };
        for part in [head.as_bytes(), space, entry.text, end] {
            self.put(entry.stream, part, out)?;
        }
        ControlFlow::Continue(())
    }

    /// Whether the limit of bytes is reached.
    pub fn is_exhausted(&self) -> bool {
        self.remaining == Some(0)
    }

    fn put(&mut self, stream: Stream, mut part: &[u8], out: &mut Vec<Piece>) -> ControlFlow<()> {
        if let Some(remaining) = &mut self.remaining {
            let length = part.len().min(usize::try_from(*remaining).unwrap_or(usize::MAX));
            part = &part[..length];
            *remaining -= length as u64;
        }
        match out.last_mut() {
            Some(last) if last.stream == stream => last.bytes.extend_from_slice(part),
            _ if part.is_empty() => {}
            _ => out.push(Piece { stream, bytes: part.to_vec() }),
        }
        if self.is_exhausted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-11-21T04:00:01.000000000Z stdout P one
2026-11-21T04:00:02.000000000Z stderr F oops
2026-11-21T04:00:03.000000000Z stdout F  and more
2026-11-21T04:00:04.000000000Z stdout F two
";

    fn show(mut selection: Selection) -> (String, bool) {
        let (mut out, mut full) = (Vec::new(), false);
        for line in LOG.lines() {
            if selection.take(&Entry::parse(line.as_bytes()).unwrap(), &mut out).is_break() {
                full = true;
                break;
            }
        }
        let text = out.iter().map(|piece| {
            let sign = if piece.stream == Stream::Stdout { 'o' } else { 'e' };
            format!("{sign}<{}>", String::from_utf8_lossy(&piece.bytes))
        });
        (text.collect(), full)
    }

    #[test]
    fn partial_entries_are_one_line() {
        assert_eq!(show(Selection::default()).0, "o<one>e<oops\n>o< and more\ntwo\n>");
    }

    #[test]
    fn times_stand_at_the_beginning_of_lines() {
        let (text, _) = show(Selection::new(None, true, None));
        let time = |n| format!("2026-11-21T04:00:0{n}.000000000Z");
        let expected = format!("o<{} one>e<{} oops\n>o< and more\n{} two\n>", time(1), time(2), time(4));
        assert_eq!(text, expected);
    }

    #[test]
    fn since_and_limit() {
        let since = Some("2026-11-21T04:00:03Z".parse().unwrap());
        assert_eq!(show(Selection::new(since, false, None)), ("o< and more\ntwo\n>".into(), false));
        assert_eq!(show(Selection::new(None, false, Some(5))), ("o<one>e<oo>".into(), true));
        assert_eq!(show(Selection::new(None, false, Some(3))), ("o<one>".into(), true));
        assert_eq!(show(Selection::new(None, true, Some(0))), (String::new(), true));
        let errors = Selection::default().only(Some(Stream::Stderr));
        assert_eq!(show(errors), ("e<oops\n>".into(), false));
    }
}
