//! A strict parser of the exposition format for tests: each family must be in one piece and each series occur
//! once.

use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What was read of one family.
#[derive(Debug, Default)]
pub struct Family {
    /// The type in its `# TYPE` line.
    pub kind: String,
    /// The sets of label keys that occur, each sorted and joined by commas; `le` left out.
    pub label_sets: BTreeSet<String>,
    /// Number of samples; each bucket of a histogram is one.
    pub samples: usize,
}

/// Reads a document into its families by name.
///
/// # Panics
///
/// If the text is not well formed.
pub fn families(text: &[u8]) -> BTreeMap<String, Family> {
    let text = std::str::from_utf8(text).expect("UTF-8");
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut name, mut series) = (String::new(), HashSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            name = rest.split_once(' ').expect("help text").0.to_owned();
            assert!(!families.contains_key(&name), "{name} comes twice");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (of, kind) = rest.split_once(' ').expect("type");
            assert_eq!(of, name, "TYPE follows its HELP");
            families.insert(name.clone(), Family { kind: kind.to_owned(), ..Family::default() });
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let family = families.get_mut(&name).unwrap_or_else(|| panic!("{line} before any family"));
        let end = line.find(['{', ' ']).expect("a value");
        let suffix = line[..end].strip_prefix(&name).unwrap_or_else(|| panic!("{line} is not of {name}"));
        let allowed: &[&str] =
            if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(allowed.contains(&suffix), "{line} is not of {name}");
        let (keys, rest) = labels(&line[end..]);
        let mut fields = rest.split_ascii_whitespace();
        fields.next().expect("a value").parse::<f64>().unwrap_or_else(|_| panic!("value of {line}"));
        if let Some(stamp) = fields.next() {
            stamp.parse::<i64>().unwrap_or_else(|_| panic!("time of {line}"));
        }
        assert_eq!(fields.next(), None, "{line}");
        assert!(series.insert(line[..line.len() - rest.len()].to_owned()), "{line} comes twice");
        family.label_sets.insert(keys.join(","));
        family.samples += 1;
    }
    for (name, family) in &families {
        assert!(family.samples > 0, "{name} has no sample");
        assert_eq!(family.label_sets.len(), 1, "label keys of {name} differ");
    }
    families
}

/// Keys of `{…}` at the start of `text`, sorted, without `le`, and what follows.
fn labels(text: &str) -> (Vec<String>, &str) {
    let Some(mut rest) = text.strip_prefix('{') else { return (Vec::new(), text) };
    let mut keys = Vec::new();
    loop {
        let (key, value) = rest.split_once("=\"").expect("a label");
        keys.push(key.to_owned());
        let mut escaped = false;
        let close = value
            .find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            })
            .expect("a closing quote");
        rest = &value[close + 1..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => break,
        }
    }
    keys.retain(|k| k != "le");
    keys.sort_unstable();
    (keys, rest.strip_prefix('}').expect("a closing brace"))
}
