//! What is wrong now, and whether that is news.

use std::collections::BTreeMap;

/// Problems by what they are about: a path, `manifests`, `state`, `node`.
#[derive(Debug, Default)]
pub struct Problems {
    now: BTreeMap<String, Vec<String>>,
    before: BTreeMap<String, Vec<String>>,
}

impl Problems {
    /// A new round: what is not added again is over.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// A new round for some of them alone.
    pub fn begin_some(&mut self, which: impl Fn(&str) -> bool) {
        self.before = self.now.clone();
        self.forget(which);
    }

    /// These are looked at again in this round.
    pub fn forget(&mut self, which: impl Fn(&str) -> bool) {
        self.now.retain(|about, _| !which(about));
    }

    /// Notes a problem.
    pub fn add(&mut self, about: &str, problem: String) {
        let list = self.now.entry(about.to_owned()).or_default();
        if !list.contains(&problem) {
            list.push(problem);
        }
    }

    /// Whether the round before had none about the same.
    pub fn is_news(&self, about: &str) -> bool {
        !self.before.contains_key(about)
    }

    /// What is wrong about `about`, in one line; empty when nothing is.
    pub fn about(&self, about: &str) -> String {
        self.now.get(about).map(|p| p.join("; ")).unwrap_or_default()
    }

    /// All but those about something in `except`.
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
    fn news_only_once() {
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
