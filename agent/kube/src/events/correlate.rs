//! Joins and limits events as client-go's recorder does (`EventCorrelator` with its defaults): equal ones are
//! counted on one object, ten similar ones in ten minutes become one, and each object has a budget. Pure: the
//! time is given.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{Involved, Occurrence};
use nodewarden_tasks::rate::Rate;

/// So many similar events are written one by one (`defaultAggregateMaxEvents`).
const SIMILAR: usize = 10;
/// Similar ones further apart than this have nothing to do with each other
/// (`defaultAggregateIntervalInSeconds`).
const INTERVAL: Duration = Duration::from_secs(600);
/// Events of one object at once, and one more every so many seconds (`defaultSpamBurst`, `defaultSpamQPS`).
const BURST: u32 = 25;
const REFILL_SECONDS: f64 = 300.0;
/// What is remembered of; client-go has 4096. What was seen longest ago is forgotten first.
const REMEMBERED: usize = 1024;

/// How much of its object's name is in an event's, which may have 253 characters.
const LONGEST_NAME: usize = 230;

/// What is to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new object.
    Create(Entry),
    /// This object again, with its new count, time and message.
    Update(Entry),
    /// Nothing: its object has had too many.
    Skip,
}

/// One event object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `metadata.name`.
    pub name: String,
    /// What happened last.
    pub last: Occurrence,
    /// `firstTimestamp`.
    pub first: Timestamp,
    /// `count`.
    pub count: i32,
    /// Identifies it here.
    pub key: u64,
}

/// What is remembered of the events before.
#[derive(Debug, Default)]
pub struct Correlator {
    similar: HashMap<u64, Similar>,
    written: HashMap<u64, Written>,
    budgets: HashMap<u64, Budget>,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<u64>,
    last: Instant,
}

#[derive(Debug)]
struct Written {
    name: String,
    first: Timestamp,
    count: i32,
    last: Instant,
}

#[derive(Debug)]
struct Budget {
    rate: Rate,
    last: Instant,
}

impl Correlator {
    /// What to write for this. `Create` and `Update` count as written, unless [`Self::forget`] is called.
    pub fn take(&mut self, occurrence: Occurrence, now: Instant) -> Write {
        let (occurrence, key) = self.aggregate(occurrence, now);
        let spam = hash(&source(&occurrence.involved));
        let entry = self.observe(occurrence, key, now);
        let budget = self
            .budgets
            .entry(spam)
            .or_insert_with(|| Budget { rate: Rate::new(1.0 / REFILL_SECONDS, BURST, now), last: now });
        budget.last = now;
        let has_budget = budget.rate.take(now);
        limit(&mut self.budgets, |budget| budget.last);
        match entry.count {
            _ if !has_budget => Write::Skip,
            1 => Write::Create(entry),
            _ => Write::Update(entry),
        }
    }

    /// The object is not at the API server: the next one like it is a new object.
    pub fn forget(&mut self, key: u64) {
        self.written.remove(&key);
    }

