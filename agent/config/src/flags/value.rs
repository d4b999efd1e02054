//! From the text of a flag to the value that its key has in the file.

use serde_yaml_ng::{Mapping, Value};

use crate::kubernetes::Taint;

/// How the value of a flag is written (the types of pflag and of k8s.io/component-base/cli/flag).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The text itself.
    Text,
    /// A name, which is made lower case.
    Name,
    /// `true` or `false`; `true` without a value.
    Switch,
    /// A whole number.
    Number,
    /// A list with commas; the flag may be repeated.
    List,
    /// `name=value` with commas; the flag may be repeated.
    Map,
    /// `name<value` with commas, as eviction thresholds are written.
    Thresholds,
    /// `name=true` with commas.
    Gates,
    /// `key=value:effect` with commas.
    Taints,
    /// `name:value` with commas; the flag and names may be repeated.
    Headers,
    /// `node:type=amount,type=amount` with semicolons; the flag may be repeated.
    MemoryByNode,
}

const MEMORY_BY_NODE: &str =
    "a NUMA node's number and amounts like 0:memory=1Gi,hugepages-2Mi=4Mi, with ; between several";

impl Form {
    /// The value; several texts are those of a repeated flag. The error says what is expected.
    pub fn read(self, texts: &[String]) -> Result<Value, &'static str> {
        let last = texts.last().map_or("", String::as_str);
        match self {
            Self::Text => Ok(last.into()),
            Self::Name => Ok(last.trim().to_lowercase().into()),
            Self::Switch => switch(last).map(Value::from).ok_or("true or false"),
            Self::Number => last.trim().parse::<i64>().map(Value::from).map_err(|_| "a whole number"),
            Self::List => Ok(parts(texts).map(Value::from).collect::<Vec<_>>().into()),
            Self::Map => map(texts, '=').ok_or("name=value, with commas between several"),
            Self::Thresholds => map(texts, '<').ok_or("signal<amount, with commas between several"),
            Self::Gates => {
                let gate = |part: &str| {
                    let (name, on) = part.split_once('=')?;
                    Some((Value::from(name.trim()), Value::from(switch(on.trim())?)))
                };
                let gates: Option<Mapping> = parts(texts).map(gate).collect();
                gates.map(Value::from).ok_or("name=true or name=false, with commas between several")
            }
            Self::Headers => headers(texts).ok_or("name:value, with commas between several"),
            Self::MemoryByNode => memory_by_node(texts).ok_or(MEMORY_BY_NODE),
            Self::Taints => {
                let taints: Option<Vec<Value>> =
                    parts(texts).map(|part| Taint::parse(part).map(|taint| taint.to_value())).collect();
                taints.map(Value::from).ok_or("key=value:effect, with commas between several")
            }
        }
    }
}

/// What Go's strconv.ParseBool takes.
fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The parts between commas, without empty ones.
fn parts(texts: &[String]) -> impl Iterator<Item = &str> {
    texts.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|part| !part.is_empty())
}

fn map(texts: &[String], separator: char) -> Option<Value> {
    let pair = |part: &str| {
        let (name, value) = part.split_once(separator)?;
        Some((Value::from(name.trim()), Value::from(value.trim())))
    };
    parts(texts).map(pair).collect::<Option<Mapping>>().map(Value::from)
}

/// As ColonSeparatedMultimapStringString of k8s.io/component-base/cli/flag: the values of each name in their
/// order.
fn headers(texts: &[String]) -> Option<Value> {
    let mut all = Mapping::new();
    for part in parts(texts) {
        let (name, value) = part.split_once(':')?;
        let values = all.entry(name.trim().into()).or_insert_with(|| Value::Sequence(Vec::new()));
        values.as_sequence_mut()?.push(value.trim().into());
    }
    Some(all.into())
}

/// As ReservedMemoryVar of pkg/util/flag: a list of `numaNode` and `limits`, as in the file. Types and
/// amounts are checked there.
fn memory_by_node(texts: &[String]) -> Option<Value> {
    let node = |text: &str| {
        let (node, limits) = text.split_once(':')?;
        let node: u32 = node.trim().parse().ok()?;
        let mut amounts = Mapping::new();
        for limit in limits.split(',') {
            let (kind, amount) = limit.split_once('=')?;
            amounts.insert(kind.trim().into(), amount.trim().into());
        }
        let pairs = [("numaNode".into(), node.into()), ("limits".into(), amounts.into())];
        Some(Value::from(Mapping::from_iter(pairs)))
    };
    let given = texts.iter().filter(|text| !text.is_empty());
    let nodes: Option<Vec<Value>> = given.flat_map(|text| text.split(';')).map(node).collect();
    nodes.map(Value::from)
}
