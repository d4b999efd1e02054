//! Bench of scale: pods of two containers each, up to a thousand, started from manifests in mode manage
//! against a runtime stand-in in a process of its own, whose cost is not the agent's. Cgroups and processes
//! are real. Each number of pods has an agent of its own. Printed are the figures, and with which power of
//! the number of pods each one grows. Then others come and go, and one uses up memory.

mod bare;
mod churn;
mod growth;
mod measure;
mod plot;
mod pressure;

use super::{Bench, Bound, Figure, Run};
use crate::fixture::SmallDisk;
use crate::harness::Failure;
use growth::exponent;
use measure::{Measured, measure};

pub struct Thousand;

/// Bytes of the file system that has everything.
const DISK: u64 = 4 << 30;
/// Numbers of pods, on a full and on a quick run. Each has two containers, and bounds are at 100 and 1,000
/// pods and at as many containers.
const PODS: [&[usize]; 2] = [&[10, 50, 100, 500, 1000], &[10, 50]];
/// How long idle pods are measured, in seconds: with the most pods, and with fewer.
const IDLE_MOST: u64 = 300;
const IDLE_FEWER: u64 = 120;
const IDLE_QUICK: u64 = 20;
/// No figure may grow with a higher power of the number of pods.
const EXPONENT: f64 = 1.05;
/// Bounds at numbers of pods: memory in MB, and CPU seconds a minute.
const MEMORY_MB: [(usize, f64); 2] = [(100, 14.0), (1000, 30.0)];
const IDLE_CPU: [(usize, f64); 2] = [(100, 0.05), (1000, 0.2)];
/// Open files that take 10 MB of kernel memory, at 4.4 KiB each.
const DESCRIPTORS: [(usize, f64); 1] = [(1000, 10e6 / 4505.6)];
/// Wake-ups of all threads a minute. Judged where at least two minutes were idle: what is done once a minute
/// would be counted several times, or not at all.
const WAKES: f64 = 30.0;
const SHORTEST_IDLE: u64 = 120;
/// Seconds from the start of an agent until it is ready.
const READY_S: [(usize, f64); 1] = [(100, 0.3)];
/// At numbers of containers: p50 of a scrape in milliseconds.
const SCRAPE_MS: [(usize, f64); 2] = [(100, 3.0), (1000, 15.0)];

impl Bench for Thousand {
    fn name(&self) -> &'static str {
        "thousand"
    }

    fn about(&self) -> &'static str {
        "10 to 1,000 pods on a stand-in for a runtime: start, memory, idle CPU, scrapes, and how each grows"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let usual = PODS[usize::from(run.quick)];
        let sizes = match run.sizes.pods {
            Some(most) if run.quick => vec![usual[0].min(most), most],
            Some(most) => usual.iter().copied().filter(|pods| *pods < most).chain([most]).collect(),
            None => usual.to_vec(),
        };
        let most = sizes.last().copied().unwrap_or_default();
        // As in the bench `pods`: without a journal new files take longer the more were removed.
        let temp = run.context.temp.path();
        let disk =
            SmallDisk::mount(temp, &run.context.temp.join("disk.img"), DISK).map_err(Failure::file(temp))?;
        run.progress(&format!("everything is on {}", disk.kind()));
        let mut all = Vec::new();
        for pods in sizes {
            let usual = if pods == most { IDLE_MOST } else { IDLE_FEWER };
            let idle = run.sizes.idle.unwrap_or(if run.quick { IDLE_QUICK } else { usual });
            all.push((pods, measure(run, pods, idle)?));
        }
        if let Some(path) = &run.sizes.plot {
            let svg = plot::svg(&lines(&all)).map_err(Failure::Unexpected)?;
            std::fs::write(path, svg).map_err(Failure::file(path))?;
        }
        let mut figures: Vec<Figure> = all.iter().flat_map(|(pods, one)| of_size(*pods, one)).collect();
        figures.extend(of_growth(&all));
        Ok(figures)
    }
}

fn bound_at(bounds: &[(usize, f64)], number: usize) -> Bound {
    bounds.iter().find(|(at, _)| *at == number).map_or(Bound::NONE, |(_, bound)| Bound::p50(*bound))
}

