//! The command `nodewarden simulate`.

use serde_json::json;

use super::NEEDS;
use super::fixture::{LEFT_MIB, PressureFixture, chosen, critical, requests};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("eviction_simulated", simulated).timeout(120).needs(NEEDS)];

/// `simulate` shows which pods a threshold would evict, in which order, and evicts none; wrong thresholds are
/// refused.
fn simulated(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::with_pool(context, LEFT_MIB, "")?;
    let pods = [
        fixture.greedy("critical", json!({}), &[], critical()),
        fixture.greedy("greedy", requests(8), &[], json!({})),
        fixture.greedy("modest", requests(64), &[], json!({})),
    ];
    let all = fixture.put_and_wait_up(pods)?;
    fixture.hold("greedy", 40)?;
    fixture.hold("critical", 60)?;
    let decision = fixture.simulate("memory.available", "99%")?;
    ensure!(decision.would, "the eviction was carried out: {decision:?}");
    ensure_eq!(chosen(&decision).collect::<Vec<_>>(), ["greedy"], "pods that would be chosen");
    let order: Vec<_> =
        decision.candidates.iter().map(|one| (one.name.as_str(), one.spared.as_str())).collect();
    ensure_eq!(order, [("greedy", ""), ("modest", ""), ("critical", "critical")], "order of the candidates");
    let signal = decision.signals.iter().find(|one| one.signal == "memory.available");
    ensure!(signal.is_some_and(|one| one.passed && one.threshold > one.available), "{:?}", decision.signals);
    let enough = fixture.simulate("memory.available", "1Mi")?;
    ensure!(
        enough.would && chosen(&enough).count() == 0,
        "a pod is chosen though there is enough: {enough:?}"
    );
    let disk = fixture.simulate("nodefs.available", "100Gi");
    ensure!(disk.is_ok_and(|decision| decision.would), "disks cannot be simulated");
    let text = fixture.output_of(&["simulate", "--signal", "memory.available=99%"])?;
    ensure!(text.contains("greedy") && text.contains("critical"), "{text}");
    for wrong in ["memory.available=lots", "memory=1Mi", "memory.available"] {
        let output = fixture.pods.command(&["simulate", "--signal", wrong])?;
        ensure!(!output.status.success() && !output.stderr.is_empty(), "{wrong:?} is accepted");
    }
    fixture.check_unchanged(&all)?;
    ensure!(!fixture.has_condition("MemoryPressure")?, "MemoryPressure is shown");
    ensure_eq!(fixture.chosen("eviction")?, Vec::<String>::new(), "chosen pods");
    fixture.pods.finish()
}
