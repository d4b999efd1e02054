//! `nodewarden simulate`: what would happen, and nothing does.

use serde_json::json;

use super::NEEDS;
use super::site::{LEFT_MIB, Site, chosen, critical, requests};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("eviction_simulated", simulated).timeout(120).needs(NEEDS)];

fn simulated(context: &Context) -> Result<(), Failure> {
    let mut site = Site::with_pool(context, LEFT_MIB, "")?;
    let pods = [
        site.greedy("critical", json!({}), &[], critical()),
        site.greedy("greedy", requests(8), &[], json!({})),
        site.greedy("modest", requests(64), &[], json!({})),
    ];
    let all = site.up(pods)?;
    site.hold("greedy", 40)?;
    site.hold("critical", 60)?;
    let decision = site.simulated("memory.available", "99%")?;
    ensure!(decision.would, "it was done: {decision:?}");
    ensure_eq!(chosen(&decision).collect::<Vec<_>>(), ["greedy"], "who would be chosen");
    let order: Vec<_> =
        decision.candidates.iter().map(|one| (one.name.as_str(), one.spared.as_str())).collect();
    ensure_eq!(order, [("greedy", ""), ("modest", ""), ("critical", "critical")], "the order");
    let signal = decision.signals.iter().find(|one| one.signal == "memory.available");
    ensure!(signal.is_some_and(|one| one.passed && one.threshold > one.available), "{:?}", decision.signals);
    let least = site.simulated("memory.available", "1Mi")?;
    ensure!(least.would && chosen(&least).count() == 0, "there is enough, and yet: {least:?}");
    let disk = site.simulated("nodefs.available", "100Gi");
    ensure!(disk.is_ok_and(|decision| decision.would), "disks cannot be simulated");
    let text = site.printed(&["simulate", "--signal", "memory.available=99%"])?;
    ensure!(text.contains("greedy") && text.contains("critical"), "{text}");
    for wrong in ["memory.available=lots", "memory=1Mi", "memory.available"] {
        let output = site.stage.command(&["simulate", "--signal", wrong])?;
        ensure!(!output.status.success() && !output.stderr.is_empty(), "{wrong:?} is taken");
    }
    site.unharmed(&all)?;
    ensure!(!site.is_pressed("MemoryPressure")?, "the node is said to be under pressure");
    ensure_eq!(site.chosen("eviction")?, Vec::<String>::new(), "who was chosen");
    site.stage.finish()
}
