//! Queues of due probes: each handler has a lane with a limit on concurrent runs. The probe that was due
//! first begins first.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::histogram::{DELAY, Histogram};
use super::state::Id;
use nodewarden_config::ProbeSettings;
use nodewarden_manifest::HandlerKind;
use nodewarden_model::Buckets;

/// The lanes of all handlers.
pub struct Lanes([Lane; 4]);

/// The due and running probes of one handler.
#[derive(Default)]
pub struct Lane {
    most: usize,
    /// Number of running probes. A run counts until its task has ended (a dropped one as long as it holds a
    /// connection) or is one second past its time-out.
    pub running: usize,
    waiting: BTreeSet<(Instant, Id)>,
    pub delays: Histogram<18>,
}

impl Lanes {
    pub fn new(settings: &ProbeSettings) -> Self {
        let ProbeSettings { max_exec, max_http_get, max_tcp_socket, max_grpc } = *settings;
        let lane = |most: usize| Lane { most: most.max(1), ..Lane::default() };
        let mut lanes = Self(Default::default());
        *lanes.of(HandlerKind::Exec) = lane(max_exec);
        *lanes.of(HandlerKind::HttpGet) = lane(max_http_get);
        *lanes.of(HandlerKind::TcpSocket) = lane(max_tcp_socket);
        *lanes.of(HandlerKind::Grpc) = lane(max_grpc);
        lanes
    }

    pub fn of(&mut self, handler: HandlerKind) -> &mut Lane {
        &mut self.0[handler as usize]
    }

    /// The next probe to begin, of any lane below its limit; it is counted as running from now on.
    pub fn next(&mut self) -> Option<(Instant, Id)> {
        let lane = self.0.iter_mut().find(|lane| lane.running < lane.most && !lane.waiting.is_empty())?;
        lane.running += 1;
        lane.waiting.pop_first()
    }

    /// The lanes in the order of [`HandlerKind::ALL`].
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Lane)> {
        HandlerKind::ALL.into_iter().map(|handler| (handler.name(), &self.0[handler as usize]))
    }
}

impl Lane {
    /// Stops counting a run that ended or is too late.
    pub fn free_place(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    pub fn queue(&mut self, due: Instant, id: Id) {
        self.waiting.insert((due, id));
    }

    pub fn leave(&mut self, due: Instant, id: Id) {
        self.waiting.remove(&(due, id));
    }

    pub fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub fn show_delays(&self) -> Buckets {
        self.delays.show(&DELAY)
    }
}
