//! Measures how the agent handles memory pressure: the time from crossing the threshold until the pod that
//! caused it is killed, is dead and its memory is available again. No other pod may be evicted.

mod bare;
mod fixture;
pub(super) mod judge;
pub(super) mod round;
pub(super) mod sampler;
mod stall_detector;

use super::{Bench, Bound, Figure, Run};
use crate::fixture::oom_kills;
use crate::harness::Failure;
use fixture::EvictionFixture;
use judge::{Round, Series};

pub struct Eviction;

/// Rounds at each rate, on a full and on a quick run.
const RUNS: [usize; 2] = [50, 5];
/// Rounds without an agent.
const BARE_RUNS: [usize; 2] = [20, 3];
/// Rounds in which a CPU of the machine stood still are repeated, up to this many times as many rounds in
/// all.
const MOST_TRIES: usize = 3;
/// Names and bytes per second of the rates; 0 for as fast as possible.
pub(super) const PACES: [(&str, u64); 3] =
    [("100 MB/s", 100_000_000), ("500 MB/s", 500_000_000), ("as fast as it can", 0)];

/// Bounds of the time from the crossing until the pod is killed and until its processes are dead; p99 in
/// milliseconds.
const KILL_P99_MS: f64 = 50.0;
const DEAD_P99_MS: f64 = 200.0;
/// Where they are wanted.
const KILL_GOAL_MS: Bound = Bound::both(1.0, 5.0);
const DEAD_GOAL_MS: Bound = Bound { p50: None, p99: Some(30.0) };

impl Bench for Eviction {
    fn name(&self) -> &'static str {
        "eviction"
    }

    fn about(&self) -> &'static str {
        "a pod uses up memory at three rates: time from the threshold to its kill, its death and its memory back"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let runs = RUNS[usize::from(run.quick)];
        let before = oom_kills()?;
        let mut fixture = EvictionFixture::new(run.context)?;
        let mut figures = Vec::new();
        let mut others = 0;
        for (name, pace) in PACES {
            run.progress(&format!("{runs} pods that use up memory, {name}"));
            let mut of_pace = OfPace::default();
            for n in 0..runs * MOST_TRIES {
                if of_pace.undisturbed.kill.len() == runs {
                    break;
                }
                let eater = format!("eater-{}-{n:02}", pace / 1_000_000);
                let round = round::round(run, &mut fixture, pace, &eater)?;
                others += round.others;
                of_pace.add(&round);
            }
            let bare = bare_series(run, &mut fixture, name, pace)?;
            figures.extend(of_pace.figures(name, runs, &bare));
        }
        fixture.finish()?;
        figures.extend(of_all(others, oom_kills()?.saturating_sub(before)));
        Ok(figures)
    }
}

/// What a thread takes that only reads and kills.
fn bare_series(
    run: &Run<'_>,
    fixture: &mut EvictionFixture<'_>,
    name: &str,
    pace: u64,
) -> Result<Series, Failure> {
    let runs = BARE_RUNS[usize::from(run.quick)];
    run.progress(&format!("{runs} pods that use up memory, {name}, without an agent"));
    let mut bare = Series::default();
    for n in 0..runs {
        bare.add(&bare::round(run, fixture, pace, &format!("bare-{}-{n:02}", pace / 1_000_000))?);
    }
    Ok(bare)
}

/// All rounds at one rate, and those in which no CPU of the machine stood still. Only the latter measure the
/// agent alone.
#[derive(Default)]
struct OfPace {
    all: Series,
    undisturbed: Series,
}

impl OfPace {
    fn add(&mut self, round: &Round) {
        self.all.add(round);
        if round.stood == 0.0 {
            self.undisturbed.add(round);
        }
    }

