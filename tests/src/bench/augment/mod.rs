//! Eviction beside the real kubelet of 1.20.2: a pod uses up memory, with nodewarden in mode augment and with
//! the kubelet alone in turn. The agent's threshold is somewhat before the kubelet's, as by default.
//!
//! A kubelet before 1.22 keeps its own view of a pod's phase, so that the pod is deleted there; with a later
//! one its status becomes Failed. "Known to the API" is whichever comes first.
//!
//! Benches of their own are [`kills`], of Events of killed children, and [`cost`], of many pods that do
//! nothing.

mod cost;
mod fixture;
mod kills;
mod round;

use super::eviction::PACES;
use super::{Bench, Bound, Figure, Run};
use crate::e2e::cluster::options::own_control_plane;
use crate::ensure;
use crate::fixture::{ClusterPrograms, ControlPlane, oom_kills};
use crate::harness::Failure;
use fixture::Beside;
use round::Round;

pub use cost::AugmentCost;
pub use kills::AugmentEvents;

pub struct Augment;

/// Rounds at each rate and of each kind, on a full and on a quick run.
const RUNS: [usize; 2] = [50, 3];
/// How many rounds of a rate and kind may be repeated because something else used memory.
const REPEATED: usize = 5;
/// Bounds with nodewarden, p99 in milliseconds: crossing to kill, and death to a change at the API server.
const KILL_P99_MS: f64 = 50.0;
const KNOWN_P99_MS: f64 = 1000.0;

impl Bench for Augment {
    fn name(&self) -> &'static str {
        "augment"
    }

    fn about(&self) -> &'static str {
        "eviction in mode augment beside the real kubelet, and by the kubelet alone"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let runs = run.sizes.pairs.unwrap_or(RUNS[usize::from(run.quick)]);
        let control_plane = control_plane(run)?;
        let mut beside = Beside::new(run.context, control_plane.cluster())?;
        let mut figures = Vec::new();
        let mut sums = [Sum::default(); 2];
        for (name, pace) in
            PACES.into_iter().filter(|(_, pace)| run.sizes.rate.is_none_or(|own| own == *pace))
        {
            for (kind, sum) in [Kind::Augment, Kind::Kubelet].into_iter().zip(&mut sums) {
                run.progress(&format!("{runs} pods that use up memory, {name}, {}", kind.name()));
                let rounds = rounds(run, &mut beside, kind, pace, runs, sum)?;
                let of_pace = of_pace(kind, name, &rounds);
                // A run takes more than an hour: what it has is not lost if it ends early.
                of_pace.iter().for_each(|figure| run.progress(&figure.line()));
                figures.extend(of_pace);
            }
        }
        beside.finish()?;
        for (kind, sum) in [Kind::Augment, Kind::Kubelet].into_iter().zip(&sums) {
            figures.extend(of_all(kind, sum));
        }
        Ok(figures)
    }
}

/// Starts a control plane for the kubelet.
fn control_plane(run: &Run<'_>) -> Result<ControlPlane, Failure> {
    ClusterPrograms::find_kubelet()?;
    run.progress("starting a control plane and the kubelet");
    own_control_plane(run.context, None, false)
}

/// What acts on memory pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// nodewarden beside the kubelet.
    Augment,
    /// The kubelet alone.
    Kubelet,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Augment => "nodewarden beside the kubelet",
            Self::Kubelet => "kubelet alone",
        }
    }

    /// This bound for nodewarden; the kubelet has none.
    fn bound(self, bound: Bound) -> Bound {
        if self == Self::Augment { bound } else { Bound::NONE }
    }
}

/// What must not happen, over all rounds of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    others: usize,
    restarts: u64,
    oom_kills: u64,
}

fn rounds(
    run: &Run<'_>,
    beside: &mut Beside<'_>,
    kind: Kind,
    pace: u64,
    runs: usize,
    sum: &mut Sum,
) -> Result<Vec<Round>, Failure> {
    let before = oom_kills()?;
    beside.set_agent(kind == Kind::Augment)?;
    let mut rounds = Vec::new();
    for number in 0..runs + REPEATED {
        if rounds.len() == runs {
            break;
        }
        let eater = format!("eater-{}-{}-{number:02}", kind as u8, pace / 1_000_000);
        let Some(round) = round::round(run, beside, pace, &eater)? else { continue };
        sum.others += round.others;
        sum.restarts += round.restarts;
        rounds.push(round);
    }
    ensure!(rounds.len() == runs, "more than {REPEATED} rounds had to be repeated");
    sum.oom_kills += oom_kills()?.saturating_sub(before);
    Ok(rounds)
}

fn of_pace(kind: Kind, pace: &str, rounds: &[Round]) -> Vec<Figure> {
    let figure = |what: &str, unit, values: Vec<f64>, p99: Option<f64>| {
        let bound = kind.bound(p99.map_or(Bound::NONE, |p99| Bound { p50: None, p99: Some(p99) }));
        Figure::of("augment", format!("{what}, {pace}, {}", kind.name()), unit, &values, bound)
    };
    let all = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
    let mut figures = Vec::new();
    if kind == Kind::Augment {
        figures.push(figure(
            "crossing to kill",
            "ms",
            all(|one| one.kill.unwrap_or(f64::NAN)),
            Some(KILL_P99_MS),
        ));
    }
    figures.push(figure("crossing to process dead", "ms", all(|one| one.dead), None));
    figures.push(figure("process dead to known to the API", "ms", all(|one| one.known), Some(KNOWN_P99_MS)));
    figures.push(figure("below the threshold at worst", "MB", all(|one| one.below), None));
    figures
}

fn of_all(kind: Kind, sum: &Sum) -> Vec<Figure> {
    let one = |what: &str, unit, value| {
        let bound = kind.bound(Bound::p50(1.0));
        Figure::one("augment", format!("{what}, {}", kind.name()), unit, value, bound)
    };
    vec![
        one("other pods evicted or restarted", "pods", sum.others as f64),
        one("containers of evicted pods restarted", "restarts", sum.restarts as f64),
        one("OOM kills of the kernel meanwhile", "kills", sum.oom_kills as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodewarden_has_bounds() {
        let late = Round { kill: Some(60.0), dead: 70.0, known: 1500.0, below: 9.0, others: 1, restarts: 1 };
        let holds = |figures: Vec<Figure>| figures.iter().map(|figure| figure.holds).collect::<Vec<_>>();
        assert_eq!(holds(of_pace(Kind::Augment, "x", &[late])), [false, true, false, true]);
        assert_eq!(holds(of_pace(Kind::Kubelet, "x", &[late])), [true; 3]);
        let sum = Sum { others: 1, restarts: 1, oom_kills: 0 };
        assert_eq!(holds(of_all(Kind::Augment, &sum)), [false, false, true]);
        assert_eq!(holds(of_all(Kind::Kubelet, &sum)), [true; 3]);
    }
}
