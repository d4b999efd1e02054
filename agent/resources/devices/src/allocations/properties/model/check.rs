//! What must hold after every step.

use super::*;

impl Model {
    /// Compares the allocations with the model.
    pub fn check(&mut self) {
        for pod in 0..PODS {
            self.check_pod(pod);
        }
        for resource in RESOURCES {
            for (id, pods) in self.allocated(resource) {
                assert!(pods.len() == 1, "{id} of {resource}: {pods:?}");
            }
            self.check_resource(resource);
        }
    }

    fn check_pod(&mut self, pod: usize) {
        let demand = demand(pod);
        let mut ours = BTreeMap::new();
        for (container, resources) in self.allocations.of_pod(&demand.uid) {
            for (resource, allocation) in resources {
                let key = (container.clone(), resource);
                ours.insert(key, (allocation.ids(), allocation.response.is_some()));
            }
        }
        assert_eq!(&ours, self.held.get(&demand.uid).unwrap_or(&BTreeMap::new()));
        let kind = |name: &str| demand.containers.iter().find(|c| c.name == name).unwrap().kind;
        for (key, (ids, _)) in &ours {
            assert!(ids.len() <= wanted(pod, key), "more than asked for");
            for (other, (others, _)) in ours.iter().filter(|(other, _)| other.1 == key.1 && other.0 != key.0)
            {
                if ids.is_disjoint(others) {
                    continue;
                }
                self.coverage.count("reused");
                let shares = kind(&key.0) == Init || kind(&other.0) == Init;
                assert!(shares, "{key:?} and {other:?} run together");
            }
        }
    }

    fn check_resource(&mut self, resource: &str) {
        let free = self.free(resource);
        let held = (0..DEVICES).map(id).filter(|id| !self.holders(resource, id).is_empty()).count();
        let states = self.allocations.resources();
        let state = states.iter().find(|state| state.name == resource);
        let Some(plugin) = self.plugins.get(resource) else { return assert!(state.is_none()) };
        let state = state.unwrap();
        let healths = self.healths(resource);
        let healthy = healths.values().filter(|health| **health == Health::Healthy).count();
        assert_eq!((state.capacity, state.allocatable), (plugin.list.len(), healthy));
        assert_eq!((state.allocated, state.away_since), (held, plugin.away));
        for device in &state.devices {
            assert_eq!(device.health, healths[&device.id]);
            assert_eq!(
                device.owner.as_ref().map(|owner| owner.0.clone()),
                self.holders(resource, &device.id).pop()
            );
            if device.owner.is_some() && plugin.listed && !plugin.list.contains_key(&device.id) {
                self.coverage.count("unlisted and held");
            }
        }
        // Exactly the free devices can be allocated, all of them.
        if plugin.listed {
            let probe = |n| {
                let wanted = [(resource.to_owned(), n)].into();
                let container = ContainerDemand { name: "c".to_owned(), kind: Regular, wanted };
                self.allocations.plan(&PodDemand { uid: "probe".to_owned(), containers: vec![container] })
            };
            assert!(probe(free.len()).is_ok());
            let Err(Refusal::Insufficient { free: reported, .. }) = probe(free.len() + 1) else {
                panic!("too many")
            };
            assert_eq!(reported, free.len());
        }
    }
}
