//! The containers that a full reconcile saw.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Containers by the path of their pod's cgroup.
#[derive(Debug, Default)]
pub struct SeenContainers(BTreeMap<Arc<str>, Names>);

/// Names of directories in one text, since there are a few thousand of them: each has a slash after it, which
/// is in no name.
#[derive(Debug)]
struct Names(Box<str>);

impl SeenContainers {
    /// Whether the pod had a container of this name.
    pub fn contains(&self, pod: &str, name: &str) -> bool {
        self.names(pod).any(|own| own == name)
    }

    /// The names of the pod's containers.
    pub fn names<'a>(&'a self, pod: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.get(pod).into_iter().flat_map(|names| names.0.split_terminator('/'))
    }

    /// Replaces the names of a pod's containers.
    pub fn set<'a>(&mut self, pod: &Arc<str>, names: impl IntoIterator<Item = &'a String>) {
        let text: String = names.into_iter().flat_map(|name| [name, "/"]).collect();
        if text.is_empty() {
            self.0.remove(pod);
        } else {
            self.0.insert(pod.clone(), Names(text.into()));
        }
    }

    /// Forgets the other pods.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.0.retain(|pod, _| is_wanted(pod));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_below_their_own_pod() {
        let mut seen = SeenContainers::default();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let [one, ten]: [Arc<str>; 2] = ["/k/pod1", "/k/pod10"].map(Arc::from);
        seen.set(&one, &names(&["a", "b"]));
        seen.set(&ten, &names(&["c"]));
        assert_eq!(seen.names("/k/pod1").collect::<Vec<_>>(), ["a", "b"]);
        assert!(seen.contains("/k/pod10", "c") && !seen.contains("/k/pod1", "c"));
        assert_eq!(seen.names("/k/pod3").count(), 0);
        seen.set(&one, &names(&["d"]));
        assert_eq!(seen.names("/k/pod1").collect::<Vec<_>>(), ["d"]);
        seen.set(&one, &[]);
        seen.retain(|pod| pod == "/k/pod1");
        assert!(seen.0.is_empty());
    }
}
