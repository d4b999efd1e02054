//! Bursts of N pods in turn, by the agent and by bare calls. Each round compares one burst by the agent with
//! two by bare calls, and these with each other: a machine that becomes slower from round to round changes
//! neither. A fourth burst is the floor: bare calls that keep a record of each pod on disk, as an agent must.

use super::bare::{Bare, Keeps};
use super::evidence::Evidence;
use super::fixture::PodsFixture;
use super::idle::CpuByThread;
use super::many::{self, Best, REST, Took};
use crate::bench::statistics::{median, noise};
use crate::bench::{Bound, Figure, Run};
use crate::harness::Failure;

/// The most that is accepted as noise, also on a machine where equal bursts differ by more.
const MOST_NOISE: f64 = 0.05;
/// Bursts of a round: one by the agent, two by bare calls, which are compared with each other, and one by
/// bare calls with records.
const BURSTS: usize = 4;
const WITH_RECORDS: usize = 3;

/// What the bursts of each round took.
#[derive(Debug, Default)]
pub struct Rounds(Vec<Round>);

#[derive(Debug, Clone, Copy)]
struct Round {
    agent: Took,
    calls: [Took; 2],
    with_records: Took,
}

/// Measures `rounds` rounds of `pods` pods each. The order of the bursts of a round rotates.
///
/// # Errors
/// A pod does not start or end.
pub fn measure(
    run: &Run<'_>,
    fixture: &PodsFixture<'_>,
    bare: &Bare,
    evidence: &Evidence,
    (pods, rounds): (usize, usize),
    best: Best,
) -> Result<Rounds, Failure> {
    let mut all = Rounds::default();
    for round in 0..rounds {
        let nothing = Took { up: 0.0, down: 0.0 };
        let mut took = [nothing; BURSTS];
        for burst in 0..BURSTS {
            std::thread::sleep(REST);
            let which = (round + burst) % BURSTS;
            let keeps = if which == WITH_RECORDS { Keeps::Records } else { Keeps::Nothing };
            took[which] = match which {
                0 => by_agent(run, fixture, evidence, pods)?,
                _ => many::by_calls(bare, evidence, &format!("round-{round}-{which}"), pods, best, keeps)?,
            };
            run.progress(&format!(
                "round {} of {rounds}, {pods} pods by {}: {:.3} s up, {:.3} s down",
                round + 1,
                match which {
                    0 => "the agent",
                    WITH_RECORDS => "bare calls with records",
                    _ => "bare calls",
                },
                took[which].up,
                took[which].down
            ));
        }
        let [agent, one, other, with_records] = took;
        all.0.push(Round { agent, calls: [one, other], with_records });
    }
    Ok(all)
}

/// One burst by the agent. Prints the CPU time that the agent used for it.
fn by_agent(
    run: &Run<'_>,
    fixture: &PodsFixture<'_>,
    evidence: &Evidence,
    pods: usize,
) -> Result<Took, Failure> {
    let pid = fixture.agent().pid();
    let begun = CpuByThread::of(pid);
    let (took, up) = many::by_agent(fixture, evidence, pods, || {
        let up = begun.used_since(pid);
        std::thread::sleep(REST);
        Ok((up, CpuByThread::of(pid)))
    })?;
    let (up, between) = up;
    run.progress(&format!("CPU by thread, ms, up: {up}; down: {}", between.used_since(pid)));
    Ok(took)
}

impl Rounds {
    /// The figures of the bursts: what they took, and the ratios with their bounds.
    pub fn figures(&self, pods: usize, best: Best) -> Vec<Figure> {
        let up = self.of(&format!("0 to {pods} pods"), best.up, |took| took.up);
        let down = self.of(&format!("{pods} to 0 pods"), best.down, |took| took.down);
        up.into_iter().chain(down).collect()
    }

