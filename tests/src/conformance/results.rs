//! The results of a node, kept over runs of parts of the suite.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ConformanceError;
use super::junit::{Case, Outcome};

/// The newest result of every test that was ever run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// By the test's name.
    pub tests: BTreeMap<String, Test>,
}

/// The newest result of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Test {
    pub passed: bool,
    /// It found that it cannot run here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    pub seconds: f64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Results {
    /// Those in a directory; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(directory: &Path, node: &str) -> Result<Self, ConformanceError> {
        let path = path(directory, node);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| ConformanceError::File { path, source: source.into() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConformanceError::File { path, source }),
        }
    }

    /// Writes them into a directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, directory: &Path, node: &str) -> Result<(), ConformanceError> {
        let path = path(directory, node);
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::from);
        text.and_then(|text| std::fs::write(&path, text))
            .map_err(|source| ConformanceError::File { path, source })
    }

    /// Takes in a run: each of its tests replaces what was known of it.
    pub fn add(&mut self, cases: &[Case]) {
        for case in cases {
            let message = match &case.outcome {
                Outcome::Failed(message) => message.clone(),
                _ => String::new(),
            };
            let test = Test {
                passed: case.outcome == Outcome::Passed,
                skipped: case.outcome == Outcome::Skipped,
                seconds: case.seconds,
                message,
            };
            self.tests.insert(case.name.clone(), test);
        }
    }
}

fn path(directory: &Path, node: &str) -> PathBuf {
    directory.join(format!("{node}-results.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, outcome: Outcome) -> Case {
        Case { name: name.to_owned(), seconds: 1.0, outcome }
    }

    #[test]
    fn a_later_run_replaces_only_what_it_ran() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::load(folder.path(), "kubelet").unwrap();
        results.add(&[case("a", Outcome::Failed("why".into())), case("b", Outcome::Passed)]);
        results.save(folder.path(), "kubelet").unwrap();
        let mut results = Results::load(folder.path(), "kubelet").unwrap();
        assert_eq!(results.tests["a"].message, "why");
        results.add(&[case("a", Outcome::Passed), case("c", Outcome::Skipped)]);
        let passed: Vec<bool> = results.tests.values().map(|test| test.passed).collect();
        assert_eq!(passed, [true, true, false]);
        assert!(results.tests["c"].skipped);
    }
}
