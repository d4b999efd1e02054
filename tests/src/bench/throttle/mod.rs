//! Measures what throttling BestEffort pods gains for a latency-sensitive Guaranteed pod on a
//! machine with BestEffort spinners: how long the pod waits for a CPU after each wake-up, without and with
//! throttling in turn. Two more of its processes share a CPU, so that it waits noticeably on any kernel. It
//! also measures how soon BestEffort is limited and released, and how much CPU time it still gets.

use std::time::{Duration, Instant};

use super::{Bench, Bound, Figure, Run};
use crate::e2e::throttle::fixture::ThrottleFixture;
use crate::ensure_eq;
use crate::fixture::{Agent, Group};
use crate::harness::Failure;

pub struct Throttle;

/// Pairs of measurements without and with throttling, on a full and on a quick run.
const ROUNDS: [usize; 2] = [5, 1];
/// How long each measurement lasts.
const MEASURED: Duration = Duration::from_secs(10);
/// Time before a measurement for the controller to find its step.
const SETTLED: Duration = Duration::from_secs(8);
const HOLD_SECONDS: u64 = 5;
/// Time-out for each step of the controller, in seconds.
const LIMIT_S: u64 = 30;
/// How long the load runs at most: longer than a round.
const AT_MOST: Duration = Duration::from_secs(300);
/// The settings with throttling. A period of one second is a realistic choice.
const ON: &str =
    "throttle: {periodMilliseconds: 1000, holdSeconds: 5, cpu: {enabled: true, waitMilliseconds: 1}}";

/// Two p99 below this count as equal, in milliseconds: the time of a switch between processes.
const SWITCH_MS: f64 = 0.05;

/// The measurements without or with throttling.
#[derive(Debug, Default)]
struct Measured {
    /// How long the pod waited after each wake-up, in milliseconds.
    waited_ms: Vec<f64>,
    /// How many CPUs BestEffort used.
    best_effort: Vec<f64>,
}

/// Seconds until BestEffort was limited, and from the end of the load until the limits were removed.
#[derive(Debug, Default)]
struct Times {
    held: Vec<f64>,
    back: Vec<f64>,
}

impl Bench for Throttle {
    fn name(&self) -> &'static str {
        "throttle"
    }

    fn about(&self) -> &'static str {
        "a Guaranteed pod's wait for a CPU next to BestEffort spinners, without and with throttling in turn"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let mut fixture = ThrottleFixture::new(run.context)?;
        let (mut without, mut with, mut times) = (Measured::default(), Measured::default(), Times::default());
        let rounds = ROUNDS[usize::from(run.quick)];
        let mut groups = None;
        for round in 1..=rounds {
            run.progress(&format!("round {round} of {rounds}"));
            let agent = fixture.agent("")?;
            let [calm, busy] = match &groups {
                Some(made) => made,
                None => groups.insert(fixture.groups()?),
            };
            let own = fixture.files()?;
            let (rivals, spinners) = (fixture.waiting(calm, AT_MOST)?, fixture.spinners(busy)?);
            measure(&fixture, calm, busy, &mut without)?;
            drop((rivals, spinners, agent));
            let agent = fixture.agent(ON)?;
            with_throttling(run, &fixture, &agent, [calm, busy], &own, (&mut with, &mut times))?;
        }
        Ok(figures(&without, &with, &times))
    }
}

/// Waits until the controller has found its step, then measures.
fn measure(
    fixture: &ThrottleFixture<'_>,
    calm: &Group,
    busy: &Group,
    into: &mut Measured,
) -> Result<(), Failure> {
    let settles = fixture.pulse(calm, SETTLED)?;
    fixture.pulsed(settles, SETTLED)?;
    let (cpu, begun) = (busy.kernel_cpu_ns()?, Instant::now());
    let pulse = fixture.pulse(calm, MEASURED)?;
    let waited = fixture.pulsed(pulse, MEASURED)?;
    let used = (busy.kernel_cpu_ns()? - cpu) as f64 / begun.elapsed().as_nanos() as f64;
    into.best_effort.push(used);
    into.waited_ms.extend(waited.into_iter().map(|nanoseconds| nanoseconds as f64 / 1e6));
    Ok(())
}

fn with_throttling(
    run: &Run<'_>,
    fixture: &ThrottleFixture<'_>,
    agent: &Agent,
    [calm, busy]: [&Group; 2],
    own: &[String],
    (into, times): (&mut Measured, &mut Times),
) -> Result<(), Failure> {
    let limit = run.context.patiently(LIMIT_S);
    let begin = std::time::SystemTime::now();
    let rivals = fixture.waiting(calm, AT_MOST)?;
    let (spinners, begun) = (fixture.spinners(busy)?, Instant::now());
    fixture.wait_until("held back", limit, |files| files != own)?;
    times.held.push(begun.elapsed().as_secs_f64());
    measure(fixture, calm, busy, into)?;
    for note in fixture.notes(agent, begin, "Squeezed")? {
        run.progress(&note);
    }
    drop((rivals, spinners));
    let over = Instant::now();
    fixture.wait_until("as it was", limit, |files| files == own)?;
    times.back.push(over.elapsed().as_secs_f64());
    ensure_eq!(fixture.files()?, own, "after the load");
    Ok(())
}

fn figures(without: &Measured, with: &Measured, times: &Times) -> Vec<Figure> {
    let waited = |name: &str, measured: &Measured, bound| {
        let name = format!("wait for a CPU of each wake, {name}");
        Figure::of("throttle", name, "ms", &measured.waited_ms, bound)
    };
    let several = |name: &str, unit, values: &[f64], bound| {
        Figure::of("throttle", name.to_owned(), unit, values, bound)
    };
    let before = waited("without", without, Bound::NONE);
    let no_worse = before.p99.unwrap_or(0.0).max(SWITCH_MS);
    let after = waited("with throttling", with, Bound { p50: None, p99: Some(no_worse) });
    // Two periods to decide and one for the first reading; the hold time, and a period that may just be
    // missed.
    let back = HOLD_SECONDS as f64 + 4.0;
    vec![
        before,
        after,
        several("BestEffort's CPUs without", "CPUs", &without.best_effort, Bound::NONE),
        several("BestEffort's CPUs with throttling", "CPUs", &with.best_effort, Bound::NONE),
        several("load to held back", "s", &times.held, Bound::p50(5.0)),
        several("end of the load to all given back", "s", &times.back, Bound::p50(back)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_without_an_improvement_misses_its_bound() {
        let measured = |waited_ms: &[f64]| Measured { waited_ms: waited_ms.to_vec(), best_effort: vec![1.0] };
        let holds = |without: &[f64], with: &[f64], back| {
            let times = Times { held: vec![3.0], back: vec![back] };
            figures(&measured(without), &measured(with), &times).iter().all(|figure| figure.holds)
        };
        assert!(holds(&[4.0], &[1.0], 6.0));
        assert!(holds(&[0.011], &[0.015], 6.0));
        assert!(!holds(&[4.0], &[4.0], 6.0));
        assert!(!holds(&[4.0], &[1.0], 10.0));
        assert!(!holds(&[4.0], &[], 6.0));
    }
}
