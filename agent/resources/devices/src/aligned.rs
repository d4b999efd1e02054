//! The devices of a pod as one provider of the topology manager.
//!
//! Plugins have preferences and must be asked for them, which takes time, while the topology manager decides
//! at once. So a provider that needs an answer which it does not have fails with the question
//! ([`DeviceProvider::question`]); the caller asks and decides again with the answer.

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_manifest::{Container, Pod};
use nodewarden_topology::{AllocateError, Allocated, Hint, Hints, NodeSet, Provider};

use crate::PodDemand;
use crate::allocations::{PodPlan, Question};

/// What plugins have answered to questions.
#[derive(Debug, Clone, Default)]
pub struct Preferences(Vec<(Question, Vec<String>)>);

impl Preferences {
    /// Adds an answer.
    pub fn add(&mut self, question: Question, preferred: Vec<String>) {
        self.0.push((question, preferred));
    }

    fn get(&self, question: &Question) -> Option<&[String]> {
        let known = self.0.iter().find(|(known, _)| known == question);
        known.map(|(_, preferred)| preferred.as_slice())
    }
}

/// Chooses the devices of one pod by NUMA nodes. Nothing is reserved before
/// [`Devices::admit_chosen`](crate::Devices::admit_chosen).
#[derive(Debug)]
pub struct DeviceProvider {
    plan: PodPlan,
    demand: PodDemand,
    /// The machine's NUMA nodes.
    all: NodeSet,
    /// Resources whose plugins have preferences.
    asked: BTreeSet<String>,
    known: Preferences,
    question: Option<Question>,
}

impl DeviceProvider {
    pub(crate) fn new(
        plan: PodPlan,
        demand: PodDemand,
        all: NodeSet,
        asked: BTreeSet<String>,
        known: Preferences,
    ) -> Self {
        Self { plan, demand, all, asked, known, question: None }
    }

    /// What a plugin has to be asked before devices can be chosen, after an allocation has failed for that.
    pub fn question(&mut self) -> Option<Question> {
        self.question.take()
    }

    pub(crate) fn into_plan(self) -> (PodPlan, PodDemand) {
        (self.plan, self.demand)
    }

    fn wanted(&self, container: &str) -> Option<&BTreeMap<String, usize>> {
        self.demand.containers.iter().find(|own| own.name == container).map(|own| &own.wanted)
    }
}

impl Provider for DeviceProvider {
    fn container_hints(&mut self, _pod: &Pod, container: &Container) -> Hints {
        let wanted = self.wanted(&container.name);
        wanted.map(|wanted| self.plan.hints(&container.name, wanted, self.all)).unwrap_or_default()
    }

    /// The kubelet's `getPodDeviceRequest`: what the containers have at most at one time.
    fn pod_hints(&mut self, pod: &Pod) -> Hints {
        let limits = pod.limits();
        let resources: BTreeSet<&String> =
            self.demand.containers.iter().flat_map(|own| own.wanted.keys()).collect();
        let wanted = resources.into_iter().filter_map(|resource| {
            let amount = limits.get(resource).and_then(|amount| usize::try_from(amount.value()).ok());
            Some((resource.clone(), amount.filter(|amount| *amount > 0)?))
        });
        self.plan.pod_hints(&wanted.collect(), self.all)
    }

    fn allocate(
        &mut self,
        _pod: &Pod,
        container: &Container,
        affinity: Hint,
    ) -> Result<Allocated, AllocateError> {
        if self.wanted(&container.name).is_none() {
            return Ok(Allocated::Unchanged);
        }
        self.plan.begin(&container.name, affinity.affinity);
        while let Some(question) = self.plan.question() {
            let preferred = match self.known.get(&question) {
                Some(preferred) => preferred.to_vec(),
                None if !self.asked.contains(&question.resource) => Vec::new(),
                None => {
                    let message = format!("the plugin of {} is asked for its preference", question.resource);
                    self.question = Some(question);
                    return Err(AllocateError { reason: None, message });
                }
            };
            self.plan.choose(&preferred);
        }
        Ok(Allocated::Given)
    }

    fn allocate_pod(&mut self, pod: &Pod, affinity: Hint) -> Result<Allocated, AllocateError> {
        for container in pod.init_containers.iter().chain(&pod.containers) {
            self.allocate(pod, container, affinity)?;
        }
        Ok(Allocated::Given)
    }

    /// Nothing to do: nothing is reserved yet.
    fn release(&mut self, _pod_uid: &str, _container: &str) {}
}
