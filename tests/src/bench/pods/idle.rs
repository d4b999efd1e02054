//! The agent while its pods do nothing.

use std::time::Duration;

use super::{BENCH, Measured};
use crate::bench::{Bound, Figure, Run};
use crate::harness::Failure;

/// Pods, and CPU seconds a minute: a tenth of a kubelet's 0.95, 2.2 and 4.0 on the development machine.
const STEPS: [(usize, f64); 3] = [(10, 0.095), (50, 0.22), (100, 0.40)];
/// Resident memory with all of them, without the mapped eBPF maps.
const MEMORY_MB: f64 = 30.0;

pub fn measure(run: &Run<'_>, bench: &mut Measured<'_>) -> Result<Vec<Figure>, Failure> {
    let seconds = if run.quick { 20 } else { 60 };
    let mut figures = Vec::new();
    let mut there = 0;
    for (pods, bound) in STEPS {
        for i in there..pods {
            let manifest = bench.manifest(&format!("idle{i}"));
            bench.stage.put([manifest])?;
        }
        for i in there..pods {
            bench.stage.up(&format!("idle{i}"))?;
        }
        there = pods;
        // What the beginning left to do is done.
        std::thread::sleep(Duration::from_secs(10));
        run.progress(&format!("{pods} idle pods for {seconds} s"));
        let agent = bench.stage.agent()?;
        let before = agent.cpu_time()?;
        std::thread::sleep(Duration::from_secs(seconds));
        let used = (agent.cpu_time()? - before).as_secs_f64() * 60.0 / seconds as f64;
        let (resident, mapped) = agent.resident_bytes()?;
        let memory = (resident - mapped) as f64 / 1e6;
        let of_memory = if pods == 100 { Bound::p50(MEMORY_MB) } else { Bound::NONE };
        figures.push(Figure::one(
            BENCH,
            format!("CPU time, {pods} idle pods"),
            "s/min",
            used,
            Bound::p50(bound),
        ));
        figures.push(Figure::one(
            BENCH,
            format!("memory without maps, {pods} idle pods"),
            "MB",
            memory,
            of_memory,
        ));
    }
    Ok(figures)
}