    /// The figures. `runs` is the wanted number of undisturbed rounds, `bare` what rounds without an agent
    /// took.
    fn figures(&self, pace: &str, runs: usize, bare: &Series) -> Vec<Figure> {
        let figure = |name: &str, unit, values: &[f64], bound| {
            Figure::of("eviction", format!("{name}, {pace}"), unit, values, bound)
        };
        let p99 = |bound| Bound { p50: None, p99: Some(bound) };
        let (own, all) = (&self.undisturbed, &self.all);
        let missing = runs.saturating_sub(own.kill.len());
        let missing = Figure::one(
            "eviction",
            format!("undisturbed rounds missing of {runs}, {pace}"),
            "rounds",
            missing as f64,
            Bound::p50(1.0),
        );
        vec![
            figure("crossing to kill", "ms", &own.kill, p99(KILL_P99_MS)).with_goal(KILL_GOAL_MS, &bare.kill),
            figure("crossing to process dead", "ms", &own.dead, p99(DEAD_P99_MS))
                .with_goal(DEAD_GOAL_MS, &bare.dead),
            figure("crossing to memory back", "ms", &own.back, Bound::NONE),
            missing,
            figure(&format!("all {} rounds: crossing to kill", all.kill.len()), "ms", &all.kill, Bound::NONE),
            figure("all rounds: crossing to process dead", "ms", &all.dead, Bound::NONE),
            figure("all rounds: below the threshold at worst", "MB", &all.below, Bound::NONE),
            figure("bare: crossing to kill", "ms", &bare.kill, Bound::NONE),
            figure("bare: crossing to process dead", "ms", &bare.dead, Bound::NONE),
        ]
    }
}

fn of_all(others: usize, oom_kills: u64) -> Vec<Figure> {
    let one = |name: &str, unit, value| Figure::one("eviction", name, unit, value, Bound::p50(1.0));
    vec![
        one("other pods evicted or restarted", "pods", others as f64),
        one("OOM kills of the kernel meanwhile", "kills", oom_kills as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each figure holds on a machine on which a bare thread misses the goals too.
    fn of(kills: &[(f64, f64)]) -> Vec<bool> {
        beside(kills, 2.0, 90.0)
    }

    fn beside(kills: &[(f64, f64)], bare_kill: f64, bare_dead: f64) -> Vec<bool> {
        let round = |kill, dead, stood| Round { kill, dead, back: 900.0, below: 40.0, others: 0, stood };
        let (mut of_pace, mut bare) = (OfPace::default(), Series::default());
        bare.add(&round(bare_kill, bare_dead, 0.0));
        for (kill, stood) in kills.iter().copied() {
            of_pace.add(&round(kill, 100.0, stood));
        }
        of_pace.figures("x", 50, &bare).iter().map(|figure| figure.holds).collect()
    }

    #[test]
    fn one_late_kill_in_fifty_or_one_other_pod_misses_a_bound() {
        let mut kills = [(4.0, 0.0); 50];
        assert_eq!(of(&kills), [true; 9]);
        kills[7] = (60.0, 0.0);
        assert_eq!(of(&kills), [false, true, true, true, true, true, true, true, true]);
        assert_eq!(of(&[]), [false, false, false, false, false, false, false, true, true]);
        let holds = |figures: Vec<Figure>| figures.iter().map(|f| f.holds).collect::<Vec<_>>();
        assert_eq!(holds(of_all(0, 0)), [true, true]);
        assert_eq!(holds(of_all(1, 0)), [false, true]);
        assert_eq!(holds(of_all(0, 1)), [true, false]);
    }

    #[test]
    fn goals_are_missed_only_where_a_bare_thread_reaches_them() {
        let kills = [(4.0, 0.0); 50];
        assert_eq!(beside(&kills, 0.5, 20.0)[..2], [false, false]);
        assert_eq!(beside(&kills, 1.5, 20.0)[..2], [true, false]);
        assert_eq!(beside(&kills, 0.5, 35.0)[..2], [false, true]);
    }

    #[test]
    fn a_round_with_a_stalled_cpu_counts_only_among_all_rounds() {
        let mut kills = vec![(4.0, 0.0); 50];
        kills.push((400.0, 390.0));
        assert_eq!(of(&kills), [true; 9], "another round replaced it");
        kills.remove(0);
        assert_eq!(of(&kills), [true, true, true, false, true, true, true, true, true]);
    }
}
