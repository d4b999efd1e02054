//! What plugins do: register, list devices, stop, and stay away until their resource is dropped.

use super::*;

impl Model {
    pub(super) fn register(&mut self, resource: &str) {
        self.generations += 1;
        self.allocations.register(resource, self.generations);
        let plugin = self.plugins.entry(resource.to_owned()).or_default();
        plugin.generation = Some(self.generations);
        plugin.away = None;
        plugin.listed = false;
    }

    /// The generation that sends, and whether it is the current one.
    pub(super) fn sender(&self, resource: &str, stale: bool) -> (u64, bool) {
        let plugin = self.plugins.get(resource);
        let newest = plugin.and_then(|p| p.generation);
        let generation = newest.unwrap_or(1) - u64::from(stale && newest.is_some());
        (generation, newest == Some(generation) && plugin.is_some_and(|p| p.away.is_none()))
    }

    pub(super) fn devices(&mut self, resource: &str, stale: bool, list: &[Listing]) {
        let (generation, current) = self.sender(resource, stale);
        let device = |line: &Listing| Device {
            id: id(line.id),
            health: if line.healthy { Health::Healthy } else { Health::Unhealthy },
            numa: (0..2).filter(|node| line.numa >> node & 1 == 1).collect(),
        };
        let before = self.healths(resource);
        let changes = self.allocations.devices(resource, generation, list.iter().map(device).collect());
        if current {
            let plugin = self.plugins.get_mut(resource).unwrap();
            plugin.list.clear();
            for line in list.iter().filter(|line| line.id < DEVICES) {
                let healthy = plugin.list.entry(id(line.id)).or_insert(true);
                *healthy &= line.healthy;
            }
            (plugin.listed, plugin.known) = (true, true);
        }
        self.check_report(resource, &changes, &before);
    }

    pub(super) fn stopped(&mut self, resource: &str, stale: bool) {
        let (generation, current) = self.sender(resource, stale);
        let before = self.healths(resource);
        let changes = self.allocations.stopped(resource, generation, self.now);
        assert_eq!(changes.changed, current);
        if current {
            let plugin = self.plugins.get_mut(resource).unwrap();
            (plugin.away, plugin.listed, plugin.known) = (Some(self.now), false, false);
        }
        self.check_report(resource, &changes, &before);
    }

    /// Checks that exactly the changes of health are reported, with the pod that has the device.
    pub(super) fn check_report(&self, resource: &str, changes: &Changes, before: &BTreeMap<String, Health>) {
        let after = self.healths(resource);
        let differ = after.iter().filter(|(id, health)| before[*id] != **health).map(|(id, _)| id);
        assert!(changes.health.iter().map(|change| &change.id).eq(differ));
        for change in &changes.health {
            assert_eq!((change.before, change.after), (before[&change.id], after[&change.id]));
            let owner = change.owner.as_ref().map(|(uid, _)| uid.clone());
            assert_eq!(owner, self.holders(resource, &change.id).pop());
        }
    }

    pub(super) fn healths(&self, resource: &str) -> BTreeMap<String, Health> {
        let health =
            |id: &String| match self.plugins.get(resource).filter(|p| p.known).and_then(|p| p.list.get(id)) {
                None => Health::Unknown,
                Some(true) => Health::Healthy,
                Some(false) => Health::Unhealthy,
            };
        (0..DEVICES).map(id).map(|id| (id.clone(), health(&id))).collect()
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time;
        let over = |plugin: &Plugin| plugin.away.is_some_and(|away| away + GRACE <= self.now);
        let gone: Vec<_> =
            self.plugins.iter().filter(|(_, p)| over(p)).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| drop(self.plugins.remove(name)));
        if !gone.is_empty() {
            self.coverage.count("dropped resource");
        }
        assert_eq!(self.allocations.expire(self.now), gone);
    }
}
