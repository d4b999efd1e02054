//! On which CPUs every running container is, as the runtime was asked, so that those that should be on others
//! are moved: a value without side effects (kubelet `cpumanager.reconcileState`).

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;

/// Pod uid and container name.
pub(crate) type Key = (String, String);

/// A running container that should be on other CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpusetUpdate {
    /// Uid of the pod.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// Its id at the runtime.
    pub id: String,
    /// The CPUs that it should be on.
    pub cpus: CpuSet,
}

/// One running container.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    id: String,
    /// As the runtime was asked last; `None` while that is not known.
    cpus: Option<CpuSet>,
}

/// The running containers.
#[derive(Debug, Default)]
pub(crate) struct RunningContainers(BTreeMap<Key, Running>);

impl RunningContainers {
    /// Takes over which containers of a pod run: name and id. Returns whether one is new or has ended.
    pub fn saw<'a>(&mut self, uid: &str, running: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        let before = self.0.len();
        let running: BTreeMap<&str, &str> = running.collect();
        self.0.retain(|(pod, name), own| pod != uid || running.get(name.as_str()) == Some(&own.id.as_str()));
        let mut changed = self.0.len() != before;
        for (name, id) in running {
            let key = (uid.to_owned(), name.to_owned());
            self.0.entry(key).or_insert_with(|| {
                changed = true;
                Running { id: id.to_owned(), cpus: None }
            });
        }
        changed
    }

    /// A container was created on these CPUs, or moved to them.
    pub fn is_on(&mut self, uid: &str, container: &str, id: &str, cpus: CpuSet) {
        let key = (uid.to_owned(), container.to_owned());
        self.0.insert(key, Running { id: id.to_owned(), cpus: Some(cpus) });
    }

    /// A container has ended, or is not there.
    pub fn ended(&mut self, uid: &str, container: &str, id: &str) {
        let key = (uid.to_owned(), container.to_owned());
        if self.0.get(&key).is_some_and(|own| own.id == id) {
            self.0.remove(&key);
        }
    }

    /// Nothing of the pod runs any more.
    pub fn forget(&mut self, uid: &str) {
        self.0.retain(|(pod, _), _| pod != uid);
    }

    /// The containers that should be on other CPUs than they are. `wanted`: by pod uid and container; `None`:
    /// it does not matter.
    pub fn due(&self, wanted: impl Fn(&str, &str) -> Option<CpuSet>) -> Vec<CpusetUpdate> {
        let due = self.0.iter().filter_map(|((uid, container), own)| {
            let cpus = wanted(uid, container).filter(|cpus| own.cpus.as_ref() != Some(cpus))?;
            Some(CpusetUpdate { uid: uid.clone(), container: container.clone(), id: own.id.clone(), cpus })
        });
        due.collect()
    }

    /// Whether a container of another pod is on one of these CPUs, or may be.
    pub fn is_taken(&self, uid: &str, cpus: &CpuSet) -> bool {
        let others = self.0.iter().filter(|((pod, _), _)| pod != uid);
        others.map(|(_, own)| &own.cpus).any(|own| own.as_ref().is_none_or(|own| !own.is_disjoint(cpus)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse(list).unwrap()
    }

    #[test]
    fn containers_are_due_until_they_are_on_their_cpus() {
        let mut running = RunningContainers::default();
        assert!(running.saw("p", [("a", "1"), ("b", "2")].into_iter()));
        assert!(!running.saw("p", [("a", "1"), ("b", "2")].into_iter()), "nothing is new");
        let wanted = |_: &str, name: &str| (name == "a").then(|| cpus("0"));
        let due = running.due(wanted);
        assert_eq!(
            due.iter().map(|own| (own.id.as_str(), own.cpus.to_string())).collect::<Vec<_>>(),
            [("1", "0".to_owned())]
        );
        running.is_on("p", "a", "1", cpus("0"));
        assert_eq!(running.due(wanted), []);
        // A restarted container has another id, and nothing is known of it.
        assert!(running.saw("p", [("a", "3"), ("b", "2")].into_iter()));
        assert_eq!(running.due(wanted)[0].id, "3");
    }

    #[test]
    fn cpus_are_taken_by_other_pods_that_are_or_may_be_on_them() {
        let mut running = RunningContainers::default();
        running.is_on("p", "a", "1", cpus("0-1"));
        assert!(running.is_taken("q", &cpus("1")) && !running.is_taken("q", &cpus("2")));
        assert!(!running.is_taken("p", &cpus("1")), "its own pod does not count");
        assert!(running.saw("r", [("c", "9")].into_iter()));
        assert!(running.is_taken("q", &cpus("2")), "it is not known where r runs");
        running.ended("r", "c", "8");
        assert!(running.is_taken("q", &cpus("2")), "another container ended");
        running.ended("r", "c", "9");
        assert!(running.saw("p", std::iter::empty()));
        assert!(!running.is_taken("q", &cpus("0-2")));
    }
}