    fn of(&self, name: &str, at_once: usize, of: fn(&Took) -> f64) -> [Figure; 5] {
        let agent: Vec<f64> = self.0.iter().map(|round| of(&round.agent)).collect();
        let pairs: Vec<[f64; 2]> = self.0.iter().map(|round| round.calls.each_ref().map(of)).collect();
        let ratio = |of_round: fn(&Round) -> Took| {
            let ratios = self.0.iter().map(|round| {
                let [one, other] = round.calls.each_ref().map(of);
                2.0 * of(&of_round(round)) / (one + other)
            });
            median(&ratios.collect::<Vec<_>>())
        };
        let noise = noise(&pairs);
        let with_records = ratio(|round| round.with_records);
        let goal = Bound::p50(1.0 + noise.min(MOST_NOISE));
        let calls = format!("{name}, bare calls, {at_once} at a time");
        let to_calls = format!("{name}, agent to bare calls");
        let records = format!("{name}, bare calls with records to those without");
        let equal = format!("{name}, equal bursts differ by");
        [
            Figure::of("pods", name, "s", &agent, Bound::NONE),
            Figure::of("pods", calls, "s", pairs.as_flattened(), Bound::NONE),
            Figure::one("pods", to_calls, "", ratio(|round| round.agent), Bound::NONE)
                .with_goal(goal, &[with_records]),
            Figure::one("pods", records, "", with_records, Bound::NONE),
            Figure::one("pods", equal, "", noise, Bound::NONE),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(rounds: &[(f64, [f64; 2])]) -> (f64, bool) {
        ratio_with(rounds, 0.9)
    }

    /// `records`: what bare calls with records take, times those without.
    fn ratio_with(rounds: &[(f64, [f64; 2])], records: f64) -> (f64, bool) {
        let took = |up| Took { up, down: 1.0 };
        let round = |(agent, calls): &(f64, [f64; 2])| Round {
            agent: took(*agent),
            calls: calls.map(took),
            with_records: took(records * (calls[0] + calls[1]) / 2.0),
        };
        let rounds = Rounds(rounds.iter().map(round).collect());
        let figures = rounds.figures(20, Best { up: 4, down: 8 });
        let of = |name: &str| figures.iter().find(|f| f.name == name).unwrap();
        assert!(of("0 to 20 pods").holds && of("20 to 0 pods, bare calls, 8 at a time").holds);
        assert_eq!(of("20 to 0 pods, agent to bare calls").p50, 1.0);
        let ratio = of("0 to 20 pods, agent to bare calls");
        (ratio.p50, ratio.holds)
    }

    #[test]
    fn the_agent_may_take_what_bare_calls_take() {
        assert_eq!(ratio(&[(0.9, [1.0, 1.0]); 3]), (0.9, true));
        assert_eq!(ratio(&[(1.01, [1.0, 1.0]), (1.01, [1.0, 1.0]), (0.5, [1.0, 1.0])]), (1.01, false));
    }

    #[test]
    fn more_is_missed_only_where_bare_calls_with_records_take_less() {
        let rounds = [(1.04, [1.0, 1.0]); 3];
        assert_eq!(ratio_with(&rounds, 1.03), (1.04, true));
        assert_eq!(ratio_with(&rounds, 0.99), (1.04, false));
    }

    #[test]
    fn a_machine_that_becomes_slower_changes_nothing() {
        let slower = [(1.02, [1.0, 1.0]), (2.04, [2.0, 2.0]), (4.08, [4.0, 4.0])];
        assert_eq!(ratio(&slower), (1.02, false));
    }

    #[test]
    fn the_bound_allows_what_equal_bursts_differ_by_but_not_more_than_a_twentieth() {
        assert!(ratio(&[(1.02, [0.99, 1.01]); 3]).1);
        assert!(!ratio(&[(1.04, [0.99, 1.01]); 3]).1);
        assert!(ratio(&[(1.04, [0.5, 1.5]); 3]).1);
        assert!(!ratio(&[(1.06, [0.5, 1.5]); 3]).1);
    }
}
