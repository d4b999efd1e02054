//! Families about probes: number and duration of runs, results, and start delays.
//!
//! The kubelet's families have a series from the first count on. Here the zeros of `successful` and `failed`
//! are written from a probe's first run on, so that the first failure shows as an increase.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::Verdict;
use nodewarden_model::{Buckets, ProbeCounts, ProbeView, ProbesView};

/// Writes the families of probes.
pub(super) fn write(out: &mut Exposition<'_>, probes: &ProbesView) {
    counts(out, &probes.probes);
    durations(out, &probes.probes);
    let mut writer = out.family(Own::ProbeState.desc());
    for probe in &probes.probes {
        if let Some(result) = probe.result {
            let [container, namespace, pod, kind] = labels(probe);
            let labels = [container, namespace, pod, kind, ("uid", &probe.uid)];
            writer.sample(&[], &labels, Value::Int(u64::from(result == Verdict::Success)), &[]);
        }
    }
    let mut writer = out.family(Own::ProbeStartDelay.desc());
    for (handler, delays) in probes.delays.iter().filter(|(_, delays)| total(delays) > 0) {
        writer.buckets(&[], &[("handler", handler)], delays);
    }
    for (family, gauges) in [(Own::ProbesRunning, &probes.running), (Own::ProbesWaiting, &probes.waiting)] {
        let mut writer = out.family(family.desc());
        for (handler, count) in gauges {
            writer.sample(&[], &[("handler", handler)], Value::Int(*count), &[]);
        }
    }
}

fn counts(out: &mut Exposition<'_>, probes: &[ProbeView]) {
    let mut writer = out.family(Own::ProbeTotal.desc());
    for probe in probes.iter().filter(|probe| probe.counts != ProbeCounts::default()) {
        let [container, namespace, pod, kind] = labels(probe);
        let ProbeCounts { successful, failed, unknown } = probe.counts;
        let unknown = (unknown > 0).then_some(("unknown", unknown));
        for (result, count) in [("successful", successful), ("failed", failed)].into_iter().chain(unknown) {
            let labels = [container, namespace, pod, ("pod_uid", &probe.uid), kind, ("result", result)];
            writer.sample(&[], &labels, Value::Int(count), &[]);
        }
    }
}

/// The kubelet's labels of durations do not have the pod's uid: two pods of one name share a series.
fn durations(out: &mut Exposition<'_>, probes: &[ProbeView]) {
    let mut series: BTreeMap<[(&str, &str); 4], Cow<'_, Buckets>> = BTreeMap::new();
    for probe in probes.iter().filter(|probe| total(&probe.durations) > 0) {
        series
            .entry(labels(probe))
            .and_modify(|sum| add(sum.to_mut(), &probe.durations))
            .or_insert(Cow::Borrowed(&probe.durations));
    }
    let mut writer = out.family(Own::ProbeDuration.desc());
    for (labels, durations) in &series {
        writer.buckets(&[], labels, durations);
    }
}

