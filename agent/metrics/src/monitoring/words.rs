//! Reads queries word by word: which series they select, and whether the agent has those.

use std::collections::BTreeSet;

/// Words of the language that stand before a list of labels.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "inf"];
/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];

/// A name with the text of its matchers in braces, if it has any.
struct Selector<'a> {
    name: &'a str,
    matchers: Option<&'a str>,
}

/// Names that are no series of the agent, and labels that their series do not have.
pub fn problems(query: &str, series: &[(String, BTreeSet<&'static str>)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut known = BTreeSet::from(ADDED);
    for selector in read(query).0 {
        let mut found = false;
        let mut keys = BTreeSet::from(ADDED);
        for (_, labels) in series.iter().filter(|(name, _)| name == selector.name) {
            found = true;
            keys.extend(labels);
        }
        if !found {
            problems.push(format!("{} is no series of the agent", selector.name));
        }
        for (key, _) in selector.matchers.map(matchers).unwrap_or_default() {
            if !keys.contains(key) {
                problems.push(format!("{} has no label {key}", selector.name));
            }
        }
        known.extend(keys);
    }
    let labels = read(query).1.into_iter().filter(|label| !known.contains(label));
    problems.extend(labels.map(|label| format!("no series has the label {label}")));
    problems
}

/// The text of each selector.
pub fn selectors(query: &str) -> Vec<String> {
    let found = read(query).0.into_iter();
    found
        .map(|selector| match selector.matchers {
            Some(matchers) => format!("{}{{{matchers}}}", selector.name),
            None => selector.name.to_owned(),
        })
        .collect()
}

/// The selectors, and the labels in lists.
fn read(query: &str) -> (Vec<Selector<'_>>, Vec<&str>) {
    let (mut selectors, mut labels) = (Vec::new(), Vec::new());
    let mut rest = query;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '[') {
        rest = &rest[start..];
        if rest.starts_with('[') {
            rest = rest.split_once(']').unwrap().1;
            continue;
        }
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let next = after.trim_start();
        if BEFORE_LABELS.contains(&word) {
            let (list, after) = next.strip_prefix('(').unwrap().split_once(')').unwrap();
            labels.extend(list.split(',').map(str::trim));
            rest = after;
        } else if next.starts_with('{') {
            let close = closing(next);
            selectors.push(Selector { name: word, matchers: Some(&next[1..close]) });
            rest = &next[close + 1..];
        } else if !is_function(next) && !OPERATORS.contains(&word) {
            selectors.push(Selector { name: word, matchers: None });
        }
    }
    (selectors, labels)
}

/// Whether the word before this is a function's, also one with a list of labels between.
fn is_function(next: &str) -> bool {
    next.starts_with('(') || ["by (", "without ("].iter().any(|list| next.starts_with(list))
}

/// Where the brace at the beginning is closed, not counting those in strings.
fn closing(text: &str) -> usize {
    let mut quoted = false;
    let found = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '}' && !quoted
    });
    found.unwrap().0
}

/// Keys and values of matchers.
fn matchers(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, after) = rest.split_once(['=', '!']).unwrap();
        let (_, after) = after.split_once('"').unwrap();
        let (value, after) = after.split_once('"').unwrap();
        found.push((key.trim(), value));
        rest = after.trim_start_matches([',', ' ']);
    }
    found
}

#[test]
fn selectors_and_labels_are_found() {
    let query = r#"topk(10, sum by (pod, le) (rate(a_total{b=~"x|}",c!=""}[5m]))) / ignoring (kind) 1.1 * time() - d:e"#;
    assert_eq!(selectors(query), [r#"a_total{b=~"x|}",c!=""}"#, "d:e"]);
    let series = [("a_total".to_owned(), BTreeSet::from(["b", "pod", "le"]))];
    assert_eq!(
        problems(query, &series),
        ["a_total has no label c", "d:e is no series of the agent", "no series has the label kind"]
    );
}
