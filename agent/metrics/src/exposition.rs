//! Writer of the Prometheus text exposition format 0.0.4.
//!
//! Each family is written in one pass: its `# HELP` and `# TYPE` are written once, before its first sample,
//! and not at all if it has none. The output is passed on in chunks, so a scrape of any size needs one small
//! buffer.

use super::family::{Desc, Kind};
use super::number::{self, Value};
use nodewarden_model::{Buckets, Log2Histogram, WAIT_BUCKETS};

/// `Content-Type` of the documents that are written here.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A chunk is passed on as soon as it has at least this many bytes. Each wakes the thread that sends it.
pub const CHUNK_BYTES: usize = 60 * 1024;
/// The room that a buffer of a chunk has beyond that, for what is written last: a sample of each of 100
/// containers and their pods. Together they are less than what the allocator takes from the kernel each time
/// (128 KiB).
pub const ROOM: usize = 64 * 1024;

/// Takes a chunk of the document out of the buffer, which is cleared afterwards. It is called between two
/// lines.
pub type Spill<'a> = &'a mut dyn FnMut(&mut Vec<u8>);

/// The document being written.
pub struct Exposition<'a> {
    buffer: Vec<u8>,
    /// `None`: the text stays in the buffer.
    spill: Option<Spill<'a>>,
}

impl<'a> Exposition<'a> {
    /// Starts a document whose chunks are passed to `spill`.
    pub fn new(spill: Spill<'a>) -> Self {
        Self { buffer: Vec::with_capacity(CHUNK_BYTES + ROOM), spill: Some(spill) }
    }

    /// Goes on with a document whose text so far is in `buffer`, to which the next piece is appended.
    pub(crate) fn piece(buffer: Vec<u8>) -> Self {
        Self { buffer, spill: None }
    }

    /// The buffer of [`Exposition::piece`], with what was appended.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Begins a family. Each family may be begun only once in a document.
    pub(crate) fn family(&mut self, desc: &'static Desc) -> Family<'_, 'a> {
        self.family_again(desc, false)
    }

    /// Goes on with the family that was written last. `begun`: whether it has samples, see
    /// [`Family::has_begun`].
    pub(crate) fn family_again(&mut self, desc: &'static Desc, begun: bool) -> Family<'_, 'a> {
        Family { desc, begun, out: self }
    }

    /// Writes a family of one sample without labels or timestamp.
    pub(crate) fn single(&mut self, desc: &'static Desc, value: impl Into<Value>) {
        self.family(desc).sample(&[], &[], value.into(), &[]);
    }

    /// Appends text that already has the exposition format and ends in a line feed.
    pub fn raw(&mut self, text: &[u8]) {
        self.buffer.extend_from_slice(text);
        self.hand_on(CHUNK_BYTES);
    }

    /// Passes the rest of the text on.
    pub fn finish(mut self) {
        self.hand_on(1);
    }

    #[inline]
    fn hand_on(&mut self, at: usize) {
        if self.buffer.len() >= at
            && let Some(spill) = &mut self.spill
        {
            spill(&mut self.buffer);
            self.buffer.clear();
        }
    }
}

