//! What the page shows at one moment, and what of it differs from the moment before. Pure.
//!
//! Rows are kept as the JSON text that is sent. So a comparison is one of texts, and each row is written
//! once, however many pages are open.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

/// A row: what it is compared by, and its JSON. They differ where the time of reading alone does not make a
/// row new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Equal texts: nothing has changed.
    pub compared: Arc<str>,
    /// What is sent.
    pub sent: Arc<str>,
}

impl Row {
    /// A row of which everything counts.
    pub fn new(json: String) -> Self {
        let sent: Arc<str> = json.into();
        Self { compared: sent.clone(), sent }
    }
}

/// The parts of a frame: single values by name, and tables of rows by key.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    /// Sent with every frame in which they are new. JSON by name.
    pub values: BTreeMap<&'static str, String>,
    /// Rows by key, by the name of the table.
    pub tables: BTreeMap<&'static str, BTreeMap<String, Row>>,
}

/// Everything at one moment.
#[derive(Debug)]
pub(super) struct Frame {
    number: u64,
    parts: Parts,
    /// What differs from the frame before.
    delta: Arc<str>,
    full: OnceLock<Arc<str>>,
}

impl Frame {
    /// The frame that follows `before`.
    pub fn after(before: Option<&Self>, parts: Parts) -> Self {
        let number = before.map_or(1, |before| before.number + 1);
        let nothing = Parts::default();
        let delta = json(number, false, &parts, before.map_or(&nothing, |before| &before.parts)).into();
        Self { number, parts, delta, full: OnceLock::new() }
    }

    /// Counts up.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The JSON for a client that has seen frame `seen`: the differences if it was the one before, else
    /// everything.
    pub fn since(&self, seen: Option<u64>) -> Arc<str> {
        if seen.is_some_and(|seen| seen + 1 == self.number) {
            return self.delta.clone();
        }
        let all = || json(self.number, true, &self.parts, &Parts::default()).into();
        self.full.get_or_init(all).clone()
    }
}

/// `{"number":1,"full":true,"node":{…},"groups":{"set":[…],"gone":[…]}}` without what is as in `before`.
fn json(number: u64, full: bool, parts: &Parts, before: &Parts) -> String {
    let mut out = format!("{{\"number\":{number},\"full\":{full}");
    for (name, value) in &parts.values {
        if before.values.get(name) != Some(value) {
            // Writing to a String cannot fail.
            let _ = write!(out, ",\"{name}\":{value}");
        }
    }
    let none = BTreeMap::new();
    for (name, rows) in &parts.tables {
        let old = before.tables.get(name).unwrap_or(&none);
        let is_new = |key: &String, row: &Row| old.get(key).is_none_or(|old| old.compared != row.compared);
        let set = rows.iter().filter(|(key, row)| is_new(key, row)).map(|(_, row)| &*row.sent);
        let gone = old.keys().filter(|key| !rows.contains_key(*key)).map(|key| quoted(key));
        let (set, gone): (Vec<_>, Vec<_>) = (set.collect(), gone.collect());
        if full || !set.is_empty() || !gone.is_empty() {
            let _ = write!(out, ",\"{name}\":{{\"set\":[{}],\"gone\":[{}]}}", set.join(","), gone.join(","));
        }
    }
    out.push('}');
    out
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parts(node: u64, rows: &[(&str, u64)]) -> Parts {
        let row = |(key, value): &(&str, u64)| {
            (String::from(*key), Row::new(json!({"key": key, "value": value}).to_string()))
        };
        Parts {
            values: [("node", node.to_string())].into(),
            tables: [("rows", rows.iter().map(row).collect())].into(),
        }
    }

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_first_is_whole_and_then_only_what_differs() {
        let first = Frame::after(None, parts(1, &[("a", 1), ("b\"", 2)]));
        let whole = read(&first.since(None));
        assert_eq!((&whole["full"], &whole["node"], &whole["number"]), (&json!(true), &json!(1), &json!(1)));
        assert_eq!(whole["rows"]["set"].as_array().unwrap().len(), 2);
        let second = Frame::after(Some(&first), parts(1, &[("a", 5)]));
        let delta = json!({
            "number": 2, "full": false, "rows": {"set": [{"key": "a", "value": 5}], "gone": ["b\""]},
        });
        assert_eq!(read(&second.since(Some(1))), delta);
        let third = Frame::after(Some(&second), parts(2, &[("a", 5)]));
        assert_eq!(read(&third.since(Some(2))), json!({"number": 3, "full": false, "node": 2}));
    }

    #[test]
    fn who_missed_one_gets_everything() {
        let first = Frame::after(None, parts(1, &[("a", 1)]));
        let second = Frame::after(Some(&first), parts(1, &[("a", 1)]));
        for seen in [None, Some(0), Some(2), Some(7)] {
            assert_eq!(read(&second.since(seen))["full"], json!(true), "{seen:?}");
        }
    }

    #[test]
    fn a_row_that_was_only_read_again_is_not_sent() {
        let row = |at: u64| Row { compared: "x".into(), sent: format!("{{\"at\":{at}}}").into() };
        let with =
            |at| Parts { tables: [("rows", [("a".to_owned(), row(at))].into())].into(), ..Parts::default() };
        let first = Frame::after(None, with(1));
        assert_eq!(
            read(&Frame::after(Some(&first), with(2)).since(Some(1))),
            json!({"number": 2, "full": false})
        );
    }
}
