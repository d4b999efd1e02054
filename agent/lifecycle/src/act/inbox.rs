//! Orders that a worker carries out as they arrive, also while a turn is under way.

use std::time::Duration;

use super::{evict, exits, look, objects, probing, resize};
use crate::orders::Order;
use crate::state::PodState;

/// How long the runtime may take to notice the end of a container that the kernel saw.
pub const NOTICED: Duration = Duration::from_secs(2);
/// The same where it may have been another process.
const DOUBTED: Duration = Duration::from_millis(100);

/// What orders ask of the next turn.
#[derive(Debug, Default)]
pub struct News {
    pub look: bool,
    /// With how long it is waited for.
    pub expected: Vec<(String, Duration)>,
}

impl News {
    /// Carries out what does not wait for a turn, and notes the rest.
    pub fn take(&mut self, state: &PodState, order: Order) {
        match order {
            Order::Look => self.look = true,
            Order::Listed(listing) => self.look |= look::differs(&state.read().observed, &listing),
            Order::Exited { container, sure } => {
                self.look = true;
                // Not one probe more may count against it, or as its success.
                if sure {
                    probing::exited(state, &container);
                }
                let wait = if sure { NOTICED } else { DOUBTED };
                // Reported for its process and for its cgroup.
                match self.expected.iter_mut().find(|(id, _)| *id == container) {
                    Some((_, longest)) => *longest = wait.max(*longest),
                    None => self.expected.push((container, wait)),
                }
            }
            Order::Probed { look } => {
                self.look |= look;
                state.show();
            }
            Order::CgroupRemoved { container } => state.removals.removed(&container),
            Order::Oom { container, victim } => exits::note_oom(state, &container, victim),
            Order::Resize { pod, version } => {
                self.look = true;
                resize::begin(state, pod, version);
            }
            Order::NotResized { why } => resize::refused(state, why.as_ref()),
            Order::Evict(eviction) => {
                self.look = true;
                evict::evict(state, &eviction);
            }
            Order::Refresh => {
                objects::changed(state);
            }
            Order::Update { pod } => {
                self.look = true;
                resize::update_pod(state, pod);
            }
            Order::ApiState(api) => {
                if state.read().api.as_ref() != Some(&api) {
                    state.note(|inner| inner.api = Some(api));
                }
            }
            Order::Over(over) => {
                self.look = true;
                // The next turn knows whether it has ended by itself.
                state.set(|inner| inner.over = Some(Box::new(over)));
            }
            Order::Forget => {
                self.look = true;
                state.set(|inner| inner.unwanted = true);
            }
            Order::Moved { origin } => state.update(|inner| inner.record.origin = origin),
            Order::End(ending) => {
                // The worker looks again at once, also if its present turn finds nothing to do.
                self.look = true;
                evict::end(state, ending);
            }
        }
    }
}