/// Writes a whole document into one vector, for tests.
pub fn to_vec(write: impl FnOnce(&mut Exposition<'_>)) -> Vec<u8> {
    let mut all = Vec::new();
    let mut spill = |chunk: &mut Vec<u8>| all.append(chunk);
    let mut exposition = Exposition::new(&mut spill);
    write(&mut exposition);
    exposition.finish();
    all
}

/// A family that is being written.
pub(crate) struct Family<'e, 'a> {
    desc: &'static Desc,
    begun: bool,
    out: &'e mut Exposition<'a>,
}

/// What lines of a family begin with: its name, a brace, and label pairs that they have in common, each with
/// a comma. Rendered once for thousands of lines.
pub(crate) struct Head(Vec<u8>);

impl Family<'_, '_> {
    /// Whether it has a sample.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The head of lines with the label pairs `own`, before those of [`Family::row`].
    pub(crate) fn head(&self, own: &[(&str, &str)]) -> Head {
        debug_assert!(own.iter().all(|(key, _)| self.desc.labels.contains(key)), "{}", self.desc.name);
        let mut text = Vec::with_capacity(128);
        text.extend_from_slice(self.desc.name.as_bytes());
        text.push(b'{');
        for (key, value) in own {
            push_pair(&mut text, key, value);
            text.push(b',');
        }
        Head(text)
    }

    /// Writes one sample from parts that are rendered already: `labels` are one pair at least, with the
    /// brace and the space after it; `end` is what follows the value, with the line feed.
    pub(crate) fn row(&mut self, head: &Head, labels: &[u8], value: Value, end: &[u8]) {
        debug_assert_ne!(self.desc.kind, Kind::Histogram);
        debug_assert!(labels.ends_with(b"\"} ") && end.ends_with(b"\n"));
        self.begin();
        let out = &mut self.out.buffer;
        out.extend_from_slice(&head.0);
        out.extend_from_slice(labels);
        value.write(out);
        out.extend_from_slice(end);
        self.out.hand_on(CHUNK_BYTES);
    }

    /// Writes one sample. `labels` are rendered pairs (see [`push_label`]) without braces, `extra` more pairs
    /// of this sample, `stamp` is either empty or a space and milliseconds since 1970.
    pub(crate) fn sample(&mut self, labels: &[u8], extra: &[(&str, &str)], value: Value, stamp: &[u8]) {
        debug_assert_ne!(self.desc.kind, Kind::Histogram);
        self.begin();
        self.line("", labels, extra, None, value, stamp);
        self.out.hand_on(CHUNK_BYTES);
    }

    /// Writes one histogram of nanoseconds, in seconds: all its buckets cumulatively, `_sum` and `_count`.
    /// The bounds are powers of two, and a bucket holds what is *below* its bound; with values in whole
    /// nanoseconds the difference to Prometheus' "at most" is one nanosecond.
    pub(crate) fn histogram(&mut self, labels: &[u8], extra: &[(&str, &str)], histogram: &Log2Histogram) {
        debug_assert_eq!(self.desc.kind, Kind::Histogram);
        self.begin();
        let mut below = 0u64;
        for (i, n) in histogram.buckets.iter().enumerate().take(WAIT_BUCKETS) {
            below = below.saturating_add(*n);
            let bound = Log2Histogram::upper_bound_ns(i).map_or(Value::Float(f64::INFINITY), Value::Nanos);
            self.line("_bucket", labels, extra, Some(bound), Value::Int(below), &[]);
        }
        self.line("_sum", labels, extra, None, Value::Nanos(histogram.sum_ns), &[]);
        self.line("_count", labels, extra, None, Value::Int(below), &[]);
        self.out.hand_on(CHUNK_BYTES);
    }

    /// Writes one histogram of seconds with its own bounds: all its buckets cumulatively, `_sum` and
    /// `_count`.
    pub(crate) fn buckets(&mut self, labels: &[u8], extra: &[(&str, &str)], buckets: &Buckets) {
        debug_assert_eq!(self.desc.kind, Kind::Histogram);
        self.begin();
        let mut until = 0u64;
        for &(bound, count) in buckets.counts.iter().chain([&(f64::INFINITY, buckets.above)]) {
            until = until.saturating_add(count);
            self.line("_bucket", labels, extra, Some(Value::Float(bound)), Value::Int(until), &[]);
        }
        self.line("_sum", labels, extra, None, Value::Float(buckets.sum), &[]);
        self.line("_count", labels, extra, None, Value::Int(until), &[]);
        self.out.hand_on(CHUNK_BYTES);
    }

    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.introduce();
        }
    }

    #[cold]
    fn introduce(&mut self) {
        let out = &mut self.out.buffer;
        for (keyword, text) in [("# HELP ", self.desc.help), ("# TYPE ", self.desc.kind.name())] {
            out.extend_from_slice(keyword.as_bytes());
            out.extend_from_slice(self.desc.name.as_bytes());
            out.push(b' ');
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        }
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[u8],
        extra: &[(&str, &str)],
        le: Option<Value>,
        value: Value,
        stamp: &[u8],
    ) {
        debug_assert!(extra.iter().all(|(key, _)| self.desc.labels.contains(key)), "{}", self.desc.name);
        let out = &mut self.out.buffer;
        out.extend_from_slice(self.desc.name.as_bytes());
        out.extend_from_slice(suffix.as_bytes());
        if !labels.is_empty() || !extra.is_empty() || le.is_some() {
            out.push(b'{');
            let start = out.len();
            out.extend_from_slice(labels);
            for (key, value) in extra {
                separate(out, start);
                push_pair(out, key, value);
            }
            if let Some(le) = le {
                separate(out, start);
                out.extend_from_slice(b"le=\"");
                le.write(out);
                out.push(b'"');
            }
            out.push(b'}');
        }
        out.push(b' ');
        value.write(out);
        out.extend_from_slice(stamp);
        out.push(b'\n');
    }
}

