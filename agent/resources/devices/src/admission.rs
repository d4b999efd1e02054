//! Admission: a pod gets all the devices that it asks for, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use nodewarden_metrics::Own;
use nodewarden_topology::NodeSet;
use prost::Message;
use tracing::warn;

use crate::aligned::{DeviceProvider, Preferences};
use crate::allocations::{PodPlan, Question, Request, Reservation};
use crate::manager::{Devices, Inner};
use crate::plugin::Plugin;
use crate::{AdmissionError, PodDemand, Refusal};

/// How often a plan is made again after other pods took devices of it. Then the devices are chosen and
/// reserved under one lock, without asking plugins for preferences.
const TRIES: usize = 3;

/// The first step of a pod's allocation.
enum Planned {
    /// The pod has all its devices already.
    Complete,
    /// The devices are chosen and reserved.
    Reserved(Reservation),
    /// A plugin has to be asked for its preference first.
    Ask(PodPlan),
}

/// A reservation that is cancelled when it is dropped.
struct ReservationGuard<'d> {
    devices: &'d Inner,
    reservation: Option<Reservation>,
}

impl Drop for ReservationGuard<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.devices.lock().allocations.cancel(reservation);
            self.devices.save_and_notify();
        }
    }
}

/// The devices that a pod has just got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The devices, as text for people.
    pub description: String,
    /// The time that the admission took, without the waits for plugins' answers.
    pub own: Duration,
}

impl Devices {
    /// Allocates the devices that the pod asks for, unless it has them. When this returns the checkpoint is
    /// on disk. Plugins are called without holding a lock; if the future is dropped, nothing stays reserved.
    ///
    /// Returns what was allocated; `None` if the pod had everything.
    ///
    /// # Errors
    /// See [`AdmissionError`]; nothing is allocated then.
    pub async fn admit(&self, demand: &PodDemand) -> Result<Option<Admitted>, AdmissionError> {
        let begun = Instant::now();
        if demand.is_empty() {
            return Ok(None);
        }
        let mut plugins_time = Duration::ZERO;
        let mut reserved = None;
        for attempt in 0..=TRIES {
            match self.plan(demand, attempt < TRIES)? {
                Planned::Complete => {
                    // An earlier call that was cut off may have allocated it without having saved it.
                    self.saved().await?;
                    return Ok(None);
                }
                Planned::Reserved(reservation) => reserved = Some(reservation),
                Planned::Ask(plan) => {
                    let asked = Instant::now();
                    let plan = self.ask(plan).await;
                    plugins_time += asked.elapsed();
                    reserved = self.0.lock().allocations.reserve(plan).ok();
                }
            }
            if reserved.is_some() {
                break;
            }
        }
        let Some(reservation) = reserved else { return Err(contended(demand)) };
        self.carry_out(reservation, demand, (begun, plugins_time)).await
    }

    /// The pod's devices as a provider for the topology manager, whose hints are sets of the machine's NUMA
    /// nodes `all`. `known`: what plugins have answered already.
    ///
    /// # Errors
    /// The pod cannot have its devices, wherever they are.
    pub fn provider(
        &self,
        demand: &PodDemand,
        all: NodeSet,
        known: Preferences,
    ) -> Result<DeviceProvider, AdmissionError> {
        let state = self.0.lock();
        if state.recovering && !demand.is_empty() {
            return Err(AdmissionError::Recovering);
        }
        let plan = state.allocations.plan_by_container(demand)?;
        let prefers = |name: &&String| {
            state.plugins.get(*name).is_some_and(|plugin| plugin.options().preferred_allocation)
        };
        let asked = demand.containers.iter().flat_map(|own| own.wanted.keys()).filter(prefers).cloned();
        Ok(DeviceProvider::new(plan, demand.clone(), all, asked.collect(), known))
    }

    /// Allocates what the provider has chosen. As [`Self::admit`].
    ///
    /// # Errors
    /// As [`Self::admit`]; [`AdmissionError::Contended`] if other pods took the devices meanwhile.
    pub async fn admit_chosen(&self, provider: DeviceProvider) -> Result<Option<Admitted>, AdmissionError> {
        let begun = Instant::now();
        let (plan, demand) = provider.into_plan();
        if demand.is_empty() {
            return Ok(None);
        }
        if plan.is_empty() {
            self.saved().await?;
            return Ok(None);
        }
        let reserved = self.0.lock().allocations.reserve(plan);
        let reservation = reserved.map_err(|_| contended(&demand))?;
        self.carry_out(reservation, &demand, (begun, Duration::ZERO)).await
    }

