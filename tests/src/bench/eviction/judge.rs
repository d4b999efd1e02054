//! Computes the figures of a round from what was recorded.

use jiff::Timestamp;
use nodewarden_model::Decision;

use super::sampler::Sample;
use crate::e2e::pressure::fixture::chosen;

/// The result of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Milliseconds from crossing the threshold to the kill, to the death, and until the memory is available
    /// again.
    pub kill: f64,
    pub dead: f64,
    pub back: f64,
    /// How far available memory fell below the threshold, in megabytes.
    pub below: f64,
    /// Number of uninvolved pods that were evicted or restarted.
    pub others: usize,
    /// The longest time that a CPU of this machine stood still between the crossing and the death, in
    /// milliseconds.
    pub stood: f64,
}

/// The values of many rounds, one per round.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    pub kill: Vec<f64>,
    pub dead: Vec<f64>,
    pub back: Vec<f64>,
    pub below: Vec<f64>,
}

impl Series {
    pub fn add(&mut self, round: &Round) {
        for (values, value) in [
            (&mut self.kill, round.kill),
            (&mut self.dead, round.dead),
            (&mut self.back, round.back),
            (&mut self.below, round.below),
        ] {
            values.push(value);
        }
    }
}

/// The times found in the samples of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passed {
    /// The last sample before available memory fell below the threshold. A sample may be late, and this way
    /// none of the agent's time is missing.
    pub crossing: Timestamp,
    /// The first sample after `dead` with enough memory again.
    pub back: Timestamp,
    /// Lowest available memory in bytes.
    pub lowest: u64,
}

/// Finds the crossing of the threshold and the return above it. If no sample was below the threshold, because
/// the agent was quick, the crossing is the last sample before the kill. `None` if the memory has not come
/// back.
pub fn passed(samples: &[Sample], threshold: u64, killed: Timestamp, dead: Timestamp) -> Option<Passed> {
    let below = samples.iter().position(|sample| sample.available < threshold || sample.at >= killed)?;
    let crossing = samples[below.saturating_sub(1)].at;
    let back = samples.iter().find(|sample| sample.at >= dead && sample.available >= threshold)?.at;
    let lowest = samples.iter().map(|sample| sample.available).min()?;
    Some(Passed { crossing, back, lowest })
}

/// The longest time between two samples, in milliseconds, from the last one before `from` to the first one
/// after `to`. If it is long, the whole machine stood still, not only the agent.
pub fn longest_gap(samples: &[Sample], from: Timestamp, to: Timestamp) -> f64 {
    let within = samples.windows(2).filter(|pair| pair[1].at >= from && pair[0].at <= to);
    within.map(|pair| milliseconds(pair[0].at, pair[1].at)).fold(0.0, f64::max)
}

/// When the pod was killed according to the decision: the end of its step `kill`.
pub fn killed(decision: &Decision) -> Option<Timestamp> {
    let step = decision.steps.iter().find(|step| step.what == "kill")?;
    let after = i64::try_from(step.after_us + step.took_us).ok()?;
    decision.time.checked_add(jiff::SignedDuration::from_micros(after)).ok()
}

/// Milliseconds between two times; 0 if `to` is before `from`.
pub fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0) * 1e3
}

/// Of the decisions since `begun`: the first that chose this pod, and how many other pods were chosen.
pub fn evictions<'d>(
    decisions: &'d [Decision],
    begun: Timestamp,
    pod: &str,
) -> (Option<&'d Decision>, usize) {
    let acted = decisions.iter().filter(|one| one.kind == "eviction" && !one.would && one.time >= begun);
    let (mut own, mut others) = (None, 0);
    for decision in acted {
        for name in chosen(decision) {
            if name == pod && own.is_none() {
                own = Some(decision);
            } else {
                others += 1;
            }
        }
    }
    (own, others)
}

#[cfg(test)]
mod tests {
    use nodewarden_model::{CandidateSeen, DecisionStep};

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + milliseconds).unwrap()
    }

    #[test]
    fn the_crossing_is_before_the_first_reading_below() {
        let sample = |(ms, available)| Sample { at: at(ms), available };
        let samples: Vec<_> =
            [(0, 30), (1, 21), (2, 19), (3, 5), (4, 20), (5, 12), (6, 40)].map(sample).to_vec();
        let seen = passed(&samples, 20, at(4), at(5)).unwrap();
        assert_eq!((seen.crossing, seen.back, seen.lowest), (at(1), at(6), 5));
        assert_eq!(passed(&samples, 20, at(4), at(7)), None, "the memory is not back");
        assert_eq!(passed(&samples, 5, at(7), at(0)), None, "the threshold was never crossed");
        let unseen = passed(&samples, 5, at(4), at(4)).unwrap();
        assert_eq!((unseen.crossing, unseen.back), (at(3), at(4)), "no sample was below");
        assert_eq!(passed(&[], 5, at(0), at(0)), None);
    }

    #[test]
    fn the_kill_is_the_end_of_its_step() {
        let step = |what: &str, after_us, took_us| DecisionStep {
            what: what.into(),
            after_us,
            took_us,
            result: String::new(),
        };
        let candidate = |name: &str, chosen| CandidateSeen {
            uid: String::new(),
            namespace: "default".into(),
            name: name.into(),
            qos: "BestEffort".into(),
            priority: 0,
            usage: 1,
            request: 0,
            chosen,
            spared: String::new(),
            incomplete: false,
        };
        let decision = |time, kind: &str, would, chosen: &str| Decision {
            number: 1,
            time,
            kind: kind.into(),
            would,
            woken_by: "timer".into(),
            signals: Vec::new(),
            candidates: ["a", "b"].map(|name| candidate(name, name == chosen)).to_vec(),
            steps: vec![step("read", 0, 900), step("kill", 1500, 500)],
            outcome: String::new(),
        };
        let one = decision(at(10), "eviction", false, "a");
        assert_eq!(killed(&one), Some(at(12)));
        assert_eq!(milliseconds(at(10), at(12)), 2.0);
        assert_eq!(milliseconds(at(12), at(10)), 0.0);
        let all = [
            decision(at(30), "eviction", false, "b"),
            decision(at(20), "eviction", true, "b"),
            decision(at(15), "preemption", false, "b"),
            one,
            decision(at(5), "eviction", false, "b"),
        ];
        let (own, others) = evictions(&all, at(9), "a");
        assert_eq!((own.map(|one| one.time), others), (Some(at(10)), 1));
        assert_eq!(evictions(&all, at(40), "a"), (None, 0));
    }
}
