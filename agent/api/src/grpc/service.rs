//! The calls of `nodewarden.v1`.

use std::sync::Arc;

use nodewarden_proto::nodewarden::v1 as proto;
use proto::nodewarden_server::Nodewarden;
use tokio::sync::{Semaphore, watch};
use tonic::{Request, Response, Status};

use super::connections::{self, SUBSCRIBERS, WithPlace};
use super::filter::EventFilter;
use super::stream::EventStream;
use super::{cgroup, device, exclusive_cpus, status, time};
use nodewarden_model::AgentState;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::blocking;

pub struct Service {
    state: Arc<dyn AgentState>,
    journal: Journal,
    stopping: watch::Receiver<bool>,
    /// Places for subscribers.
    subscribers: Arc<Semaphore>,
}

impl Service {
    pub fn new(state: Arc<dyn AgentState>, journal: Journal, stopping: watch::Receiver<bool>) -> Self {
        Self { state, journal, stopping, subscribers: Arc::new(Semaphore::new(SUBSCRIBERS)) }
    }

    /// Asks for the state on a thread for blocking work: a reading of the node takes milliseconds.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn AgentState) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let state = Arc::clone(&self.state);
        blocking::QUERIES
            .run(move || question(state.as_ref()))
            .await
            .map_err(|e| Status::internal(format!("reading the node failed: {e}")))
    }
}

#[tonic::async_trait]
impl Nodewarden for Service {
    async fn get_status(
        &self,
        _: Request<proto::GetStatusRequest>,
    ) -> Result<Response<proto::GetStatusResponse>, Status> {
        Ok(Response::new(self.ask(status::answer).await?))
    }

    async fn list_cgroups(
        &self,
        request: Request<proto::ListCgroupsRequest>,
    ) -> Result<Response<proto::ListCgroupsResponse>, Status> {
        let proto::ListCgroupsRequest { path_prefix, pods_only } = request.into_inner();
        let list = self.ask(move |state| cgroup::list(&state.snapshot(), &path_prefix, pods_only)).await?;
        Ok(Response::new(list))
    }

    async fn list_devices(
        &self,
        _: Request<proto::ListDevicesRequest>,
    ) -> Result<Response<proto::ListDevicesResponse>, Status> {
        Ok(Response::new(self.ask(|state| device::list(state.devices())).await?))
    }

    async fn list_exclusive_cpus(
        &self,
        _: Request<proto::ListExclusiveCpusRequest>,
    ) -> Result<Response<proto::ListExclusiveCpusResponse>, Status> {
        Ok(Response::new(self.ask(|state| exclusive_cpus::list(state.exclusive_cpus())).await?))
    }

    type WatchEventsStream = WithPlace<EventStream>;

    async fn watch_events(
        &self,
        request: Request<proto::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let request = request.into_inner();
        let filter = EventFilter::new(&request.types, &request.pod)
            .map_err(|e| Status::invalid_argument(e.to_string()))?;
        let since = match &request.since {
            None => None,
            Some(t) => Some(time::to_timestamp(t).ok_or_else(|| {
                Status::invalid_argument(format!(
                    "since is no point in time: {} s, {} ns",
                    t.seconds, t.nanos
                ))
            })?),
        };
        let place = connections::place(&self.subscribers, "subscribers to events", SUBSCRIBERS)?;
        let mut subscription = self.journal.subscribe(since);
        if request.no_follow {
            // The whole journal, unless a time is given.
            if since.is_none() {
                subscription = self.journal.subscribe(Some(jiff::Timestamp::MIN));
            }
            subscription = subscription.backlog_only();
        }
        let stream = EventStream::new(subscription, filter, self.stopping.clone());
        Ok(Response::new(WithPlace::new(stream, place)))
    }
}
