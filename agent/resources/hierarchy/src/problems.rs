//! Current problems of the hierarchy, and which of them are new.

use std::collections::BTreeMap;

/// Problems by subject: a path, `manifests`, `state`, `node`, `processes`.
#[derive(Debug, Default)]
pub struct Problems {
    now: BTreeMap<String, Vec<String>>,
    before: BTreeMap<String, Vec<String>>,
}

impl Problems {
    /// Starts a full round: problems that are not added again are over.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Starts a round for some subjects; the problems of the others stay.
    pub fn begin_some(&mut self, which: impl Fn(&str) -> bool) {
        self.before = self.now.clone();
        self.forget(which);
    }

    /// Drops the problems of subjects that are checked again in this round.
    pub fn forget(&mut self, which: impl Fn(&str) -> bool) {
        self.now.retain(|about, _| !which(about));
    }

    /// Adds a problem.
    pub fn add(&mut self, about: &str, problem: String) {
        let list = self.now.entry(about.to_owned()).or_default();
        if !list.contains(&problem) {
            list.push(problem);
        }
    }

    /// Whether the previous round had no problem on this subject.
    pub fn is_news(&self, about: &str) -> bool {
        !self.before.contains_key(about)
    }

    /// The problems on a subject, in one line; empty if there are none.
    pub fn about(&self, about: &str) -> String {
        self.now.get(about).map(|p| p.join("; ")).unwrap_or_default()
    }

    /// All problems except those whose subject satisfies `except`, for users.
    pub fn all_but(&self, except: impl Fn(&str) -> bool) -> Vec<String> {
        let general = ["manifests", "state", "node", "processes"];
        self.now
            .iter()
            .filter(|(about, _)| !except(about))
            .flat_map(|(about, list)| {
                list.iter().map(move |p| match general.contains(&about.as_str()) {
                    true => p.clone(),
                    false => format!("{about}: {p}"),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_new_only_once() {
        let mut problems = Problems::default();
        problems.begin();
        problems.add("/a", "x".into());
        assert!(problems.is_news("/a"));
        problems.begin();
        problems.add("/a", "x, again".into());
        assert!(!problems.is_news("/a"));
        assert_eq!(problems.about("/a"), "x, again");
        problems.begin();
        assert_eq!(problems.about("/a"), "");
        problems.begin();
        problems.add("/a", "x".into());
        assert!(problems.is_news("/a"));
        problems.add("state", "y".into());
        assert_eq!(problems.all_but(|_| false), ["/a: x", "y"]);
        assert_eq!(problems.all_but(|about| about == "/a"), ["y"]);
    }
}
