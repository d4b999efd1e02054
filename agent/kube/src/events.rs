//! Events at the API server (`v1.Event`), as a kubelet makes them: what happens to pods and to the node, from
//! the agent's journal; what happens to the node object is reported to [`Events`] by what writes that object.
//!
//! [`reason`] says which entries of the journal are events for users, and of which type; [`correlate`] joins
//! similar ones and limits each object's; [`sender`] writes them, and [`sent`] keeps how far it has come.
//! Reporting an event never waits: what cannot be written for too long is dropped and counted.

mod correlate;
mod object;
mod occurrence;
mod pending;
mod reason;
mod sender;
mod sent;

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use occurrence::{Involved, Kind, Occurrence};
use pending::Pending;
pub use sender::{EventSender, Settings};
use sent::Position;
pub use sent::{Beginning, Sent};

/// Where what happens to the node is reported. Cloning shares it. Nothing here ever waits.
#[derive(Debug, Clone, Default)]
pub struct Events(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    ring: Notify,
}

impl Events {
    /// Reports something about the node (`Starting`, `NodeReady`, `NodeHasSufficientMemory`, …).
    pub fn node(&self, node: &str, kind: Kind, reason: &str, message: impl Into<String>) {
        self.report(Occurrence {
            involved: Involved::node(node),
            kind,
            reason: reason.to_owned(),
            message: message.into(),
            time: Timestamp::now(),
        });
    }

    /// Reports something that happened.
    pub fn report(&self, occurrence: Occurrence) {
        self.add(occurrence, None);
    }

    /// Reports what an entry of the journal says.
    fn add(&self, occurrence: Occurrence, entry: Option<Position>) {
        self.0.pending.lock().push(occurrence, entry);
        self.0.ring.notify_one();
    }
}
