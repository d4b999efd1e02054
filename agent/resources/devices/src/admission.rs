//! Giving a pod its devices: all it asks for, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use prost::Message;
use tracing::warn;

use super::ledger::{PodPlan, Request, Reservation};
use super::manager::{Devices, Inner};
use super::plugin::Plugin;
use super::{AdmissionError, PodDemand, Refusal};
use nodewarden_metrics::Own;

/// How often a plan is made anew after other pods took devices of it. Then it is made without asking for preferences,
/// which nobody can come between.
const TRIES: usize = 3;

/// How a pod's allocation begins.
enum Planned {
    /// It has everything.
    Complete,
    Reserved(Reservation),
    /// A plugin may have a preference.
    Ask(PodPlan),
}

/// A reservation that is given back when it is dropped.
struct Held<'d> {
    devices: &'d Inner,
    reservation: Option<Reservation>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.devices.lock().ledger.cancel(reservation);
            self.devices.happened();
        }
    }
}

/// Devices just given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Which, for people.
    pub told: String,
    /// The time it took without the waits for plugins' answers.
    pub own: Duration,
}

impl Devices {
    /// Gives the pod what it asks for, unless it has it. When it returns the checkpoint is on disk. The calls to the
    /// plugins run outside of every lock; dropped in the middle, nothing stays marked.
    ///
    /// Returns what was given just now; `None` if it had everything.
    ///
    /// # Errors
    /// See [`AdmissionError`]; the pod has got nothing then.
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
                    // It may have been given by a turn that was cut off before it was on disk.
                    self.saved().await?;
                    return Ok(None);
                }
                Planned::Reserved(reservation) => reserved = Some(reservation),
                Planned::Ask(plan) => {
                    let asked = Instant::now();
                    let plan = self.ask(plan).await;
                    plugins_time += asked.elapsed();
                    reserved = self.0.lock().ledger.reserve(plan).ok();
                }
            }
            if reserved.is_some() {
                break;
            }
        }
        let Some(reservation) = reserved else { return Err(contended(demand)) };
        let mut held = Held { devices: &self.0, reservation: Some(reservation) };
        let requests = held.reservation.as_ref().map(Reservation::requests).unwrap_or_default();
        let told = told(&requests);
        let asked = Instant::now();
        let responses = try_join_all(requests.into_iter().map(|request| self.allocate(request))).await?;
        plugins_time += asked.elapsed();
        if let Some(reservation) = held.reservation.take() {
            let responses = responses.into_iter().collect::<BTreeMap<_, _>>();
            if !self.0.lock().ledger.commit(reservation, responses) {
                return Err(contended(demand));
            }
            self.0.changed();
        }
        self.saved().await?;
        let own = begun.elapsed().saturating_sub(plugins_time);
        ::metrics::histogram!(Own::DeviceAllocation.name()).record(own.as_secs_f64());
        Ok(Some(Admitted { told, own }))
    }

    /// Calls PreStartContainer of the plugins that ask for it, for what the container has.
    ///
    /// # Errors
    /// A plugin refuses or does not answer: the container must not start. One that is away is not waited for: the
    /// container had its devices before.
    pub async fn pre_start(&self, uid: &str, container: &str) -> Result<(), AdmissionError> {
        let calls: Vec<(Plugin, BTreeSet<String>)> = {
            let state = self.0.lock();
            let mut own = state.ledger.allocations(uid);
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

    /// Where no plugin has a say (or is asked), chosen and reserved without a moment between.
    fn plan(&self, demand: &PodDemand, may_ask: bool) -> Result<Planned, AdmissionError> {
        let mut state = self.0.lock();
        if state.recovering {
            return Err(AdmissionError::Recovering);
        }
        let mut plan = state.ledger.plan(demand)?;
        if plan.is_empty() {
            return Ok(Planned::Complete);
        }
        let prefers = |resource: &String| {
            state.plugins.get(resource).is_some_and(|plugin| plugin.options().preferred_allocation)
        };
        if may_ask && demand.containers.iter().flat_map(|own| own.wanted.keys()).any(prefers) {
            return Ok(Planned::Ask(plan));
        }
        while plan.question().is_some() {
            plan.choose(&[]);
        }
        state.ledger.reserve(plan).map(Planned::Reserved).map_err(|_| contended(demand))
    }

    async fn saved(&self) -> Result<(), AdmissionError> {
        self.0.saver.settled().await.map_err(|error| AdmissionError::Checkpoint(error.to_string()))
    }

    /// Asks the plugins that have preferences. One that fails has none.
    async fn ask(&self, mut plan: PodPlan) -> PodPlan {
        while let Some(question) = plan.question() {
            let plugin = self.0.lock().plugins.get(&question.resource).cloned();
            let preferred = match plugin.filter(|plugin| plugin.options().preferred_allocation) {
                None => Vec::new(),
                Some(plugin) => {
                    let answer =
                        plugin.preferred(question.available, question.must_include, question.size).await;
                    answer.unwrap_or_else(|error| {
                        warn!("{error}: devices are chosen without it");
                        Vec::new()
                    })
                }
            };
            plan.choose(&preferred);
        }
        plan
    }

    async fn allocate(&self, request: Request) -> Result<((String, String), Vec<u8>), AdmissionError> {
        let Request { container, resource, devices } = request;
        let plugin = self.0.lock().plugins.get(&resource).cloned();
        let plugin = plugin.ok_or_else(|| Refusal::NotReady { resource: resource.clone() })?;
        let begun = Instant::now();
        let response = plugin.allocate(devices.into_iter().collect()).await;
        ::metrics::histogram!(Own::DevicePluginAllocation.name(), "resource_name" => resource.clone())
            .record(begun.elapsed().as_secs_f64());
        Ok(((container, resource), response?.encode_to_vec()))
    }
}

fn contended(demand: &PodDemand) -> AdmissionError {
    let resource = demand.containers.iter().flat_map(|own| own.wanted.keys()).next();
    AdmissionError::Contended { resource: resource.cloned().unwrap_or_default() }
}

fn told(requests: &[Request]) -> String {
    let of = |request: &Request| {
        let ids: Vec<&str> = request.devices.iter().map(String::as_str).collect();
        format!("{}: {} {}", request.container, request.resource, ids.join(","))
    };
    requests.iter().map(of).collect::<Vec<_>>().join("; ")
}
