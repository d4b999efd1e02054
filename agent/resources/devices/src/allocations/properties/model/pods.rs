//! What happens to pods: planned, refused, reserved, committed, and given back the devices of init
//! containers.

use super::*;

impl Model {
    pub(super) fn plan(&mut self, pod: usize, answers: &[Vec<usize>], keep: bool) {
        let demand = demand(pod);
        match self.allocations.plan(&demand) {
            Ok(mut plan) => {
                let answered = |c: &ContainerDemand, r: &String, n: usize| {
                    let key = (c.name.clone(), r.clone());
                    let held = self.held.get(&demand.uid).and_then(|pod| pod.get(&key));
                    held.is_some_and(|held| held.1 && held.0.len() >= n)
                };
                let all = demand.containers.iter().all(|c| c.wanted.iter().all(|(r, n)| answered(c, r, *n)));
                assert_eq!(plan.is_empty(), all);
                for answer in answers {
                    let Some(question) = plan.question() else { break };
                    self.coverage.count("question");
                    let (available, must) = (&question.available, &question.must_include);
                    assert!(available.is_sorted() && must.iter().all(|id| available.contains(id)));
                    assert!(must.len() < question.size && question.size < available.len());
                    plan.choose(&answer.iter().map(|n| id(*n)).collect::<Vec<_>>());
                }
                if keep {
                    self.plans.push((pod, plan));
                } else {
                    self.reserve(pod, plan);
                }
            }
            Err(refusal) => self.refused(pod, &refusal),
        }
    }

    pub(super) fn refused(&mut self, pod: usize, refusal: &Refusal) {
        let plugin = self.plugins.get(refusal.resource());
        match refusal {
            Refusal::Unknown { resource } => {
                self.coverage.count("unknown");
                assert!(
                    plugin.is_none() && !(0..DEVICES).any(|n| !self.holders(resource, &id(n)).is_empty())
                );
            }
            Refusal::NotReady { .. } => {
                self.coverage.count("not ready");
                assert!(plugin.is_none_or(|p| p.away.is_some() || !p.listed));
            }
            Refusal::Insufficient { resource, wanted, free, capacity, unhealthy } => {
                self.coverage.count("insufficient");
                let plugin = plugin.unwrap();
                assert!(plugin.away.is_none() && plugin.listed && wanted > free);
                assert_eq!((*free, *capacity), (self.free(resource).len(), plugin.list.len()));
                assert_eq!(*unhealthy, plugin.list.values().filter(|healthy| !**healthy).count());
                let of = |c: &ContainerDemand| c.wanted.get(resource).copied().unwrap_or(0);
                assert!(*wanted <= demand(pod).containers.iter().map(of).sum());
            }
        }
    }

    pub(super) fn reserve(&mut self, pod: usize, plan: PodPlan) {
        let before = (self.allocations.checkpoint(), self.allocations.resources());
        let free: BTreeMap<_, _> = RESOURCES.iter().map(|name| (*name, self.free(name))).collect();
        match self.allocations.reserve(plan) {
            Ok(reservation) => {
                let uid = demand(pod).uid;
                assert!(self.open.iter().all(|open| open.0 != pod || open.2), "two reservations of {uid}");
                for request in reservation.requests() {
                    let key = (request.container.clone(), request.resource.clone());
                    let own = self.held.get(&uid).and_then(|pod| pod.get(&key)).map(|held| held.0.clone());
                    let own = own.unwrap_or_default();
                    assert_eq!(
                        request.devices.len(),
                        wanted(pod, &key).max(own.len()),
                        "as many as asked for"
                    );
                    assert!(request.devices.is_superset(&own), "the container keeps what it has");
                    let healthy = self.healths(&request.resource);
                    for id in request.devices.difference(&own) {
                        assert_eq!(healthy[id], Health::Healthy, "{id} is newly allocated");
                        let ours = self.held.get(&uid).is_some_and(|pod| {
                            pod.iter().any(|(key, held)| key.1 == request.resource && held.0.contains(id))
                        });
                        assert!(
                            ours || free[request.resource.as_str()].contains(id),
                            "{id} belongs to another pod"
                        );
                    }
                }
                self.open.push((pod, reservation, false));
            }
            Err(_) => self.coverage.count("conflict"),
        }
        assert_eq!((self.allocations.checkpoint(), self.allocations.resources()), before);
    }

    pub(super) fn close(&mut self, which: usize) -> Option<(usize, Reservation, bool)> {
        (!self.open.is_empty()).then(|| self.open.remove(which % self.open.len()))
    }

    pub(super) fn commit(&mut self, (pod, reservation, void): (usize, Reservation, bool), unanswered: u8) {
        let requests = reservation.requests();
        let (mut responses, mut held) = (BTreeMap::new(), BTreeMap::new());
        for (i, request) in requests.into_iter().enumerate() {
            let answers = unanswered >> (i % 8) & 1 == 0;
            let key = (request.container, request.resource);
            if answers {
                responses.insert(key.clone(), vec![i as u8]);
            } else {
                self.coverage.count("asked again");
            }
            held.insert(key, (request.devices, answers));
        }
        assert_eq!(self.allocations.commit(reservation, responses), !void);
        if void {
            return self.coverage.count("void");
        }
        self.coverage.count("committed");
        if !held.is_empty() {
            self.held.entry(demand(pod).uid).or_default().extend(held);
        }
    }

    pub(super) fn surplus(&mut self, pod: usize) {
        let demand = demand(pod);
        let init = |key: &Key| demand.containers.iter().any(|c| c.name == key.0 && c.kind == Init);
        let Some(held) = self.held.get_mut(&demand.uid) else {
            return assert!(!self.allocations.release_surplus(&demand));
        };
        let running: BTreeSet<_> = held
            .iter()
            .filter(|(key, _)| !init(key))
            .flat_map(|(key, (ids, _))| ids.iter().map(move |id| (key.1.clone(), id.clone())))
            .collect();
        let before = held.len();
        held.retain(|key, (ids, _)| {
            !init(key) || ids.iter().all(|id| running.contains(&(key.1.clone(), id.clone())))
        });
        let dropped = held.len() < before;
        if held.is_empty() {
            self.held.remove(&demand.uid);
        }
        if dropped {
            self.coverage.count("surplus");
        }
        assert_eq!(self.allocations.release_surplus(&demand), dropped);
    }
}
