//! Bench of a node in a cluster: one control plane, and nodewarden and the real kubelet in turn as its only
//! node, each with a containerd of its own kind and with the same settings (`kubeAPIQPS` 50, as both have by
//! default today; the kubelet of 1.20 had 5).
//!
//! Pods are bound to the node by their `nodeName`, so that no scheduler is measured. Times begin before the
//! request is sent to the API server and end when a watch shows the change. What is asked of the API server
//! is counted in its audit log, by the node's user. [`readiness`] says how changes of readiness are measured.

mod idle;
mod pods;
mod readiness;
mod side;

use std::time::Duration;

use super::{Bench, Bound, Figure, Run};
use crate::e2e::cluster::node::NodeKind;
use crate::e2e::cluster::options::own_control_plane;
use crate::fixture::{Cluster, ClusterPrograms};
use crate::harness::Failure;
use idle::Cost;
pub use idle::cpu_time;
pub use side::Side;

pub struct Node;

/// Default sizes, on a full and on a quick run.
const ROUNDS: [usize; 2] = [15, 4];
const MANY: [usize; 2] = [100, 20];
const IDLE_SECONDS: [u64; 2] = [300, 60];
const CHANGES: [usize; 2] = [15, 4];
/// Pause before idle pods are measured: a kubelet writes statuses for a while.
const REST: Duration = Duration::from_secs(30);

/// Bounds of nodewarden with a hundred idle pods: CPU seconds a minute, and megabytes without mapped eBPF
/// maps.
const CPU: f64 = 0.6;
const MEMORY_MB: f64 = 30.0;
/// From a probe's answer to the condition at the API server, p50 in milliseconds.
const READINESS_MS: f64 = 50.0;

/// What one kind of node gave.
struct Measured {
    /// Milliseconds.
    ready: Vec<f64>,
    gone: Vec<f64>,
    readiness: Vec<f64>,
    /// Seconds.
    many_ready: f64,
    many_gone: f64,
    idle: Cost,
}

impl Bench for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn about(&self) -> &'static str {
        "a node of a real control plane: nodewarden and the real kubelet in turn"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        ClusterPrograms::find_node_suite()?;
        run.progress("starting a control plane");
        let control_plane = own_control_plane(run.context, None, true)?;
        let own = measure(run, control_plane.cluster(), NodeKind::Nodewarden)?;
        let kubelet = measure(run, control_plane.cluster(), NodeKind::Kubelet)?;
        let pods = run.sizes.pods.unwrap_or(MANY[usize::from(run.quick)]);
        Ok(figures(pods, &own, &kubelet))
    }
}

fn measure(run: &Run<'_>, cluster: &Cluster, kind: NodeKind) -> Result<Measured, Failure> {
    let usual = |of: [usize; 2]| of[usize::from(run.quick)];
    let rounds = run.sizes.pairs.unwrap_or(usual(ROUNDS));
    let pods = run.sizes.pods.unwrap_or(usual(MANY));
    let seconds = run.sizes.idle.unwrap_or(IDLE_SECONDS[usize::from(run.quick)]);
    let name = kind.name();

    run.progress(&format!("{name}: starting the node"));
    let mut side = Side::start(run.context, cluster, kind)?;
    run.progress(&format!("{name}: one pod at a time, {rounds} times"));
    let (ready, gone) = side.one_at_a_time(rounds)?;
    run.progress(&format!("{name}: changes of readiness"));
    let readiness = readiness::changes(&mut side, usual(CHANGES))?;
    run.progress(&format!("{name}: {pods} pods at once, then idle for {seconds} s"));
    let many_ready = side.create_many(pods)?;
    let rest = REST / if run.quick { 3 } else { 1 };
    std::thread::sleep(rest);
    let idle = idle::cost(run, &side, cluster, Duration::from_secs(seconds))?;
    let many_gone = side.delete_many(pods)?;
    side.finish()?;
    Ok(Measured { ready, gone, readiness, many_ready, many_gone, idle })
}

fn figures(pods: usize, own: &Measured, kubelet: &Measured) -> Vec<Figure> {
    let median = |values: &[f64]| super::statistics::quantile(values, 0.5);
    let many = |what: &str, name: &str, value, bound| {
        Figure::one("node", format!("{pods} pods {what}, {name}"), "s", value, bound)
    };
    let series = |what: &str, name: &str, values: &[f64], bound| {
        Figure::of("node", format!("{what}, {name}"), "ms", values, bound)
    };
    let idle = |what: &str, name: &str, unit, value, bound| {
        Figure::one("node", format!("{what}, {pods} idle pods, {name}"), unit, value, bound)
    };
    // "Not more than" includes the same.
    let at_most = |value: f64| Bound::p50(value + 0.001);
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let [ours, theirs] = ["nodewarden", "kubelet"];
    vec![
        series("a pod created to ready", ours, &own.ready, Bound::p50(median(&kubelet.ready))),
        series("a pod created to ready", theirs, &kubelet.ready, Bound::NONE),
        series("a pod deleted to gone", ours, &own.gone, Bound::p50(median(&kubelet.gone))),
        series("a pod deleted to gone", theirs, &kubelet.gone, Bound::NONE),
        many("created to all ready", ours, own.many_ready, Bound::p50(kubelet.many_ready)),
        many("created to all ready", theirs, kubelet.many_ready, Bound::NONE),
        many("deleted to all gone", ours, own.many_gone, Bound::p50(kubelet.many_gone)),
        many("deleted to all gone", theirs, kubelet.many_gone, Bound::NONE),
        series("probe answered to condition", ours, &own.readiness, Bound::p50(READINESS_MS)),
        series("probe answered to condition", theirs, &kubelet.readiness, Bound::NONE),
        idle("CPU time", ours, "s/min", own.idle.cpu, Bound::p50(CPU)),
        idle("CPU time", theirs, "s/min", kubelet.idle.cpu, Bound::NONE),
        idle("memory without eBPF maps", ours, "MB", mb(own.idle.own), Bound::p50(MEMORY_MB)),
        idle("memory with eBPF maps", ours, "MB", mb(own.idle.resident), Bound::NONE),
        idle("memory", theirs, "MB", mb(kubelet.idle.resident), Bound::NONE),
        idle("API requests", ours, "/min", own.idle.requests, at_most(kubelet.idle.requests)),
        idle("API requests", theirs, "/min", kubelet.idle.requests, Bound::NONE),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodewarden_is_held_against_its_bounds_and_the_kubelet() {
        let measured = |times: f64, requests| Measured {
            ready: vec![times],
            gone: vec![times],
            readiness: vec![times],
            many_ready: times,
            many_gone: times,
            idle: Cost { cpu: 0.5, resident: 40_000_000, own: 29_000_000, requests },
        };
        let holds = |own: &Measured, kubelet: &Measured| -> Vec<String> {
            let figures = figures(100, own, kubelet);
            figures.into_iter().filter(|figure| !figure.holds).map(|figure| figure.name).collect()
        };
        assert!(holds(&measured(10.0, 12.0), &measured(11.0, 12.0)).is_empty());
        let missed = holds(&measured(60.0, 13.0), &measured(11.0, 12.0));
        assert_eq!(missed.len(), 6, "{missed:?}");
        assert!(missed.iter().all(|name| name.ends_with("nodewarden")));
    }
}
