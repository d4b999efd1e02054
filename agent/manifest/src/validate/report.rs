//! Collects problems and has the checks that many fields share.

use super::{PodKind, Problem};

/// The problems found so far.
#[derive(Debug)]
pub(super) struct Report {
    kind: PodKind,
    problems: Vec<Problem>,
}

impl Report {
    /// No problems of a pod of this kind.
    pub(super) fn of(kind: PodKind) -> Self {
        Self { kind, problems: Vec::new() }
    }

    /// Whether the pod may name objects of an API server.
    pub(super) fn is_api(&self) -> bool {
        self.kind == PodKind::Api
    }

    /// Adds a problem if a static pod names this object of an API server.
    pub(super) fn object(&mut self, field: impl Into<String>, name: &str, kind: &str) {
        if !self.is_api() {
            let expected = format!(
                "must not be set: a static pod may not reference {kind}, an object of the API server"
            );
            self.add(field, name, expected);
        }
    }

    pub(super) fn add(
        &mut self,
        field: impl Into<String>,
        value: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.problems.push(Problem::new(field, value, expected));
    }

    pub(super) fn required(&mut self, field: impl Into<String>) {
        self.add(field, "", "is required");
    }

    /// Adds a problem if the value is set and is not one of `words`.
    pub(super) fn word(&mut self, field: impl Into<String>, value: Option<&str>, words: &[&str]) {
        if let Some(value) = value.filter(|value| !words.contains(value)) {
            let known = words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(", ");
            self.add(field, value, format!("must be one of {known}"));
        }
    }

    /// Adds a problem if the value is set and is not within bounds.
    pub(super) fn number(&mut self, field: impl Into<String>, value: Option<i64>, least: i64, most: i64) {
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            self.add(field, value.to_string(), format!("must be {least} to {most}"));
        }
    }

    /// Adds a problem if the path is absolute or contains `..` (`validateLocalDescendingPath`).
    pub(super) fn descending(&mut self, field: &str, path: &str) {
        if path.starts_with('/') {
            self.add(field, path, "must be a relative path");
        }
        self.no_steps_up(field, path);
    }

    pub(super) fn no_steps_up(&mut self, field: &str, path: &str) {
        if path.split('/').any(|part| part == "..") {
            self.add(field, path, "must not contain '..'");
        }
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }
}
