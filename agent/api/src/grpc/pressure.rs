//! The calls of `nodewarden.v1.Pressure`: node conditions, past decisions, and simulated ones.

pub mod convert;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use nodewarden_proto::nodewarden::v1 as proto;
use strum::VariantNames;
use tonic::{Request, Response, Status};

use nodewarden_config::Signal;
use nodewarden_model::{AgentState, CandidateSeen, Decision, EvictionStatus, Identity, PressureView};
use nodewarden_tasks::blocking;

/// Implements the calls.
pub(super) struct Service {
    state: Arc<dyn AgentState>,
}

impl Service {
    /// The service of this agent.
    pub(super) fn new(state: Arc<dyn AgentState>) -> Self {
        Self { state }
    }

    fn eviction(&self) -> Result<Arc<dyn EvictionStatus>, Status> {
        self.state.eviction().ok_or_else(|| {
            Status::failed_precondition(
                "the agent does not watch this node for pressure: `nodewarden status` shows why",
            )
        })
    }
}

#[tonic::async_trait]
impl proto::pressure_server::Pressure for Service {
    async fn get_pressure(
        &self,
        _: Request<proto::GetPressureRequest>,
    ) -> Result<Response<proto::GetPressureResponse>, Status> {
        let pressure = convert::pressure(PressureView::of(self.eviction()?.as_ref()));
        Ok(Response::new(proto::GetPressureResponse { pressure: Some(pressure) }))
    }

    async fn list_decisions(
        &self,
        request: Request<proto::ListDecisionsRequest>,
    ) -> Result<Response<proto::ListDecisionsResponse>, Status> {
        let (request, eviction) = (request.into_inner(), self.eviction()?);
        let state = Arc::clone(&self.state);
        // Whether a pod is on the node needs a reading of it, which takes milliseconds.
        let answer = blocking::QUERIES.run(move || {
            let about = About::new(&eviction.decisions(), &request.pod, request.considered);
            if about.never_seen() && !is_here(state.as_ref(), &request.pod) {
                return Err(Status::not_found(format!(
                    "pod {:?} not found: no decision is about it, and it is not on this node",
                    request.pod
                )));
            }
            Ok(about.answer(request.limit))
        });
        let answer = answer.await.map_err(|e| Status::internal(format!("reading the node failed: {e}")))?;
        answer.map(Response::new)
    }

    async fn simulate(
        &self,
        request: Request<proto::SimulateRequest>,
    ) -> Result<Response<proto::SimulateResponse>, Status> {
        let (request, eviction) = (request.into_inner(), self.eviction()?);
        if Signal::parse(&request.signal).is_none() {
            let names = Signal::VARIANTS.join(", ");
            let message = format!("unknown signal {:?}: expected one of {names}", request.signal);
            return Err(Status::invalid_argument(message));
        }
        let decision = eviction.simulate(&request.signal, &request.threshold).await;
        let decision = decision.map_err(Status::failed_precondition)?;
        Ok(Response::new(proto::SimulateResponse { decision: Some(convert::decision(&decision)) }))
    }
}

/// The requested decisions, newest first.
struct About {
    decisions: Vec<Arc<Decision>>,
    /// For a pod: the number of decisions in which it was only a candidate.
    considered: usize,
    /// Whether the decisions of the whole node are requested.
    of_node: bool,
}

impl About {
    fn new(all: &[Arc<Decision>], pod: &str, considered: bool) -> Self {
        if pod.is_empty() {
            return Self { decisions: all.to_vec(), considered: 0, of_node: true };
        }
        let of = |own: &Decision, counts: fn(&CandidateSeen) -> bool| {
            own.candidates.iter().any(|candidate| candidate.is(pod) && counts(candidate))
        };
        let (chosen, rest): (Vec<_>, Vec<_>) =
            all.iter().filter(|own| of(own, |_| true)).cloned().partition(|own| of(own, |c| c.chosen));
        let only_considered = rest.len();
        let decisions = match considered {
            false => chosen,
            true => all.iter().filter(|own| of(own, |_| true)).cloned().collect(),
        };
        Self { decisions, considered: only_considered, of_node: false }
    }

    /// Whether the pod occurs in no decision.
    fn never_seen(&self) -> bool {
        !self.of_node && self.decisions.is_empty() && self.considered == 0
    }

    fn answer(self, limit: u32) -> proto::ListDecisionsResponse {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let most = if limit == 0 { usize::MAX } else { limit as usize };
        proto::ListDecisionsResponse {
            total: count(self.decisions.len()),
            considered: count(self.considered),
            decisions: self.decisions.iter().take(most).map(|own| convert::decision(own)).collect(),
        }
    }
}

/// Whether the pod of this uid, name or namespace/name is managed or has a cgroup.
fn is_here(state: &dyn AgentState, reference: &str) -> bool {
    let is = |uid: &str, namespace: &str, name: &str| match reference.split_once('/') {
        Some((a, b)) => (namespace, name) == (a, b),
        None => uid == reference || name == reference,
    };
    let managed = state.pods();
    managed.iter().any(|own| is(&own.pod.uid, &own.pod.namespace, &own.pod.name))
        || state.snapshot().groups.iter().any(|group| match &*group.identity {
            Identity::Pod { uid, names: None, .. } => is(uid, "", ""),
            Identity::Pod { uid, names: Some(names), .. } => is(uid, &names.namespace, &names.name),
            _ => false,
        })
}
