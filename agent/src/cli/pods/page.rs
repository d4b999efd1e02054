//! Builds a text of indented lines with keys and values. Pure.

use std::fmt::Write as _;

use crate::cli::format;
use nodewarden_api::grpc::time;

/// Width of an unindented key in characters.
const WIDTH: usize = 20;

/// A point in time in RFC 3339; empty if it is unknown.
pub fn moment(time: Option<&prost_types::Timestamp>) -> String {
    time.and_then(time::to_timestamp).map(format::time).unwrap_or_default()
}

/// The text so far. A key with an empty value is left out.
#[derive(Default)]
pub struct Page {
    pub text: String,
    pub indent: usize,
}

impl Page {
    pub fn line(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            let (key, width) = (format!("{key}:"), self.width());
            self.item_at(self.indent, &format!("{key:<width$} {value}"));
        }
    }

    /// A value of several lines, aligned behind the key.
    pub fn block(&mut self, key: &str, text: &str) {
        let below = format!("\n{:1$} ", "", self.width());
        self.line(key, &text.lines().collect::<Vec<_>>().join(&below));
    }

    /// A key and a value, indented one level deeper.
    pub fn inner(&mut self, key: &str, value: &str) {
        self.indent += 1;
        self.line(key, value);
        self.indent -= 1;
    }

    pub fn title(&mut self, title: &str) {
        self.heading(title);
    }

    pub fn heading(&mut self, text: &str) {
        self.item_at(self.indent, &format!("{text}:"));
    }

    pub fn item(&mut self, text: &str) {
        self.item_at(1, text);
    }

    /// Writes a text; each of its lines gets the same indentation.
    fn item_at(&mut self, indent: usize, text: &str) {
        for line in text.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "{}{}", "  ".repeat(indent), format::printable(line));
        }
    }

    fn width(&self) -> usize {
        WIDTH - 2 * self.indent.min(3)
    }
}
