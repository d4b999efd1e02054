//! The table against the readers, and the document made of it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use serde_yaml_ng::Mapping;

use super::*;
use crate::gates::table::{GATES, GateMeaning};
use crate::node::tests::{problems, read};
use crate::reading::Reading;
use crate::{Overrides, file};

/// The paths that the readers ask for.
fn asked_for() -> Vec<String> {
    let mut reading = Reading::default();
    file::read(Mapping::new(), &mut reading, &Overrides::default());
    reading.keys.into_iter().map(|key| key.path).collect()
}

#[test]
fn every_key_is_once_in_the_table_and_in_order() {
    for list in [DONE, OWN] {
        assert!(list.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
    let order = |key: &Key| (matches!(key.meaning, Meaning::Refused { .. }), key.path);
    assert!(WITHOUT_EFFECT.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])));
    let paths: BTreeSet<&str> = all().map(|key| key.path).collect();
    assert_eq!(paths.len(), all().count());
}

/// What is called done is read, and nothing else is.
#[test]
fn the_keys_called_done_are_those_that_are_read() {
    let asked = asked_for();
    let asked_once: BTreeSet<&str> = asked.iter().map(String::as_str).collect();
    assert_eq!(asked_once.len(), asked.len(), "a key is read twice");
    for key in all() {
        let done = matches!(key.meaning, Meaning::Done(_));
        assert_eq!(asked_once.contains(key.path), done, "{}", key.path);
    }
    let unknown: Vec<&&str> = asked_once.iter().filter(|path| find(path).is_none()).collect();
    assert!(unknown.is_empty(), "not in the table: {unknown:?}");
}

/// Every key without effect is accepted with some value, which is then listed with its reason, and refused
/// with a value of another type.
#[test]
fn keys_without_effect_are_listed_or_refused() {
    let values = ["true", "false", "5", "5s", "none", "{}", "[]"];
    for key in WITHOUT_EFFECT {
        let Some((top, inner)) = key.path.split_once('.').or(Some((key.path, ""))) else { continue };
        let body = |value: &str| match inner {
            "" => format!("{top}: {value}"),
            inner => format!("{top}: {{{inner}: {value}}}"),
        };
        let accepted = values.iter().filter_map(|value| read(&body(value)).ok()).next();
        let accepted = accepted.unwrap_or_else(|| panic!("{} is never accepted", key.path));
        assert_eq!(accepted.ignored.len(), 1, "{}", key.path);
        assert_eq!(accepted.ignored[0].key, key.path);
        let refused = problems(&body("[[[]]]"));
        assert!(refused[0].starts_with(&format!("{}: a list: expected ", key.path)), "{refused:?}");
        assert!(read(&body("null")).unwrap().ignored.is_empty(), "{}: null is absent", key.path);
    }
}

#[test]
fn what_would_break_a_promise_is_refused_with_the_reason() {
    for (body, expected) in [
        (
            "enableControllerAttachDetach: false",
            "enableControllerAttachDetach: false: expected true: volumes are attached by the controller alone, never by \
             the agent",
        ),
        (
            "runOnce: true",
            "runOnce: true: expected false: the agent runs until it is ended; kubelets refuse it too",
        ),
        (
            "tracing: {endpoint: 'localhost:4317', samplingRatePerMillion: 100}",
            "tracing: a mapping: expected nothing: the agent sends no traces",
        ),
        (
            "userNamespaces: {idsPerPod: 131072}",
            "userNamespaces: a mapping: expected the default idsPerPod, 65536: pods with hostUsers: false are refused, so no \
             pod has a user namespace",
        ),
        ("hairpinMode: veth", "hairpinMode: veth: expected promiscuous-bridge, hairpin-veth or none"),
        ("iptablesDropBit: 32", "iptablesDropBit: 32: expected a whole number from 0 to 31"),
    ] {
        assert_eq!(problems(body), [expected], "{body}");
    }
    let fine = "userNamespaces: {idsPerPod: 65536}\ntracing: {}\nrunOnce: false\nenableControllerAttachDetach: true\n";
    assert_eq!(read(fine).unwrap().ignored.len(), 4);
}

#[test]
fn a_similar_key_is_suggested() {
    for (typed, meant_key) in [
        ("maxpods", Some("maxPods")),
        ("maxPod", Some("maxPods")),
        ("evictionhard", Some("evictionHard")),
        ("colour", None),
    ] {
        assert_eq!(meant(typed, top_level()), meant_key, "{typed}");
    }
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The document: what each key and each feature gate means here.
fn document() -> String {
    let schema = crate::schema();
    let mut text = include_str!("tests/head.md").to_owned();
    let mut rows = |title: &str, head: &str, lines: Vec<String>| {
        let columns = head.matches('|').count() - 1;
        let _ = write!(text, "\n## {title}\n\n{head}\n|{}\n{}\n", "---|".repeat(columns), lines.join("\n"));
    };
    let done = |own: bool| {
        let mut keys: Vec<Key> = all().filter(|key| key.path.starts_with("nodewarden") == own).collect();
        keys.sort_unstable_by_key(|key| key.path.to_lowercase());
        let lines: Vec<String> = keys
            .iter()
            .filter_map(|key| match key.meaning {
                Meaning::Done(about) => {
                    let node = key.path.split('.').fold(&schema, |node, part| &node["properties"][part]);
                    let default = match &node["default"] {
                        serde_json::Value::Null => String::new(),
                        value => format!("`{value}`"),
                    };
                    Some(format!("| `{}` | {} | {} |", key.path, cell(&default), cell(about)))
                }
                _ => None,
            })
            .collect();
        lines
    };
    rows("Keys of KubeletConfiguration that have an effect", "| key | default | what it does |", done(false));
    rows("Keys of the section `nodewarden`", "| key | default | what it does |", done(true));
    let none = WITHOUT_EFFECT.iter().filter_map(|key| match key.meaning {
        Meaning::NoEffect { reason, .. } => Some(format!("| `{}` | {} |", key.path, cell(reason))),
        _ => None,
    });
    rows("Keys without effect", "| key | why |", none.collect());
    let refused = WITHOUT_EFFECT.iter().filter_map(|key| match key.meaning {
        Meaning::Refused { expected, reason, .. } => {
            Some(format!("| `{}` | {} | {} |", key.path, cell(expected), cell(reason)))
        }
        _ => None,
    });
    rows("Keys that are refused with other values", "| key | accepted | why |", refused.collect());
    let gates = GATES.iter().map(|gate| match gate.meaning {
        GateMeaning::Done { about, alpha, .. } => {
            let on =
                crate::FeatureGates::default().list().into_iter().any(|(name, on)| on && name == gate.name);
            let default = if on { "on" } else { "off" };
            let alpha = if alpha { ", by `AllAlpha`" } else { "" };
            format!("| `{}` | {default}{alpha} | {} |", gate.name, cell(about))
        }
        GateMeaning::NoEffect(reason) => format!("| `{}` | no effect | {} |", gate.name, cell(reason)),
    });
    rows("Feature gates", "| gate | default | what it does, or why it does nothing |", gates.collect());
    text
}

/// With NODEWARDEN_WRITE_DOCS the document is written instead.
#[test]
fn the_document_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIGURATION.md");
    if std::env::var_os("NODEWARDEN_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == document(),
        "docs/CONFIGURATION.md is not what the table says: run \
         NODEWARDEN_WRITE_DOCS=1 cargo test -p nodewarden-config the_document"
    );
}
