//! The thread that opens and moves the sources.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nodewarden_tasks::parts::Part;

use super::slots::Slots;
use super::source::Kind;

/// Where the thresholds are to be: bytes of working set; `None` removes one.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub node: Option<u64>,
    pub pods: Option<u64>,
}

/// Shortest time between two checks for missing sources and re-created cgroups. They are made when an order
/// has woken the thread anyway.
const RENEW: Duration = Duration::from_secs(5);
/// The same without orders: longer than between two of them while every source works (60 to 70 s). While
/// one does not, each pass of the engine orders.
const RENEW_UNASKED: Duration = Duration::from_secs(90);

/// Shortest time between two moves of a threshold: each move waits for all CPUs (synchronize_rcu in
/// `memcg_event_remove` and `__mem_cgroup_usage_register_event`).
const MOVE: Duration = Duration::from_millis(200);

/// Runs until the sender of orders is dropped.
pub fn run(slots: &Slots, orders: &Receiver<Order>, part: &Part) {
    let mut wanted = None;
    let mut renewed = Instant::now();
    let mut move_at = renewed;
    loop {
        let unasked = renewed + RENEW_UNASKED;
        let next = if wanted.is_none() { unasked } else { unasked.min(move_at) };
        part.waits();
        let order = orders.recv_timeout(next.saturating_duration_since(Instant::now()));
        part.progress();
        match order {
            Ok(order) => wanted = Some(order),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        if now >= move_at
            && let Some(Order { node, pods }) = wanted.take()
        {
            let moved = [(Kind::NodeThreshold, node), (Kind::PodsThreshold, pods)]
                .map(|(kind, working_set)| slots.arm(kind, working_set));
            if moved.contains(&true) {
                move_at = now + MOVE;
            }
        }
        if now.duration_since(renewed) >= RENEW {
            slots.renew();
            renewed = now;
        }
    }
}