fn separate(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}

fn push_pair(out: &mut Vec<u8>, key: &str, value: &str) {
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"=\"");
    escape(out, value);
    out.push(b'"');
}

/// Appends one label pair to rendered labels, which begin at `start` of `out`.
pub(crate) fn push_label(out: &mut Vec<u8>, start: usize, key: &str, value: &str) {
    separate(out, start);
    push_pair(out, key, value);
}

/// Appends a space and `millis` as a sample's timestamp.
pub(crate) fn push_stamp(out: &mut Vec<u8>, millis: u64) {
    out.push(b' ');
    number::int(out, millis);
}

/// Appends a label value with backslash, quote and line feed escaped.
fn escape(out: &mut Vec<u8>, value: &str) {
    let mut rest = value.as_bytes();
    while let Some(i) = memchr::memchr3(b'\\', b'"', b'\n', rest) {
        out.extend_from_slice(&rest[..i]);
        out.extend_from_slice(match rest[i] {
            b'\\' => b"\\\\",
            b'"' => b"\\\"",
            _ => b"\\n",
        });
        rest = &rest[i + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GAUGE: Desc = Desc { name: "g", kind: Kind::Gauge, help: "A gauge.", labels: &["a", "b"] };
    const HISTOGRAM: Desc = Desc { name: "h_seconds", kind: Kind::Histogram, help: "Times.", labels: &["a"] };
    static GAUGE_DESC: Desc = GAUGE;
    static HISTOGRAM_DESC: Desc = HISTOGRAM;

    fn text(write: impl FnOnce(&mut Exposition<'_>)) -> String {
        String::from_utf8(to_vec(write)).unwrap()
    }

    #[test]
    fn the_header_is_written_once_and_only_with_a_sample() {
        let shown = text(|e| {
            let _ = e.family(&HISTOGRAM_DESC);
            let mut family = e.family(&GAUGE_DESC);
            family.sample(br#"a="1""#, &[("b", "x")], Value::Int(7), b" 1700");
            family.sample(&[], &[], Value::Int(8), &[]);
        });
        assert_eq!(shown, "# HELP g A gauge.\n# TYPE g gauge\ng{a=\"1\",b=\"x\"} 7 1700\ng 8\n");
    }

    #[test]
    fn rows_are_lines_of_rendered_parts() {
        let shown = text(|e| {
            let mut family = e.family(&GAUGE_DESC);
            let (plain, own) = (family.head(&[]), family.head(&[("b", "x\"y")]));
            family.row(&plain, b"a=\"1\"} ", Value::Int(7), b"\n");
            family.row(&own, b"a=\"1\"} ", Value::Nanos(500_000_000), b" 1700\n");
        });
        assert_eq!(
            shown,
            "# HELP g A gauge.\n# TYPE g gauge\ng{a=\"1\"} 7\ng{b=\"x\\\"y\",a=\"1\"} 0.5 1700\n"
        );
    }

    #[test]
    fn histogram_is_cumulative_and_complete() {
        let mut histogram = Log2Histogram { sum_ns: 5_000, ..Log2Histogram::default() };
        histogram.buckets[0] = 2;
        histogram.buckets[1] = 1;
        histogram.buckets[WAIT_BUCKETS - 1] = 4;
        let shown = text(|e| e.family(&HISTOGRAM_DESC).histogram(&[], &[("a", "r")], &histogram));
        let lines: Vec<_> = shown.lines().skip(2).collect();
        assert_eq!(lines.len(), WAIT_BUCKETS + 2);
        assert_eq!(lines[0], r#"h_seconds_bucket{a="r",le="0.000001024"} 2"#);
        assert_eq!(lines[1], r#"h_seconds_bucket{a="r",le="0.000002048"} 3"#);
        assert_eq!(lines[WAIT_BUCKETS - 2], r#"h_seconds_bucket{a="r",le="4.294967296"} 3"#);
        assert_eq!(lines[WAIT_BUCKETS - 1], r#"h_seconds_bucket{a="r",le="+Inf"} 7"#);
        assert_eq!(lines[WAIT_BUCKETS], r#"h_seconds_sum{a="r"} 0.000005"#);
        assert_eq!(lines[WAIT_BUCKETS + 1], r#"h_seconds_count{a="r"} 7"#);
    }

    #[test]
    fn buckets_are_cumulative_up_to_infinity() {
        let buckets = Buckets { counts: vec![(0.005, 2), (2.5, 0), (10.0, 1)], above: 4, sum: 61.25 };
        let shown = text(|e| e.family(&HISTOGRAM_DESC).buckets(br#"a="r""#, &[], &buckets));
        let expected = "\
# HELP h_seconds Times.
# TYPE h_seconds histogram
h_seconds_bucket{a=\"r\",le=\"0.005\"} 2
h_seconds_bucket{a=\"r\",le=\"2.5\"} 2
h_seconds_bucket{a=\"r\",le=\"10\"} 3
h_seconds_bucket{a=\"r\",le=\"+Inf\"} 7
h_seconds_sum{a=\"r\"} 61.25
h_seconds_count{a=\"r\"} 7
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn chunks_end_at_a_line_and_are_small() {
        let mut chunks = Vec::new();
        let mut spill = |chunk: &mut Vec<u8>| chunks.push(std::mem::take(chunk));
        let mut exposition = Exposition::new(&mut spill);
        let mut family = exposition.family(&GAUGE_DESC);
        for i in 0..40_000 {
            family.sample(br#"a="some value""#, &[], Value::Int(i), &[]);
        }
        exposition.finish();
        assert!(chunks.len() > 3);
        for chunk in &chunks {
            assert_eq!(chunk.last(), Some(&b'\n'));
            assert!(chunk.len() < CHUNK_BYTES + 4096);
        }
    }

    proptest! {
        #[test]
        fn escaped_values_read_back(value: String) {
            let mut out = Vec::new();
            escape(&mut out, &value);
            let shown = String::from_utf8(out).unwrap();
            prop_assert!(!shown.contains('\n'));
            let (mut back, mut chars) = (String::new(), shown.chars());
            while let Some(c) = chars.next() {
                match c {
                    '\\' => back.push(match chars.next().unwrap() { 'n' => '\n', c => c }),
                    '"' => prop_assert!(false, "bare quote"),
                    c => back.push(c),
                }
            }
            prop_assert_eq!(back, value);
        }
    }
}