    /// Turns the eleventh similar one and those after it into one that stands for them all.
    fn aggregate(&mut self, mut occurrence: Occurrence, now: Instant) -> (Occurrence, u64) {
        let Occurrence { involved, kind, reason, message, .. } = &occurrence;
        let own = hash(&(involved, kind, reason, message));
        let group = hash(&(source(involved), kind, reason));
        let similar =
            self.similar.entry(group).or_insert_with(|| Similar { messages: BTreeSet::new(), last: now });
        if now.saturating_duration_since(similar.last) > INTERVAL {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(hash(message));
        let many = similar.messages.len() >= SIMILAR;
        if many {
            // Room for the next message, which would count as known otherwise.
            similar.messages.pop_first();
            occurrence.message.insert_str(0, "(combined from similar events): ");
        }
        limit(&mut self.similar, |similar| similar.last);
        (occurrence, if many { group } else { own })
    }

    fn observe(&mut self, occurrence: Occurrence, key: u64, now: Instant) -> Entry {
        let time = occurrence.time;
        let written = self.written.entry(key).or_insert_with(|| Written {
            name: name(&occurrence),
            first: time,
            count: 0,
            last: now,
        });
        written.count = written.count.saturating_add(1);
        written.last = now;
        let entry = Entry {
            name: written.name.clone(),
            first: written.first,
            count: written.count,
            last: occurrence,
            key,
        };
        limit(&mut self.written, |written| written.last);
        entry
    }
}

/// Object and time, as every client names its events.
fn name(occurrence: &Occurrence) -> String {
    // Those of one object at one moment differ by what happened.
    let nanoseconds = occurrence.time.as_nanosecond();
    let salt = hash(&(&occurrence.reason, &occurrence.message, &occurrence.involved)) & 0xff;
    let object: String = occurrence.involved.name.chars().take(LONGEST_NAME).collect();
    format!("{}.{:x}{salt:02x}", object.trim_end_matches(['-', '.']), nanoseconds)
}

/// The object without the container in it.
fn source(involved: &Involved) -> (&str, &str, &str, &str) {
    (involved.kind, &involved.namespace, &involved.name, &involved.uid)
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Forgets the half that was seen longest ago when there are too many.
fn limit<T>(map: &mut HashMap<u64, T>, last: impl Fn(&T) -> Instant) {
    if map.len() > REMEMBERED {
        let mut times: Vec<_> = map.values().map(&last).collect();
        let middle = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(middle);
        let middle = *middle;
        map.retain(|_, value| last(value) >= middle);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::events::Kind;

    fn occurrence(pod: &str, reason: &str, message: &str) -> Occurrence {
        let involved = Involved {
            kind: "Pod",
            namespace: "shop".into(),
            name: pod.into(),
            uid: pod.into(),
            field_path: String::new(),
        };
        let time = Timestamp::UNIX_EPOCH;
        Occurrence { involved, kind: Kind::Normal, reason: reason.into(), message: message.into(), time }
    }

    fn entry(write: Write) -> (bool, Entry) {
        match write {
            Write::Create(entry) => (true, entry),
            Write::Update(entry) => (false, entry),
            Write::Skip => panic!("skipped"),
        }
    }

    #[test]
    fn equal_events_are_counted_on_one_object() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let (new, first) = entry(correlator.take(occurrence("a", "Pulled", "x"), now));
        assert!(new && first.count == 1);
        let (new, again) = entry(correlator.take(occurrence("a", "Pulled", "x"), now));
        assert!(!new && again.count == 2 && again.name == first.name);
        let (new, other) = entry(correlator.take(occurrence("a", "Pulled", "y"), now));
        assert!(new && other.name != first.name);
        correlator.forget(first.key);
        let (new, after) = entry(correlator.take(occurrence("a", "Pulled", "x"), now));
        assert!(new && after.count == 1, "the API server no longer had it");
    }

    #[test]
    fn ten_similar_events_become_one_until_there_was_a_pause() {
        let (mut correlator, mut now) = (Correlator::default(), Instant::now());
        let mut take = |number: usize, now| {
            entry(correlator.take(occurrence("a", "Unhealthy", &number.to_string()), now))
        };
        for number in 0..9 {
            assert!(take(number, now).0);
        }
        let (new, ten) = take(9, now);
        assert!(new && ten.last.message == "(combined from similar events): 9");
        let (new, eleven) = take(10, now);
        assert!(!new && eleven.count == 2 && eleven.name == ten.name);
        now += INTERVAL + Duration::from_secs(1);
        assert_eq!(take(11, now).1.last.message, "11");
    }

    #[test]
    fn an_object_has_a_budget_of_its_own() {
        let (mut correlator, mut now) = (Correlator::default(), Instant::now());
        let mut written = |pod: &str, now| {
            let all = (0..40).map(|_| correlator.take(occurrence(pod, "BackOff", "x"), now));
            all.filter(|write| *write != Write::Skip).count()
        };
        assert_eq!((written("a", now), written("b", now)), (25, 25));
        now += Duration::from_secs(301);
        assert_eq!(written("a", now), 1);
    }

    #[test]
    fn only_so_much_is_remembered() {
        let (mut correlator, mut now) = (Correlator::default(), Instant::now());
        for number in 0..5000 {
            now += Duration::from_millis(1);
            correlator.take(occurrence(&number.to_string(), "Pulled", "x"), now);
        }
        assert!(correlator.written.len() <= REMEMBERED && correlator.budgets.len() <= REMEMBERED);
        assert!(
            !entry(correlator.take(occurrence("4999", "Pulled", "x"), now)).0,
            "the newest are remembered"
        );
    }

    proptest! {
        /// A count never falls, and an object is updated only after it was made.
        #[test]
        fn objects_are_made_once_and_counted_up(steps in proptest::collection::vec((0u8..3, 0u8..15, 0u64..700), 1..200)) {
            let (mut correlator, mut now) = (Correlator::default(), Instant::now());
            let mut counts: HashMap<u64, i32> = HashMap::new();
            let mut skipped = BTreeSet::new();
            for (pod, message, pause) in steps {
                now += Duration::from_secs(pause);
                match correlator.take(occurrence(&pod.to_string(), "Unhealthy", &message.to_string()), now) {
                    Write::Create(entry) => prop_assert!(entry.count == 1 && counts.insert(entry.key, 1).is_none()),
                    Write::Update(entry) => {
                        let before = counts.insert(entry.key, entry.count);
                        prop_assert!(before.is_some_and(|before| before < entry.count) || !skipped.is_empty());
                    }
                    Write::Skip => drop(skipped.insert(pod)),
                }
            }
        }
    }
}
