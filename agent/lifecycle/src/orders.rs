//! What a pod's worker is ordered to do, and what it reports.

use std::sync::{Arc, Weak};

use futures_channel::mpsc;
use futures_util::StreamExt;

use crate::record::{Ending, Record};
use nodewarden_admission::NoGrowth;
use nodewarden_cri::Listing;
use nodewarden_eviction::Eviction;
use nodewarden_manifest::Pod;
use nodewarden_model::{ApiState, OomVictim, Origin};
use nodewarden_pods::source::Over;

/// What a worker is ordered to do, or should know.
#[derive(Debug)]
pub enum Order {
    /// Something may have changed at the runtime.
    Look,
    /// What the runtime has of the pod now; nothing is done if that is known.
    Listed(Box<Listing>),
    /// The kernel saw the container's last process end, or its first one: the runtime will say so in a
    /// moment. Unless it is `sure`, it may have been another process that the runtime had started in it.
    Exited { container: String, sure: bool },
    /// The kernel removed the cgroup of a container or sandbox.
    CgroupRemoved { container: String },
    /// The kernel killed a process of the container for memory.
    Oom { container: String, victim: OomVictim },
    /// A probe's result has changed; `look`: something may have to be done.
    Probed { look: bool },
    /// Other resources. The pod's cgroup has been sized for them when it is reported with `version`.
    Resize { pod: Arc<Pod>, version: u64 },
    /// Why it does not have the resources that it should, or that it should have no others.
    NotResized { why: Option<NoGrowth> },
    /// Something that its volumes show may have changed.
    Refresh,
    /// What its source has of it now, with the same resources and the same uid.
    Update { pod: Arc<Pod> },
    /// What the API server knows of it now.
    ApiState(Arc<ApiState>),
    /// The API server has it as succeeded or failed.
    Over(Over),
    /// The API server no longer has it: once it has ended, nothing of it is kept.
    Forget,
    /// The pod has another origin now.
    Moved { origin: Origin },
    /// The pod is evicted or preempted, and starts again later.
    Evict(Eviction),
    /// The pod is to end for good.
    End(Ending),
}

/// The way to a pod's worker. A channel of `futures`, since there are as many as pods: tokio's takes 850
/// bytes while nothing is under way, and this one 200.
#[derive(Debug)]
pub struct Orders(Arc<mpsc::UnboundedSender<Order>>);

/// As [`Orders`], without being what keeps the worker.
#[derive(Debug)]
pub struct WeakOrders(Weak<mpsc::UnboundedSender<Order>>);

/// A worker's end of it.
#[derive(Debug)]
pub struct Inbox(mpsc::UnboundedReceiver<Order>);

/// The way to a worker that is about to begin.
pub fn orders() -> (Orders, Inbox) {
    let (sender, receiver) = mpsc::unbounded();
    (Orders(Arc::new(sender)), Inbox(receiver))
}

impl Orders {
    /// Sends an order.
    ///
    /// # Errors
    /// When the worker is gone.
    pub fn send(&self, order: Order) -> Result<(), mpsc::TrySendError<Order>> {
        self.0.unbounded_send(order)
    }

    pub fn downgrade(&self) -> WeakOrders {
        WeakOrders(Arc::downgrade(&self.0))
    }
}

impl WeakOrders {
    /// `None` when the agent ends.
    pub fn upgrade(&self) -> Option<Orders> {
        self.0.upgrade().map(Orders)
    }
}

impl Inbox {
    /// Waits for the next order; `None` when the agent ends.
    pub async fn recv(&mut self) -> Option<Order> {
        self.0.next().await
    }

    /// The next order, if there is one already.
    pub fn try_recv(&mut self) -> Option<Order> {
        self.0.try_recv().ok()
    }
}

/// What a worker reports.
#[derive(Debug)]
pub enum Report {
    /// Every container has the resources of the last order.
    Resized { uid: String },
    /// Nothing of the pod is left but its cgroup.
    Gone { uid: String },
    /// Nothing of an evicted or preempted pod is left, or of one that the API server still has: it needs no
    /// cgroup for now.
    Evicted { uid: String },
    /// It starts again, and needs one.
    Restarted { uid: String },
    /// The kernel saw a process end and the runtime still says that its container runs. `sure`: it was the
    /// container's first process, not perhaps another one.
    Contradicted { uid: String, sure: bool },
    /// The worker died of a fault in the agent.
    Died { pod: Arc<Pod>, record: Box<Record> },
}
