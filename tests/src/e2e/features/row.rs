//! Turns what was found on a machine into the rows of the table of features by kernel.

use serde::Serialize;

/// Whether a feature works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum State {
    #[serde(rename = "works")]
    Works,
    /// A part of it is missing, or it is done in another way: the reason says which.
    #[serde(rename = "falls back")]
    FallsBack,
    #[serde(rename = "off")]
    Off,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub feature: String,
    pub state: State,
    pub reason: String,
}

/// A topic, as in the agent's status.
#[derive(Debug, Clone)]
pub struct Topic {
    pub name: String,
    /// `on`, `partial` or `off`.
    pub state: String,
    pub reason: String,
}

/// The version of cgroups that a controller is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    V1,
    V2,
}

/// The result of trying something, as a text for the reason.
pub type Tried = Result<String, String>;

/// A file of cgroup v2, and its replacement on v1.
#[derive(Debug, Clone)]
pub struct FileFound {
    pub name: &'static str,
    pub itself: Tried,
    /// The replacement, if there is one.
    pub instead: Option<String>,
}

/// What was found on the machine.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub topics: Vec<Topic>,
    /// `v1`, `hybrid` or `v2`.
    pub layout: String,
    pub controllers: Vec<(&'static str, Option<On>)>,
    pub files: Vec<FileFound>,
    /// Kinds of eBPF programs and other abilities of the kernel, by the feature's name.
    pub abilities: Vec<(&'static str, Tried)>,
}

/// The rows, in the order of the table.
pub fn rows(found: &Found) -> Vec<Row> {
    let layout = Row {
        feature: "cgroup layout".into(),
        state: if found.layout.is_empty() { State::Off } else { State::Works },
        reason: found.layout.clone(),
    };
    let topics = found.topics.iter().map(topic);
    let controllers = found.controllers.iter().map(|(name, on)| controller(name, *on));
    let files = found.files.iter().map(file);
    let abilities = found.abilities.iter().map(|(name, tried)| ability(name, tried));
    topics.chain([layout]).chain(controllers).chain(files).chain(abilities).collect()
}

fn topic(topic: &Topic) -> Row {
    let state = match topic.state.as_str() {
        "on" => State::Works,
        "partial" => State::FallsBack,
        _ => State::Off,
    };
    Row { feature: format!("eBPF topic {}", topic.name), state, reason: topic.reason.clone() }
}

fn controller(name: &str, on: Option<On>) -> Row {
    let (state, reason) = match on {
        Some(On::V2) => (State::Works, "cgroup v2"),
        Some(On::V1) => (State::Works, "cgroup v1"),
        None => (State::Off, "on no mounted hierarchy"),
    };
    Row { feature: format!("controller {name}"), state, reason: reason.into() }
}

fn file(found: &FileFound) -> Row {
    let (state, reason) = match (&found.itself, &found.instead) {
        (Ok(how), _) => (State::Works, how.clone()),
        (Err(why), Some(instead)) => (State::FallsBack, format!("{instead} ({why})")),
        (Err(why), None) => (State::Off, why.clone()),
    };
    Row { feature: found.name.into(), state, reason }
}

fn ability(name: &str, tried: &Tried) -> Row {
    let (state, reason) = match tried {
        Ok(how) => (State::Works, how.clone()),
        Err(why) => (State::Off, why.clone()),
    };
    Row { feature: name.into(), state, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_row_has_each_state() {
        use State::*;
        let topic_of = |state: &str, reason: &str| Topic {
            name: "cpu".into(),
            state: state.into(),
            reason: reason.into(),
        };
        let file_of = |itself: Result<&str, &str>, instead: Option<&str>| FileFound {
            name: "memory.peak",
            itself: itself.map(str::to_owned).map_err(str::to_owned),
            instead: instead.map(str::to_owned),
        };
        let table = [
            (topic(&topic_of("on", "")), ("eBPF topic cpu", Works, "")),
            (topic(&topic_of("partial", "no hook")), ("eBPF topic cpu", FallsBack, "no hook")),
            (topic(&topic_of("off", "no field")), ("eBPF topic cpu", Off, "no field")),
            (topic(&topic_of("what?", "new word")), ("eBPF topic cpu", Off, "new word")),
            (controller("io", Some(On::V2)), ("controller io", Works, "cgroup v2")),
            (controller("io", Some(On::V1)), ("controller io", Works, "cgroup v1")),
            (controller("io", None), ("controller io", Off, "on no mounted hierarchy")),
            (file(&file_of(Ok("read"), Some("other"))), ("memory.peak", Works, "read")),
            (file(&file_of(Err("none"), Some("other"))), ("memory.peak", FallsBack, "other (none)")),
            (file(&file_of(Err("none"), None)), ("memory.peak", Off, "none")),
            (ability("fentry", &Ok("ran 3 times".into())), ("fentry", Works, "ran 3 times")),
            (ability("fentry", &Err("load: EPERM".into())), ("fentry", Off, "load: EPERM")),
        ];
        for (row, (feature, state, reason)) in table {
            assert_eq!(row, Row { feature: feature.into(), state, reason: reason.into() });
        }
    }

    #[test]
    fn rows_come_in_the_order_of_the_table_and_serialize() {
        let found = Found {
            topics: vec![Topic { name: "oom".into(), state: "on".into(), reason: String::new() }],
            layout: "v2".into(),
            controllers: vec![("cpu", Some(On::V2)), ("hugetlb", None)],
            files: vec![],
            abilities: vec![("fentry", Err("refused".into()))],
        };
        let lines: Vec<_> = rows(&found).iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        assert_eq!(
            lines,
            [
                r#"{"feature":"eBPF topic oom","state":"works","reason":""}"#,
                r#"{"feature":"cgroup layout","state":"works","reason":"v2"}"#,
                r#"{"feature":"controller cpu","state":"works","reason":"cgroup v2"}"#,
                r#"{"feature":"controller hugetlb","state":"off","reason":"on no mounted hierarchy"}"#,
                r#"{"feature":"fentry","state":"off","reason":"refused"}"#,
            ]
        );
    }
}
