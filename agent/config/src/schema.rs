//! The JSON schema of the whole file (draft 2020-12). Keys, types, ranges and names come from the readers,
//! which are run with an empty file; defaults from what they made of it; descriptions and the keys without
//! effect from [`keys`].
//!
//! A file that the agent accepts is valid by the schema. The schema accepts files that the agent refuses: it
//! knows nothing of what keys demand of each other, of the form of most texts, and of the machine.

use serde_json::{Map, Value, json};
use serde_yaml_ng::Mapping;

use crate::gates::table::{GATES, GateMeaning};
use crate::keys::{self, Meaning, SECTION};
use crate::reading::Reading;
use crate::renamed::RENAMED;
use crate::shape::Shape;
use crate::{Overrides, file};

/// Go's `time.ParseDuration`, without negative times.
const DURATION: &str = r"^[+-]?0$|^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+$|^-((0+(\.0*)?|\.0+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+$";

/// The schema.
pub fn schema() -> Value {
    let mut reading = Reading::default();
    let config = file::read(Mapping::new(), &mut reading, &Overrides::default());
    let defaults: Value = serde_yaml_ng::from_str(&config.to_yaml()).unwrap_or_default();
    let mut root = section();
    for key in &reading.keys {
        let about = match keys::find(&key.path).map(|key| key.meaning) {
            Some(Meaning::Done(about)) => about.to_owned(),
            _ => String::new(),
        };
        let own = match (key.shape, key.shape.expected() == key.expected || key.expected.is_empty()) {
            (Shape::Section, _) | (_, true) => about,
            (_, false) => format!("{about} Expected: {}.", key.expected),
        };
        let mut node = nullable(&key.shape);
        node["description"] = own.into();
        if let Some(default) = at(&defaults, &key.path).filter(|_| key.shape != Shape::Section) {
            node["default"] = default.clone();
        }
        put(&mut root, &key.path, node);
    }
    for key in keys::all() {
        let (shape, about) = match key.meaning {
            Meaning::Done(_) => continue,
            Meaning::NoEffect { shape, reason } => (shape, format!("No effect here: {reason}.")),
            Meaning::Refused { shape, expected, reason, .. } => {
                (shape, format!("Only {expected}: {reason}."))
            }
        };
        let mut node = nullable(&shape);
        node["description"] = about.into();
        put(&mut root, key.path, node);
    }
    name_gates(&mut root);
    add_old_names(&mut root);
    for (key, value) in [("apiVersion", keys::API_VERSION), ("kind", keys::KIND)] {
        root["properties"][key] = json!({ "const": value });
    }
    root["required"] = json!(["apiVersion", "kind"]);
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "Configuration of nodewarden: a KubeletConfiguration with the section nodewarden".into();
    root
}

/// A mapping without keys so far.
fn section() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

/// The schema of a value of this type; null is the same as absent.
fn nullable(shape: &Shape) -> Value {
    let own = of(shape);
    match own.get("type") {
        Some(Value::String(kind)) if kind == "null" => own,
        Some(Value::String(kind)) => {
            let mut own = own.clone();
            own["type"] = json!([kind, "null"]);
            own
        }
        _ => json!({ "anyOf": [own, { "type": "null" }] }),
    }
}

fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Switch => json!({ "type": "boolean" }),
        Shape::Integer { least, most } => {
            let mut own = json!({ "type": "integer" });
            if *least > i64::MIN {
                own["minimum"] = json!(least);
            }
            if *most < i64::MAX {
                own["maximum"] = json!(most);
            }
            own
        }
        Shape::Number => json!({ "type": "number" }),
        Shape::Text => json!({ "type": "string" }),
        Shape::OneOf { names, empty } => {
            let names = names.iter().copied().chain(empty.then_some(""));
            json!({ "enum": names.collect::<Vec<_>>() })
        }
        Shape::Duration => json!({ "type": "string", "pattern": DURATION }),
        Shape::Bytes { least, most } => json!({ "anyOf": [
            { "type": "integer", "minimum": least, "maximum": most },
            { "type": "string", "pattern": "^[0-9]+(Ki|Mi|Gi)?$" },
        ] }),
        Shape::List(each) => json!({ "type": "array", "items": of(each) }),
        Shape::Map(each) => json!({ "type": "object", "additionalProperties": of(each) }),
        Shape::Keys(keys) => {
            let mut own = section();
            for (name, shape) in *keys {
                own["properties"][*name] = nullable(shape);
            }
            own
        }
        Shape::Section => section(),
        Shape::Object => json!({ "type": "object" }),
        Shape::Nothing => json!({ "type": "null" }),
        Shape::AnyOf(shapes) => json!({ "anyOf": shapes.iter().map(of).collect::<Vec<_>>() }),
    }
}

/// Puts the schema of a key below that of the sections in its path.
fn put(root: &mut Value, path: &str, node: Value) {
    let mut target = root;
    for part in path.split('.') {
        target = &mut target["properties"][part];
    }
    *target = node;
}

/// The value at a path.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, part| value.get(part))
}

/// Lists the feature gates that are known; others are accepted too.
fn name_gates(root: &mut Value) {
    let gates = GATES.iter().map(|gate| {
        let about = match gate.meaning {
            GateMeaning::Done { about, .. } => format!("With it, {about}."),
            GateMeaning::NoEffect(reason) => format!("No effect here: {reason}."),
        };
        (gate.name.to_owned(), json!({ "type": "boolean", "description": about }))
    });
    root["properties"]["featureGates"]["properties"] = Value::Object(gates.collect::<Map<_, _>>());
}

/// Adds the names that keys had before; those of sections last, with all that is in them.
fn add_old_names(root: &mut Value) {
    for (path, old, new) in RENAMED.iter().rev() {
        let mut target = &mut root["properties"][SECTION];
        for part in *path {
            target = &mut target["properties"][*part];
        }
        let mut node = target["properties"][*new].clone();
        node["deprecated"] = true.into();
        node["description"] = format!("The old name of {new}.").into();
        target["properties"][*old] = node;
    }
}

#[cfg(test)]
pub(crate) mod tests;