fn of_size(pods: usize, measured: &Measured) -> Vec<Figure> {
    let mut figures: Vec<Figure> = measured
        .values()
        .into_iter()
        .map(|(name, unit, value)| {
            let bound = match name {
                measure::MEMORY => bound_at(&MEMORY_MB, pods),
                measure::IDLE_CPU => bound_at(&IDLE_CPU, pods),
                measure::DESCRIPTORS => bound_at(&DESCRIPTORS, pods),
                measure::READY => bound_at(&READY_S, pods),
                measure::WAKES if measured.idle_seconds >= SHORTEST_IDLE => Bound::p50(WAKES),
                _ => Bound::NONE,
            };
            Figure::one("thousand", format!("{name}, {pods} pods"), unit, value, bound)
        })
        .collect();
    let bound = bound_at(&SCRAPE_MS, pods * 2);
    for (how, values) in [("", &measured.scrapes_ms), (" every 15 s", &measured.usual_scrapes_ms)] {
        let name = format!("GET /metrics/cadvisor{how}, {} containers", pods * 2);
        figures.push(Figure::of("thousand", name, "ms", values, bound));
    }
    let pressure = &measured.pressure;
    for (what, values) in [
        ("memory threshold crossed to kill", &pressure.kill_ms),
        ("reading below the threshold to kill", &pressure.decide_ms),
    ] {
        figures.push(Figure::of("thousand", format!("{what}, {pods} pods"), "ms", values, Bound::NONE));
    }
    figures
}

/// What grows, for the plot.
fn lines(all: &[(usize, Measured)]) -> Vec<plot::Line> {
    let Some((_, first)) = all.first() else { return Vec::new() };
    let names = first.values().map(|(name, _, _)| name);
    let of = |at: usize| all.iter().map(|(pods, one)| (*pods, one.values()[at].2)).collect();
    names.into_iter().enumerate().map(|(at, name)| (name.to_owned(), of(at))).collect()
}

/// The exponents of what grows, from the smallest number of pods to the largest. The start may grow as that
/// by bare calls does.
fn of_growth(all: &[(usize, Measured)]) -> Vec<Figure> {
    let [(few, first), .., (many, last)] = all else { return Vec::new() };
    let pairs = first.values().into_iter().zip(last.values());
    let exponents: Vec<(&str, f64)> = pairs
        .filter_map(|((name, _, before), (_, _, after))| {
            Some((name, exponent((*few as f64, before), (*many as f64, after))?))
        })
        .collect();
    let of = |floor: &str| exponents.iter().find(|(name, _)| *name == floor).map(|(_, exponent)| *exponent);
    exponents
        .iter()
        .map(|(name, exponent)| {
            let (goal, title) = (Bound::p50(EXPONENT), format!("exponent, {name}, {few} to {many} pods"));
            let figure = |bound| Figure::one("thousand", title.clone(), "power", *exponent, bound);
            match *name {
                measure::START => figure(Bound::NONE).with_goal(goal, of(measure::BARE_START).as_slice()),
                measure::START_CPU => figure(Bound::NONE).with_goal(goal, of(measure::BARE_CPU).as_slice()),
                measure::BARE_START | measure::BARE_CPU | measure::FAULTS => figure(Bound::NONE),
                _ => figure(goal),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::bare::Least;
    use super::churn::Churn;
    use super::pressure::Pressure;
    use super::*;

    #[test]
    fn bounds_hold_at_their_numbers_and_growth_is_judged() {
        let measured = |factor: f64| Measured {
            start_s: factor,
            start_cpu_s: factor,
            least: Least { start_s: factor.sqrt(), cpu_s: factor },
            memory_mb: 15.0,
            scraped_memory_mb: 16.0,
            idle_seconds: 120,
            idle_cpu: 0.01 * factor,
            wakes: 10.0 * factor,
            faults: 0.0,
            calls: 1.0,
            scrape_cpu_ms: factor,
            scrapes_ms: vec![4.0],
            usual_scrape_cpu_ms: factor,
            usual_scrapes_ms: vec![4.0],
            descriptors: factor,
            threads: 9.0,
            ready_s: 0.2,
            churn: Churn { cpu_ms: 9.0, settled_s: 1.0 },
            pressure: Pressure { kill_ms: vec![9.0], decide_ms: vec![8.0] },
        };
        let missed = |figures: Vec<Figure>| -> Vec<String> {
            figures.into_iter().filter(|figure| !figure.holds).map(|figure| figure.name).collect()
        };
        assert_eq!(missed(of_size(100, &measured(1.0))), ["memory without eBPF maps, 100 pods"]);
        assert!(missed(of_size(250, &measured(1.0))).is_empty());
        assert!(missed(of_growth(&[(10, measured(1.0)), (100, measured(10.0))])).is_empty());
        let missed = missed(of_growth(&[(10, measured(1.0)), (100, measured(20.0))]));
        assert_eq!(missed.len(), 6, "{missed:?}");
        assert!(missed[0].starts_with("exponent, start of all pods"), "bare calls grow less");
        assert!(!missed.iter().any(|name| name.contains("CPU for the start")), "bare calls grow as much");
        assert!(of_growth(&[(10, measured(1.0))]).is_empty(), "one number of pods has no growth");
    }
}