    /// Asks the plugins for the reserved devices and commits the reservation. `begun`: when the admission
    /// began, and how long plugins have been asked since.
    async fn carry_out(
        &self,
        reservation: Reservation,
        demand: &PodDemand,
        (begun, mut plugins_time): (Instant, Duration),
    ) -> Result<Option<Admitted>, AdmissionError> {
        let mut guard = ReservationGuard { devices: &self.0, reservation: Some(reservation) };
        let requests = guard.reservation.as_ref().map(Reservation::requests).unwrap_or_default();
        let description = describe(&requests);
        let asked = Instant::now();
        let responses = try_join_all(requests.into_iter().map(|request| self.allocate(request))).await?;
        plugins_time += asked.elapsed();
        if let Some(reservation) = guard.reservation.take() {
            let responses = responses.into_iter().collect::<BTreeMap<_, _>>();
            if !self.0.lock().allocations.commit(reservation, responses) {
                return Err(contended(demand));
            }
            self.0.mark_and_notify();
        }
        self.saved().await?;
        let own = begun.elapsed().saturating_sub(plugins_time);
        metrics::histogram!(Own::DeviceAllocation.name()).record(own.as_secs_f64());
        Ok(Some(Admitted { description, own }))
    }

    /// Calls PreStartContainer of the plugins that ask for it, for the container's devices.
    ///
    /// # Errors
    /// A plugin refuses or does not answer: the container must not start. A plugin that is not connected is
    /// not waited for, because the container had its devices before.
    pub async fn pre_start(&self, uid: &str, container: &str) -> Result<(), AdmissionError> {
        let calls: Vec<(Plugin, BTreeSet<String>)> = {
            let state = self.0.lock();
            let mut own = state.allocations.of_pod(uid);
            let own = own.remove(container).unwrap_or_default();
            let with_plugin = own.into_iter().filter_map(|(resource, allocation)| {
                let plugin = state.plugins.get(&resource)?;
                plugin.options().pre_start_required.then(|| (plugin.clone(), allocation.ids()))
            });
            with_plugin.collect()
        };
        for (plugin, ids) in calls {
            plugin.pre_start(ids.into_iter().collect()).await?;
        }
        Ok(())
    }

    /// Plans the pod. If no plugin has preferences (or may be asked), the devices are also chosen and
    /// reserved, under one lock.
    fn plan(&self, demand: &PodDemand, may_ask_plugins: bool) -> Result<Planned, AdmissionError> {
        let mut state = self.0.lock();
        if state.recovering {
            return Err(AdmissionError::Recovering);
        }
        let mut plan = state.allocations.plan(demand)?;
        if plan.is_empty() {
            return Ok(Planned::Complete);
        }
        let prefers = |resource: &String| {
            state.plugins.get(resource).is_some_and(|plugin| plugin.options().preferred_allocation)
        };
        if may_ask_plugins && demand.containers.iter().flat_map(|own| own.wanted.keys()).any(prefers) {
            return Ok(Planned::Ask(plan));
        }
        plan.complete();
        state.allocations.reserve(plan).map(Planned::Reserved).map_err(|_| contended(demand))
    }

    async fn saved(&self) -> Result<(), AdmissionError> {
        self.0.saver.settled().await.map_err(|error| AdmissionError::Checkpoint(error.to_string()))
    }

    /// Asks the plugins that have preferences. A failed call counts as no preference.
    async fn ask(&self, mut plan: PodPlan) -> PodPlan {
        while let Some(question) = plan.question() {
            plan.choose(&self.preferred(question).await);
        }
        plan
    }

    /// The devices that a plugin prefers; none if it has no preferences or does not answer.
    pub async fn preferred(&self, question: Question) -> Vec<String> {
        let plugin = self.0.lock().plugins.get(&question.resource).cloned();
        let Some(plugin) = plugin.filter(|plugin| plugin.options().preferred_allocation) else {
            return Vec::new();
        };
        let answer = plugin.preferred(question.available, question.must_include, question.size).await;
        answer.unwrap_or_else(|error| {
            warn!("{error}: devices are chosen without it");
            Vec::new()
        })
    }

    async fn allocate(&self, request: Request) -> Result<((String, String), Vec<u8>), AdmissionError> {
        let Request { container, resource, devices } = request;
        let plugin = self.0.lock().plugins.get(&resource).cloned();
        let plugin = plugin.ok_or_else(|| Refusal::NotReady { resource: resource.clone() })?;
        let begun = Instant::now();
        let response = plugin.allocate(devices.into_iter().collect()).await;
        metrics::histogram!(Own::DevicePluginAllocation.name(), "resource_name" => resource.clone())
            .record(begun.elapsed().as_secs_f64());
        Ok(((container, resource), response?.encode_to_vec()))
    }
}

fn contended(demand: &PodDemand) -> AdmissionError {
    let resource = demand.containers.iter().flat_map(|own| own.wanted.keys()).next();
    AdmissionError::Contended { resource: resource.cloned().unwrap_or_default() }
}

fn describe(requests: &[Request]) -> String {
    let of = |request: &Request| {
        let ids: Vec<&str> = request.devices.iter().map(String::as_str).collect();
        format!("{}: {} {}", request.container, request.resource, ids.join(","))
    };
    requests.iter().map(of).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
