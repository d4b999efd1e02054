//! Memory runs out: from the moment that less is available than the threshold until the pod that took it is killed, dead, and
//! its memory back; and that nobody else goes.

mod judge;
mod round;
mod sampler;
mod site;

use super::{Bench, Bound, Figure, Run};
use crate::harness::Failure;
use judge::Series;
use site::Site;

pub struct Eviction;

/// Runs of each pace, on a record and on a quick look.
const RUNS: [usize; 2] = [50, 5];
/// Bytes a second; 0 for as fast as it goes.
const PACES: [(&str, u64); 3] =
    [("100 MB/s", 100_000_000), ("500 MB/s", 500_000_000), ("as fast as it can", 0)];

/// From the crossing until the pod is killed, and until its processes are dead; p99.
const KILL_P99_MS: f64 = 50.0;
const DEAD_P99_MS: f64 = 200.0;

impl Bench for Eviction {
    fn name(&self) -> &'static str {
        "eviction"
    }

    fn about(&self) -> &'static str {
        "a pod that eats memory at three paces: from the threshold to its kill, its death and its memory back"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let runs = RUNS[usize::from(run.quick)];
        let before = judge::oom_kills()?;
        let mut site = Site::new(run.context)?;
        let mut figures = Vec::new();
        let mut others = 0;
        for (name, pace) in PACES {
            run.progress(&format!("{runs} pods that eat {name}"));
            let mut series = Series::default();
            for n in 0..runs {
                let round =
                    round::round(run, &mut site, pace, &format!("eater-{}-{n:02}", pace / 1_000_000))?;
                others += round.others;
                series.add(&round);
            }
            figures.extend(of_pace(name, &series));
        }
        site.finish()?;
        figures.extend(of_all(others, judge::oom_kills()?.saturating_sub(before)));
        Ok(figures)
    }
}

fn of_pace(pace: &str, series: &Series) -> Vec<Figure> {
    let figure = |name: &str, unit, values: &[f64], bound| {
        Figure::of("eviction", format!("{name}, {pace}"), unit, values, bound)
    };
    let p99 = |bound| Bound { p50: None, p99: Some(bound) };
    vec![
        figure("crossing to kill", "ms", &series.kill, p99(KILL_P99_MS)),
        figure("crossing to process dead", "ms", &series.dead, p99(DEAD_P99_MS)),
        figure("crossing to memory back", "ms", &series.back, Bound::NONE),
        figure("below the threshold at worst", "MB", &series.below, Bound::NONE),
    ]
}

fn of_all(others: usize, oom_kills: u64) -> Vec<Figure> {
    let one = |name: &str, unit, value| Figure::one("eviction", name, unit, value, Bound::p50(1.0));
    vec![
        one("other pods that went or began anew", "pods", others as f64),
        one("OOM kills of the kernel meanwhile", "kills", oom_kills as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_kill_in_fifty_and_one_pod_too_many_break_their_bounds() {
        let series = |kills: &[f64]| Series {
            kill: kills.to_vec(),
            dead: vec![100.0; kills.len()],
            back: vec![900.0; kills.len()],
            below: vec![40.0; kills.len()],
        };
        let holds = |figures: Vec<Figure>| figures.iter().map(|f| f.holds).collect::<Vec<_>>();
        assert_eq!(holds(of_pace("x", &series(&[10.0; 50]))), [true; 4]);
        let mut late = [10.0; 50];
        late[7] = 60.0;
        assert_eq!(holds(of_pace("x", &series(&late))), [false, true, true, true]);
        assert_eq!(holds(of_pace("x", &series(&[]))), [false; 4]);
        assert_eq!(holds(of_all(0, 0)), [true, true]);
        assert_eq!(holds(of_all(1, 0)), [false, true]);
        assert_eq!(holds(of_all(0, 1)), [true, false]);
    }
}
