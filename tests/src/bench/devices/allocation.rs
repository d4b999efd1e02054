//! Measures allocation by the running agent while it and the runtime start pods: the time that the agent
//! itself measures, without the time of the plugins' answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bench::{Bound, Figure, Run};
use crate::e2e::devices::fixture::{DOMAIN, DeviceFixture, limits};
use crate::e2e::pods::manifest::{STAY, one};
use crate::e2e::support::eventually;
use crate::fixture::{Behaviour, NativePlugin, PluginDevice, Sample};
use crate::harness::Failure;
use crate::{ensure, ensure_eq};

pub(super) const PLUGINS: usize = 10;
pub(super) const DEVICES: usize = 100;
/// Number of pods, on a full and on a quick run.
pub(super) const PODS: [usize; 2] = [200, 20];
/// Devices of each pod from two resources. In the end every device is allocated: 200 × (4 + 1).
pub(super) const EACH: [u32; 2] = [4, 1];
/// The metric of the agent's own part of an allocation.
const HISTOGRAM: &str = "nodewarden_device_allocation_seconds_bucket";
/// Bounds in milliseconds, p50 and p99.
pub(super) const BOUND: Bound = Bound::both(1.0, 1.0);

/// # Errors
/// A pod does not get its devices.
pub fn measure(run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
    let pods = run.sizes.pods.unwrap_or(PODS[usize::from(run.quick)]).min(PODS[0]);
    let mut site = DeviceFixture::with_kubelet(run.context, "maxPods: 1000\n", "")?;
    run.progress(&format!("{PLUGINS} plugins register {DEVICES} devices each"));
    let plugins = (0..PLUGINS)
        .map(|number| site.start_native(&behaviour(&site.dir(), number), None))
        .collect::<Result<Vec<NativePlugin>, _>>()?;
    run.progress(&format!("{pods} pods are given {} devices", pods * (EACH[0] + EACH[1]) as usize));
    let begun = Instant::now();
    for number in 0..pods {
        let wanted = [(name(number), EACH[0]), (name(number + 1), EACH[1])];
        let wanted: Vec<_> = wanted.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        site.pods.put([one(&format!("pod{number:03}"), STAY, limits(&wanted))])?;
    }
    let expected = pods * (EACH[0] + EACH[1]) as usize;
    eventually(run.context.patiently(300), "not every pod has its devices", || {
        let given = site.allocated()?;
        let all: usize = given.values().flat_map(|of_pod| of_pod.values()).map(|ids| ids.len()).sum();
        Ok((all == expected).then_some(()))
    })?;
    let took = begun.elapsed();
    let buckets = buckets(&site.samples(HISTOGRAM)?);
    let count = buckets.last().map_or(0, |(_, count)| *count);
    ensure!(count > 0, "{HISTOGRAM} has counted nothing");
    ensure_eq!(count as usize >= pods, true, "allocations in {HISTOGRAM}: {count} of {pods} pods");
    let calls =
        |plugin: &NativePlugin| plugin.log().iter().filter(|line| line["call"] == "Allocate").count() as u32;
    let asked: u32 = plugins.iter().map(calls).sum();
    let busy: Duration = plugins.iter().map(NativePlugin::busy).sum();
    let ms = |quantile: f64| at_most(&buckets, quantile) * 1e3;
    let figures = vec![
        Figure::summary(
            "devices",
            format!("the running agent's own part while {pods} pods start, at most"),
            "ms",
            [ms(0.5), ms(0.99)],
            count as usize,
            Bound::NONE,
        ),
        Figure::one(
            "devices",
            "a plugin's own time in a call of Allocate",
            "ms",
            busy.as_secs_f64() * 1e3 / f64::from(asked.max(1)),
            Bound::NONE,
        ),
        Figure::one(
            "devices",
            format!("{pods} manifests to every device given"),
            "s",
            took.as_secs_f64(),
            Bound::NONE,
        ),
    ];
    // The pods end before the plugins do. Ending a pod makes no calls to plugins.
    site.pods.finish()?;
    Ok(figures)
}

pub(super) fn name(number: usize) -> String {
    format!("r{}", number % PLUGINS)
}

/// A plugin with devices on two NUMA nodes and without a preference.
pub(super) fn behaviour(dir: &Path, number: usize) -> Behaviour {
    let mut behaviour = Behaviour::new(dir, &format!("{DOMAIN}/{}", name(number)), &[]);
    behaviour.devices = (0..DEVICES)
        .map(|id| PluginDevice::healthy(&format!("device-{id:03}")).on((id % 2) as i64))
        .collect();
    behaviour
}

/// The buckets of a histogram, summed over all series: upper bound in seconds and cumulative count.
fn buckets(samples: &[Sample]) -> Vec<(f64, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for sample in samples {
        *sums.entry(sample.labels.get("le").cloned().unwrap_or_default()).or_default() += sample.value as u64;
    }
    let bound = |le: &str| if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap_or(f64::INFINITY) };
    let mut buckets: Vec<_> = sums.iter().map(|(le, count)| (bound(le), *count)).collect();
    buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    buckets
}

/// The upper bound of the bucket that contains this quantile: the true value is at most that.
fn at_most(buckets: &[(f64, u64)], quantile: f64) -> f64 {
    let all = buckets.last().map_or(0, |(_, count)| *count);
    let rank = (quantile * all as f64).ceil().max(1.0) as u64;
    buckets.iter().find(|(_, count)| *count >= rank).map_or(f64::INFINITY, |(bound, _)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parse_samples;

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let text = "h_bucket{a=\"1\",le=\"0.0001\"} 5\nh_bucket{a=\"2\",le=\"0.0001\"} 5\n\
                    h_bucket{a=\"1\",le=\"0.001\"} 9\nh_bucket{a=\"2\",le=\"0.001\"} 10\n\
                    h_bucket{a=\"1\",le=\"+Inf\"} 10\nh_bucket{a=\"2\",le=\"+Inf\"} 10\n";
        let buckets = buckets(&parse_samples(text));
        assert_eq!(buckets, [(0.0001, 10), (0.001, 19), (f64::INFINITY, 20)]);
        assert_eq!((at_most(&buckets, 0.5), at_most(&buckets, 0.95)), (0.0001, 0.001));
        assert_eq!(at_most(&buckets, 0.99), f64::INFINITY);
        assert_eq!(at_most(&[], 0.5), f64::INFINITY);
    }
}