fn labels(probe: &ProbeView) -> [(&'static str, &str); 4] {
    [
        ("container", &probe.container),
        ("namespace", &probe.namespace),
        ("pod", &probe.pod),
        ("probe_type", probe.spec.kind.name()),
    ]
}

fn total(buckets: &Buckets) -> u64 {
    buckets.counts.iter().map(|(_, count)| count).sum::<u64>() + buckets.above
}

/// Adds a histogram of the same bounds.
fn add(sum: &mut Buckets, other: &Buckets) {
    for ((_, count), (_, more)) in sum.counts.iter_mut().zip(&other.counts) {
        *count += more;
    }
    sum.above += other.above;
    sum.sum += other.sum;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::to_vec;
    use crate::{fixture, parsed};

    fn text(probes: &ProbesView) -> String {
        String::from_utf8(to_vec(|e| write(e, probes))).unwrap()
    }

    /// The lines of a family, its header left out.
    fn lines<'a>(text: &'a str, family: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(family)).collect()
    }

    #[test]
    fn counts_and_results_of_each_probe() {
        let mut probes = fixture::probes();
        probes.probes[1].result = Some(Verdict::Failure);
        let shown = text(&probes);
        let total = |kind: &str, result: &str| {
            format!(
                "prober_probe_total{{container=\"web\",namespace=\"shop\",pod=\"cart-5d9c\",pod_uid=\"8c5e\",\
                 probe_type=\"{kind}\",result=\"{result}\"}}"
            )
        };
        // A startup probe that ran once, a readiness probe that fails, a liveness probe that never ran.
        assert_eq!(
            lines(&shown, "prober_probe_total{"),
            [
                total("Startup", "successful") + " 1",
                total("Startup", "failed") + " 0",
                total("Readiness", "successful") + " 12",
                total("Readiness", "failed") + " 4",
                total("Readiness", "unknown") + " 2",
            ]
        );
        let result = |kind: &str, value: u8| {
            format!(
                "nodewarden_probe_result{{container=\"web\",namespace=\"shop\",pod=\"cart-5d9c\",\
                 probe_type=\"{kind}\",uid=\"8c5e\"}} {value}"
            )
        };
        assert_eq!(lines(&shown, "nodewarden_probe_result{"), [result("Startup", 1), result("Readiness", 0)]);
    }

    #[test]
    fn durations_of_probes_that_succeeded() {
        let shown = text(&fixture::probes());
        assert_eq!(lines(&shown, "prober_probe_duration_seconds_count{").len(), 2);
        let labels = r#"container="web",namespace="shop",pod="cart-5d9c",probe_type="Readiness""#;
        assert_eq!(
            shown
                .lines()
                .filter(|line| line.starts_with("prober_") && line.contains(&format!("{{{labels}")))
                .collect::<Vec<_>>(),
            [
                format!("prober_probe_duration_seconds_bucket{{{labels},le=\"0.005\"}} 9"),
                format!("prober_probe_duration_seconds_bucket{{{labels},le=\"1\"}} 11"),
                format!("prober_probe_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 12"),
                format!("prober_probe_duration_seconds_sum{{{labels}}} 3.5"),
                format!("prober_probe_duration_seconds_count{{{labels}}} 12"),
            ]
        );
    }

    #[test]
    fn start_delays_and_numbers_of_probes_are_written() {
        let shown = text(&fixture::probes());
        assert_eq!(
            lines(&shown, "nodewarden_probe_start_delay_seconds"),
            [
                r#"nodewarden_probe_start_delay_seconds_bucket{handler="httpGet",le="0.001"} 15"#,
                r#"nodewarden_probe_start_delay_seconds_bucket{handler="httpGet",le="0.02"} 18"#,
                r#"nodewarden_probe_start_delay_seconds_bucket{handler="httpGet",le="+Inf"} 18"#,
                r#"nodewarden_probe_start_delay_seconds_sum{handler="httpGet"} 0.012"#,
                r#"nodewarden_probe_start_delay_seconds_count{handler="httpGet"} 18"#,
            ]
        );
        for line in [
            r#"nodewarden_probes_running{handler="exec"} 1"#,
            r#"nodewarden_probes_waiting{handler="httpGet"} 0"#,
        ] {
            assert!(shown.contains(&format!("{line}\n")), "{line} in {shown}");
        }
    }

    #[test]
    fn two_pods_of_one_name_share_the_series_without_uid() {
        let mut probes = fixture::probes();
        let mut again = probes.probes.clone();
        again.iter_mut().for_each(|probe| probe.uid = "other".into());
        probes.probes.extend(again);
        let shown = text(&probes);
        // Every series occurs once.
        parsed::families(shown.as_bytes());
        assert_eq!(lines(&shown, "prober_probe_total{").len(), 10);
        let counts = lines(&shown, "prober_probe_duration_seconds_count{");
        assert_eq!(counts.len(), 2);
        assert!(counts.iter().any(|line| line.ends_with("} 24")), "{counts:?}");
    }

    #[test]
    fn nothing_is_written_without_probes() {
        assert_eq!(text(&ProbesView::default()), "");
    }
}
