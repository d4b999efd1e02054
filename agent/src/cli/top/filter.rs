//! The filter: which rows have the words that were typed. Pure.

use super::rates::Row;

/// The most characters that it takes.
const LONGEST: usize = 128;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    /// In lower case.
    words: Vec<String>,
    /// Whether keys are typed into it.
    pub editing: bool,
}

impl Filter {
    /// What was typed; all rows are shown if it is empty.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is anything to look for.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn push(&mut self, c: char) {
        if self.text.chars().count() < LONGEST && !c.is_control() {
            self.text.push(c);
            self.split();
        }
    }

    /// Removes the last character; without one the filter is left.
    pub fn pop(&mut self) {
        self.editing = self.text.pop().is_some();
        self.split();
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn split(&mut self) {
        self.words = self.text.split_whitespace().map(str::to_lowercase).collect();
    }

    /// Whether the name or path has every word, in any case and order.
    pub fn has(&self, row: &Row) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let (name, path) = (row.name.to_lowercase(), row.path.to_lowercase());
        self.words.iter().all(|word| name.contains(word.as_str()) || path.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Filter {
        let mut filter = Filter { editing: true, ..Filter::default() };
        text.chars().for_each(|c| filter.push(c));
        filter
    }

    #[test]
    fn every_word_has_to_be_there() {
        let row = Row {
            name: "shop/Cart-5d9c:web".into(),
            path: "/kubepods/burstable/pod8c5e/c0ffee".into(),
            ..Row::default()
        };
        for (text, expected) in [
            ("", true),
            ("  ", true),
            ("cart", true),
            ("CART web", true),
            ("web cart", true),
            ("burst 8c5e", true),
            ("cart db", false),
            ("x", false),
        ] {
            assert_eq!(typed(text).has(&row), expected, "{text}");
        }
    }

    #[test]
    fn it_is_typed_and_taken_back() {
        let mut filter = typed("é\u{7}b");
        assert_eq!((filter.text(), filter.is_empty()), ("éb", false));
        for (left, editing) in [("é", true), ("", true), ("", false)] {
            filter.pop();
            assert_eq!((filter.text(), filter.editing), (left, editing));
        }
        assert_eq!(typed(&"x".repeat(1000)).text().len(), LONGEST);
    }
}
