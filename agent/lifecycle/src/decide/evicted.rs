//! Evicted and preempted pods: they end like others, are shown as failed, and start again after a back-off.
//!
//! What happens to such a pod is decided here, on its [`Record`]: it is being ended, then it has ended, then
//! it starts again as a new run of the same pod. Only this agent starts it again: for a kubelet an evicted
//! pod is done, and a controller makes another one (`pkg/kubelet/eviction`), which pods of manifests do not
//! have.

use std::time::Duration;

use jiff::Timestamp;

use super::backoff::{after, between};
use crate::record::{Ending, Evicted, Record};
use nodewarden_config::EvictionSettings;
use nodewarden_eviction::Eviction;
use nodewarden_model::backoff::Backoff;

/// A pod that was not evicted for this long since it started again begins with the first back-off again.
const QUIET: Duration = Duration::from_secs(600);

/// What an order to end or to evict a pod changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndingChange {
    /// The pod ends from now on.
    Started,
    /// It was being ended already, and has less time now.
    Shortened,
    /// It ends as soon already, or has ended.
    Unchanged,
}

impl Evicted {
    /// How long it waits after its end before it starts again: doubled with each eviction.
    fn back_off(&self, settings: &EvictionSettings) -> Duration {
        Backoff::doubling(settings.back_off, settings.max_back_off).nth(self.times.saturating_sub(1))
    }

    /// The time until its back-off is over; `None` if it never starts again, or has not ended yet.
    pub fn restart_delay(&self, settings: &EvictionSettings, now: Timestamp) -> Option<Duration> {
        let gone = self.gone.filter(|_| settings.restart_evicted && !self.finished)?;
        Some(self.back_off(settings).saturating_sub(between(gone, now)))
    }

    /// It has ended, and not because it had finished before.
    pub fn has_failed(&self) -> bool {
        self.gone.is_some() && !self.finished
    }
}

impl Record {
    /// The eviction of a pod that has not started again since.
    pub fn evicted(&self) -> Option<&Evicted> {
        self.eviction.as_deref().filter(|evicted| evicted.back.is_none())
    }

    /// It has ended by an eviction, and nothing of it runs.
    pub fn is_evicted(&self) -> bool {
        self.evicted().is_some_and(|evicted| evicted.gone.is_some())
    }

    /// The pod is being ended, for good or by an eviction, or has ended by an eviction: nothing of it is to
    /// be started.
    pub fn is_leaving(&self) -> bool {
        self.ending.is_some() || self.evicted().is_some()
    }

    /// Until when the pod's containers have to have ended.
    pub fn due(&self) -> Option<Timestamp> {
        let ending = self.ending.as_ref().map(|ending| after(ending.since, ending.grace()));
        let evicted = self.evicted().map(|evicted| evicted.due);
        ending.into_iter().chain(evicted).min()
    }

    /// How long they still have; never more than they were given, also when the clock goes back.
    pub fn left(&self, now: Timestamp) -> Duration {
        let ending =
            self.ending.as_ref().map(|ending| ending.grace().saturating_sub(between(ending.since, now)));
        let evicted =
            self.evicted().map(|evicted| between(now, evicted.due).min(between(evicted.since, evicted.due)));
        ending.into_iter().chain(evicted).min().unwrap_or_default()
    }

    /// Takes over that the pod is to end for good. One that ends already only gets less time.
    pub fn end(&mut self, ending: Ending) -> EndingChange {
        let due = after(ending.since, ending.grace());
        match &mut self.ending {
            None => {
                self.ending = Some(ending);
                EndingChange::Started
            }
            Some(current) if due < after(current.since, current.grace()) => current.cut(due),
            Some(_) => EndingChange::Unchanged,
        }
    }

    /// Takes over that the pod is evicted or preempted. `own`: its own grace; `finished`: nothing of it would
    /// run any more. The first order counts: a later one only takes time from it.
    pub fn evict(
        &mut self,
        eviction: &Eviction,
        own: Duration,
        finished: bool,
        now: Timestamp,
    ) -> EndingChange {
        let due = after(now, eviction.grace.map_or(own, |longest| longest.min(own)));
        let sooner = self.due().is_some_and(|before| due < before);
        if let Some(ending) = &mut self.ending {
            return if sooner { ending.cut(due) } else { EndingChange::Unchanged };
        }
        let times = match self.eviction.as_deref_mut() {
            None => 1,
            Some(Evicted { back: Some(back), .. }) if between(*back, now) >= QUIET => 1,
            Some(Evicted { back: Some(_), times, .. }) => times.saturating_add(1),
            Some(Evicted { gone: Some(_), .. }) => return EndingChange::Unchanged,
            Some(under_way) => {
                under_way.condition = under_way.condition.or(eviction.condition);
                under_way.due = under_way.due.min(due);
                return if sooner { EndingChange::Shortened } else { EndingChange::Unchanged };
            }
        };
        self.eviction = Some(Box::new(Evicted {
            reason: eviction.reason.clone(),
            message: eviction.message.clone(),
            condition: eviction.condition,
            since: now,
            due,
            times,
            finished,
            gone: None,
            back: None,
        }));
        EndingChange::Started
    }

    /// Nothing of the pod is left but its cgroup and its logs; true if that is news.
    pub fn note_gone(&mut self, now: Timestamp) -> bool {
        let under_way = self.eviction.as_deref_mut().filter(|evicted| evicted.gone.is_none());
        under_way.is_some_and(|evicted| evicted.gone.replace(now).is_none())
    }

    /// The pod starts again, as if it had just been accepted, but its evictions are still counted.
    pub fn restart(&mut self, now: Timestamp) {
        self.accepted = now;
        self.containers = Default::default();
        self.admitted = false;
        if let Some(evicted) = self.eviction.as_deref_mut() {
            evicted.back = Some(now);
        }
    }
}

impl Ending {
    fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds)
    }

    /// To whole seconds, and none too many.
    fn cut(&mut self, due: Timestamp) -> EndingChange {
        self.grace_seconds = self.grace_seconds.min(between(self.since, due).as_secs());
        EndingChange::Shortened
    }
}

#[cfg(test)]
mod tests;
