//! One line of a log file: `2016-10-06T00:17:09.669794202Z stdout F text`. Pure.
//!
//! The format is CRI's (`parseCRILog`, `staging/…/cri-client/pkg/logs/logs.go`): time, stream, tags separated
//! by colons, text. The first tag is `P` if the runtime split a long line: the rest follows in a later entry
//! of the same stream, and this entry does not end a line.

use jiff::Timestamp;
use memchr::memchr;

/// The stream to which a container wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// `stdout` in the file. Containers with a terminal write only to this stream.
    Stdout,
    /// `stderr` in the file.
    Stderr,
}

/// A log entry; borrows from the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When the runtime received the text.
    pub time: Timestamp,
    /// The time as written in the file; runtimes use the node's time zone.
    pub stamp: &'a str,
    /// The stream to which the text was written.
    pub stream: Stream,
    /// Whether the line continues in another entry.
    pub partial: bool,
    /// The text without the newline.
    pub text: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Parses a line with or without newline; `None` if it has another format.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let (stamp, rest) = field(line)?;
        let (stream, rest) = field(rest)?;
        let (tags, text) = field(rest)?;
        let stamp = std::str::from_utf8(stamp).ok()?;
        let stream = match stream {
            b"stdout" => Stream::Stdout,
            b"stderr" => Stream::Stderr,
            _ => return None,
        };
        Some(Self { time: stamp.parse().ok()?, stamp, stream, partial: is_partial(tags), text })
    }
}

/// Longest head of an entry that [`ends_line`] needs to see: time with zone, stream, tags.
pub(super) const HEAD: usize = 128;

/// Whether the entry with this head ends a line of the container's output; true for other formats. The head
/// may go on into the next entry, which does not matter.
pub(super) fn ends_line(head: &[u8]) -> bool {
    let head = &head[..memchr(b'\n', head).unwrap_or(head.len())];
    let tags = field(head).and_then(|(_, rest)| field(rest)).and_then(|(_, rest)| field(rest));
    !tags.is_some_and(|(tags, _)| is_partial(tags))
}

fn is_partial(tags: &[u8]) -> bool {
    tags.split(|b| *b == b':').next() == Some(b"P")
}

/// The texts before and after the next space.
fn field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr(b' ', text)?;
    Some((&text[..space], &text[space + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn table() {
        use Stream::{Stderr, Stdout};
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        for (line, expected) in [
            (
                "2016-10-06T00:17:09.669794202Z stdout P log content 1\n",
                Some(("2016-10-06T00:17:09.669794202Z", Stdout, true, "log content 1")),
            ),
            (
                "2016-10-06T02:17:09.669794203+02:00 stderr F log content 2",
                Some(("2016-10-06T02:17:09.669794203+02:00", Stderr, false, "log content 2")),
            ),
            ("2016-10-06T00:17:09Z stdout F \n", Some(("2016-10-06T00:17:09Z", Stdout, false, ""))),
            (
                "2016-10-06T00:17:09.2Z stdout P:later tag\n",
                Some(("2016-10-06T00:17:09.2Z", Stdout, true, "tag")),
            ),
            (
                "2016-10-06T00:17:09.2Z stdout F:P  two\n",
                Some(("2016-10-06T00:17:09.2Z", Stdout, false, " two")),
            ),
            ("", None),
            ("\n", None),
            ("hello", None),
            ("2016-10-06T00:17:09Z stdout F", None),
            ("2016-10-06T00:17:09Z stdlog F x", None),
            ("2016-10-06 stdout F x", None),
            ("yesterday stdout F x", None),
        ] {
            let entry = Entry::parse(line.as_bytes());
            let expected = expected.map(|(stamp, stream, partial, text)| Entry {
                time: time(stamp),
                stamp,
                stream,
                partial,
                text: text.as_bytes(),
            });
            assert_eq!(entry, expected, "{line:?}");
        }
    }

    #[test]
    fn an_entry_is_judged_without_the_next_one() {
        assert!(ends_line(b"no entry\n2016-10-06T00:17:09Z stdout P x"));
        assert!(ends_line(b"\n2016-10-06T00:17:09Z stdout P x"));
        assert!(!ends_line(b"2016-10-06T00:17:09Z stdout P x\n2016-10-06T00:17:09Z stdout F x\n"));
    }

    proptest! {
        #[test]
        fn a_written_entry_is_parsed(
            nanos in 0i128..4_000_000_000_000_000_000,
            stderr: bool,
            partial: bool,
            text in "[^\n]*",
        ) {
            let time = Timestamp::from_nanosecond(nanos).unwrap();
            let stream = if stderr { "stderr" } else { "stdout" };
            let tag = if partial { "P" } else { "F" };
            let line = format!("{time:.9} {stream} {tag} {text}\n");
            let entry = Entry::parse(line.as_bytes()).unwrap();
            prop_assert_eq!(entry.time, time);
            prop_assert_eq!(entry.stream == Stream::Stderr, stderr);
            prop_assert_eq!(entry.partial, partial);
            prop_assert_eq!(entry.text, text.as_bytes());
            prop_assert_eq!(ends_line(&line.as_bytes()[..line.len().min(HEAD)]), !partial);
        }

        #[test]
        fn any_bytes_do_no_harm(line: Vec<u8>) {
            let _ = Entry::parse(&line);
            let _ = ends_line(&line);
        }
    }
}
