//! Whose status is written next. Pure: the time is given.
//!
//! A pod has one request at a time, and what changes meanwhile is written afterwards. Of all pods so many
//! have one at a time, and while the API server does not answer a single one asks whether it does again.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use nodewarden_model::backoff::Backoff;

/// After a refusal, by how many there were in a row.
const REFUSED_AGAIN: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(60));
/// While the API server does not answer.
const AWAY_AGAIN: Backoff = Backoff::doubling(Duration::from_millis(200), Duration::from_secs(5));

/// Pods by uid that have something to be written, and those that are being written.
#[derive(Debug)]
pub struct Queue {
    most: usize,
    pods: HashMap<String, Slot>,
    /// Pods that wait, in the order in which it is their turn: time, number, uid.
    waiting: BTreeSet<(Instant, u64, String)>,
    next_number: u64,
    in_flight: usize,
    away: Option<Away>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Its place in `waiting`.
    place: Option<(Instant, u64)>,
    in_flight: bool,
    /// It changed while its request was under way.
    again: bool,
    refusals: u32,
}

/// The API server does not answer.
#[derive(Debug)]
struct Away {
    times: u32,
    until: Instant,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Look at this pod, and then call [`Queue::done`].
    Go(String),
    /// Nothing before this time; `None`: before something changes.
    Wait(Option<Instant>),
}

/// How it went with a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There is nothing more to do, as far as was known when it began.
    Done,
    /// The API server answered; to be looked at again after this time.
    Later(Duration),
    /// The API server refused; again after this time, if it said so.
    Refused(Option<Duration>),
    /// The API server did not answer.
    Away,
}

impl Queue {
    /// At most `most` requests at a time.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            pods: HashMap::new(),
            waiting: BTreeSet::new(),
            next_number: 0,
            in_flight: 0,
            away: None,
        }
    }

    /// Something about this pod changed: it is looked at as soon as it is its turn. One that waits for a
    /// second try after a refusal goes on waiting.
    pub fn mark(&mut self, uid: &str, now: Instant) {
        let slot = self.pods.entry(uid.to_owned()).or_default();
        if slot.in_flight {
            slot.again = true;
        } else if slot.place.is_none_or(|(at, _)| at > now && slot.refusals == 0) {
            self.wait(uid, now);
        }
    }

    /// Forgets a pod that has no request under way.
    pub fn forget(&mut self, uid: &str) {
        if let Some(slot) = self.pods.get(uid).filter(|slot| !slot.in_flight) {
            if let Some((at, number)) = slot.place {
                self.waiting.remove(&(at, number, uid.to_owned()));
            }
            self.pods.remove(uid);
        }
    }

    /// Whose turn it is.
    pub fn next(&mut self, now: Instant) -> Next {
        let most = if self.away.is_some() { 1 } else { self.most };
        if self.in_flight >= most {
            return Next::Wait(None);
        }
        let Some((at, _, _)) = self.waiting.first() else { return Next::Wait(None) };
        let at = self.away.as_ref().map_or(*at, |away| (*at).max(away.until));
        if at > now {
            return Next::Wait(Some(at));
        }
        let Some((_, _, uid)) = self.waiting.pop_first() else { return Next::Wait(None) };
        let slot = self.pods.entry(uid.clone()).or_default();
        (slot.place, slot.in_flight, slot.again) = (None, true, false);
        self.in_flight += 1;
        Next::Go(uid)
    }

    /// A pod that [`Self::next`] gave was looked at. `asked`: the API server was asked about it.
    pub fn done(&mut self, uid: &str, outcome: Outcome, asked: bool, now: Instant) {
        let Some(slot) = self.pods.get_mut(uid).filter(|slot| slot.in_flight) else { return };
        self.in_flight -= 1;
        slot.in_flight = false;
        let changed = std::mem::take(&mut slot.again);
        let refusals = slot.refusals;
        slot.refusals = if matches!(outcome, Outcome::Refused(_)) { refusals + 1 } else { 0 };
        if asked {
            self.away = match outcome {
                Outcome::Away => {
                    let times = self.away.as_ref().map_or(0, |away| away.times + 1);
                    Some(Away { times, until: now + AWAY_AGAIN.nth(times) })
                }
                _ => None,
            };
        }
        match outcome {
            Outcome::Done | Outcome::Later(_) if changed => self.wait(uid, now),
            Outcome::Done => drop(self.pods.remove(uid)),
            Outcome::Later(time) => self.wait(uid, now + time),
            Outcome::Refused(after) => self.wait(uid, now + after.unwrap_or(REFUSED_AGAIN.nth(refusals))),
            // The gate for all says when.
            Outcome::Away => self.wait(uid, now),
        }
    }

    /// Whether there is nothing to write and nothing under way.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Whether there is nothing to write of this pod, and nothing under way.
    #[cfg(test)]
    pub fn is_idle(&self, uid: &str) -> bool {
        !self.pods.contains_key(uid)
    }

    /// Whether the API server did not answer the last request.
    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }

    fn wait(&mut self, uid: &str, at: Instant) {
        let number = self.next_number;
        self.next_number += 1;
        let slot = self.pods.entry(uid.to_owned()).or_default();
        if let Some((at, number)) = slot.place.replace((at, number)) {
            self.waiting.remove(&(at, number, uid.to_owned()));
        }
        self.waiting.insert((at, number, uid.to_owned()));
    }
}

#[cfg(test)]
mod tests;
