//! The channel of plugins' events, with a bound on what waits in it.
//!
//! A sender waits for room before it sends what plugins can repeat at will: registrations, refusals and
//! lists, the longer the list the more room. The end of a registration needs no room: there is one for each
//! registration.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::PluginEvent;

/// Room for events that wait.
const ROOM: u32 = 2048;
/// Number of devices in a list that take one more unit of room.
const DEVICES: usize = 64;

/// Sends events.
#[derive(Debug, Clone)]
pub struct EventSender {
    events: mpsc::UnboundedSender<Waiting>,
    room: Arc<Semaphore>,
}

/// Receives events, in the order in which they were sent.
#[derive(Debug)]
pub struct PluginEvents(mpsc::UnboundedReceiver<Waiting>);

/// An event with its room, which is free again when the event is received.
#[derive(Debug)]
struct Waiting {
    event: PluginEvent,
    _room: Option<Room>,
}

/// Room for one event.
#[derive(Debug)]
pub struct Room(#[expect(dead_code, reason = "gives the room back when it is dropped")] OwnedSemaphorePermit);

/// A channel for events of plugins.
pub fn channel() -> (EventSender, PluginEvents) {
    let (events, receiver) = mpsc::unbounded_channel();
    (EventSender { events, room: Arc::new(Semaphore::new(ROOM as usize)) }, PluginEvents(receiver))
}

impl EventSender {
    /// Waits for the room of an event with a list of this many devices.
    pub async fn room(&self, devices: usize) -> Room {
        let units = u32::try_from(1 + devices / DEVICES).unwrap_or(ROOM).min(ROOM);
        match self.room.clone().acquire_many_owned(units).await {
            Ok(permit) => Room(permit),
            // Never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Sends an event. `None` as room is for an event of which there can be only as many as registrations.
    pub fn send(&self, event: PluginEvent, room: Option<Room>) {
        // An error only means that the receiver was dropped because the agent ends.
        let _ = self.events.send(Waiting { event, _room: room });
    }
}

impl PluginEvents {
    /// The next event; `None` if all senders are gone.
    pub async fn recv(&mut self) -> Option<PluginEvent> {
        self.0.recv().await.map(|waiting| waiting.event)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refused(n: usize) -> PluginEvent {
        PluginEvent::Refused { what: n.to_string(), reason: String::new() }
    }

    #[tokio::test]
    async fn a_sender_waits_while_the_receiver_does_not_receive() {
        let (sender, mut events) = channel();
        for n in 0..ROOM as usize {
            let room = sender.room(0).await;
            sender.send(refused(n), Some(room));
        }
        let full = tokio::time::timeout(Duration::from_millis(50), sender.room(0)).await;
        assert!(full.is_err());
        // The end of a registration does not wait.
        let stopped = PluginEvent::Stopped { resource: String::new(), generation: 1, reason: String::new() };
        sender.send(stopped, None);
        assert!(events.recv().await.is_some());
        sender.room(0).await;

        // The longest list has room alone.
        while let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(10), events.recv()).await {}
        let room = tokio::time::timeout(Duration::from_secs(5), sender.room(usize::MAX)).await;
        drop(room.unwrap());
    }
}
