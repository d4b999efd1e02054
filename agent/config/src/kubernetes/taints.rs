//! `registerWithTaints`: the taints with which the node is registered.

use nodewarden_manifest::names::is_label;
use serde_yaml_ng::{Mapping, Value};

use crate::fields::{Fields, shown};
use crate::shape::Shape;
use crate::show::pair;

const KEY: &str = "registerWithTaints";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const FIELDS: &[(&str, Shape)] = &[
    ("key", Shape::Text),
    ("value", Shape::Text),
    ("effect", Shape::OneOf { names: EFFECTS, empty: false }),
    // As in a kubelet, the key is known and may have no value.
    ("timeAdded", Shape::Nothing),
];
const TAINT: Shape = Shape::Keys(FIELDS);

/// A taint of the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Its key, a qualified name.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::EnumString, strum::IntoStaticStr)]
pub enum TaintEffect {
    /// They are not scheduled to the node.
    NoSchedule,
    /// The scheduler avoids the node for them.
    PreferNoSchedule,
    /// They are not scheduled to the node, and those that run there are evicted.
    NoExecute,
}

impl Taint {
    /// Reads `key=value:effect`, `key:effect` (ParseTaints of k8s.io/kubernetes/pkg/util/taints).
    pub fn parse(text: &str) -> Option<Self> {
        let (name, effect) = text.rsplit_once(':')?;
        let (key, value) = name.split_once('=').unwrap_or((name, ""));
        Self::of(key, value, effect)
    }

    fn of(key: &str, value: &str, effect: &str) -> Option<Self> {
        let effect = effect.parse().ok()?;
        is_label(key, value).then(|| Self { key: key.to_owned(), value: value.to_owned(), effect })
    }

    fn of_value(value: &Value) -> Option<Self> {
        let map = value.as_mapping()?;
        if map.keys().any(|key| !FIELDS.iter().any(|(known, _)| key == known)) {
            return None;
        }
        if map.get("timeAdded").is_some_and(|time| !time.is_null()) {
            return None;
        }
        let text = |key: &str| match map.get(key) {
            None | Some(Value::Null) => Some(""),
            Some(value) => value.as_str(),
        };
        Self::of(text("key")?, text("value")?, text("effect")?)
    }

    pub(crate) fn to_value(&self) -> Value {
        let effect: &'static str = self.effect.into();
        let map: Mapping = [("key", &*self.key), ("value", &*self.value), ("effect", effect)]
            .into_iter()
            .map(|(key, value)| pair(key, value))
            .collect();
        map.into()
    }
}

/// Reads the key; two taints of the same key and effect are refused.
pub(super) fn take(top: &mut Fields<'_>) -> Vec<Taint> {
    let list = top.list(KEY, &TAINT, "a list of taints");
    let mut taints: Vec<Taint> = Vec::new();
    for (i, entry) in list.iter().enumerate() {
        let field = format!("{KEY}[{i}]");
        match Taint::of_value(entry) {
            None => top.refuse(
                &field,
                &shown(entry),
                "key, value and effect, which is NoSchedule, PreferNoSchedule or NoExecute",
            ),
            Some(taint) if taints.iter().any(|t| t.key == taint.key && t.effect == taint.effect) => {
                top.refuse(&field, &taint.key, "each key with an effect once");
            }
            Some(taint) => taints.push(taint),
        }
    }
    taints
}
