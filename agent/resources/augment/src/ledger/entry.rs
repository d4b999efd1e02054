//! What the ledger keeps of each value, and what follows from what is found in its place. Pure.

use serde::{Deserialize, Serialize};

use crate::wanted::{Companion, Feature, Place};

/// A value that was, or was about to be, written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Where.
    pub place: Place,
    /// Which cgroup or process of that name: the kernel's id of the cgroup, or when the process started.
    pub identity: u64,
    /// For which feature.
    pub feature: Feature,
    /// The uid of the pod; empty for a daemon.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// What stood there before.
    pub old: String,
    /// What may stand there by us: the value that was there before the last write, and the one of the last
    /// write.
    pub new: Vec<String>,
    /// The file that the kernel changes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub companion: Option<Companion>,
}

/// What is to be done to have a value in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It stands there already.
    Nothing,
    /// This entry is recorded, then the value is written.
    Write(Box<Entry>),
    /// Another program has written since: nothing is written, and the entry is given up.
    LeftAlone,
}

/// What is to be done to put a value back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// The value is written, then the companion where there is one.
    Restore,
    /// The value stands there; only the kernel's companion is written.
    RestoreCompanion,
    /// Nothing is left to do.
    Nothing,
    /// Another program has written since: it stays as it is.
    LeftAlone,
}

impl Entry {
    /// The value of the last write.
    pub fn value(&self) -> &str {
        self.new.last().map_or(&self.old, |value| value)
    }

    /// Whether what is found there is ours.
    fn is_ours(&self, found: &str) -> bool {
        self.new.iter().any(|own| own == found)
    }

    /// What follows from finding this there when `value` is wanted and this entry is known.
    pub fn next(&self, found: &str, value: &str) -> Step {
        if !self.is_ours(found) {
            return Step::LeftAlone;
        }
        if found == value {
            return Step::Nothing;
        }
        let new = vec![found.to_owned(), value.to_owned()];
        Step::Write(Box::new(Self { new, ..self.clone() }))
    }

    /// What follows from finding this there, and that in the companion, when everything is put back.
    pub fn back(&self, found: &str, companion: Option<&str>) -> Back {
        if found == self.old {
            let left = self.companion.as_ref().is_some_and(|own| companion == Some(&own.left));
            let differs = self.companion.as_ref().is_some_and(|own| own.left != own.old);
            return if left && differs { Back::RestoreCompanion } else { Back::Nothing };
        }
        if self.is_ours(found) { Back::Restore } else { Back::LeftAlone }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn entry(old: &str, new: &[&str]) -> Entry {
        Entry {
            place: Place::new(Path::new("/c"), "cpu.idle"),
            identity: 7,
            feature: Feature::CpuIdle,
            pod: "u".into(),
            old: old.into(),
            new: new.iter().map(ToString::to_string).collect(),
            companion: None,
        }
    }

    #[test]
    fn a_value_that_somebody_else_wrote_is_left_alone() {
        let own = entry("max", &["100", "200"]);
        assert_eq!(own.next("200", "200"), Step::Nothing);
        assert_eq!(own.next("150", "300"), Step::LeftAlone);
        assert_eq!(own.next("max", "300"), Step::LeftAlone, "another program has put it back");
        let Step::Write(next) = own.next("200", "300") else { panic!("it is written") };
        assert_eq!((&*next.old, &*next.new), ("max", &["200".to_owned(), "300".into()][..]));
        assert_eq!(own.back("150", None), Back::LeftAlone);
        assert_eq!(own.back("100", None), Back::Restore, "the last write was not made");
        assert_eq!(own.back("200", None), Back::Restore);
        assert_eq!(own.back("max", None), Back::Nothing);
    }

    #[test]
    fn a_companion_is_put_back_unless_somebody_else_wrote_it() {
        let mut own = entry("0", &["1"]);
        own.companion = Some(Companion { file: "cpu.weight".into(), old: "1".into(), left: "100".into() });
        assert_eq!(own.back("1", Some("0")), Back::Restore);
        assert_eq!(own.back("0", Some("100")), Back::RestoreCompanion, "the end came between the two writes");
        assert_eq!(own.back("0", Some("1")), Back::Nothing);
        assert_eq!(own.back("0", Some("79")), Back::Nothing, "another program has written it");
        assert_eq!(own.back("0", None), Back::Nothing, "it is gone");
    }
}
