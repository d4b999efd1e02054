//! A Prometheus histogram: differences between two readings, and quantiles.

use crate::fixture::Sample;

/// A histogram's buckets: upper bounds and cumulative counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    buckets: Vec<(f64, f64)>,
}

impl Histogram {
    /// From pairs of upper bound and cumulative count.
    pub fn of(mut buckets: Vec<(f64, f64)>) -> Self {
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Self { buckets }
    }

    /// Reads the series of a family that have this label, summed over all other labels.
    pub fn read(samples: &[Sample], family: &str, label: (&str, &str)) -> Self {
        let name = format!("{family}_bucket");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        let ours = |sample: &&Sample| {
            sample.name == name && sample.labels.get(label.0).map(String::as_str) == Some(label.1)
        };
        for sample in samples.iter().filter(ours) {
            let Some(bound) = sample.labels.get("le").and_then(|le| le.parse::<f64>().ok()) else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, count)) => *count += sample.value,
                None => buckets.push((bound, sample.value)),
            }
        }
        Self::of(buckets)
    }

    /// The values that were added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |bound: f64| {
            before.buckets.iter().find(|(known, _)| *known == bound).map_or(0.0, |(_, count)| *count)
        };
        Self {
            buckets: self.buckets.iter().map(|(bound, count)| (*bound, count - earlier(*bound))).collect(),
        }
    }

    /// The number of values.
    pub fn count(&self) -> f64 {
        self.buckets.last().map_or(0.0, |(_, count)| *count)
    }

    /// A quantile as Prometheus' `histogram_quantile` computes it: values are evenly distributed within a
    /// bucket, the first bucket starts at 0, and above the last bound the result is infinite. `None` without
    /// values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = q * self.count();
        let at = self.buckets.iter().position(|(_, count)| *count >= rank && *count > 0.0)?;
        let (upper, count) = self.buckets[at];
        let (lower, below) = at.checked_sub(1).map_or((0.0, 0.0), |before| self.buckets[before]);
        if upper.is_infinite() {
            return Some(upper);
        }
        Some(lower + (upper - lower) * (rank - below) / (count - below).max(f64::MIN_POSITIVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parse_samples;

    #[test]
    fn quantiles_are_interpolated_within_a_bucket() {
        let histogram = Histogram::of(vec![(0.01, 90.0), (f64::INFINITY, 100.0), (0.001, 50.0), (0.1, 99.0)]);
        for (q, expected) in [(0.5, 0.001), (0.25, 0.0005), (0.7, 0.0055), (0.9, 0.01), (0.945, 0.055)] {
            let seen = histogram.quantile(q).unwrap();
            assert!((seen - expected).abs() < 1e-9, "{q}: {seen}, not {expected}");
        }
        assert_eq!(histogram.quantile(0.999), Some(f64::INFINITY));
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::of(vec![(1.0, 0.0), (f64::INFINITY, 0.0)]).quantile(0.5), None);
    }

    #[test]
    fn only_the_difference_of_two_readings_counts() {
        let read = |a: u64, b: u64| {
            let text = format!(
                "d_bucket{{h=\"x\",p=\"1\",le=\"0.5\"}} {a}\nd_bucket{{h=\"x\",p=\"2\",le=\"0.5\"}} 1\n\
                 d_bucket{{h=\"x\",le=\"+Inf\"}} {b}\nd_bucket{{h=\"y\",le=\"0.5\"}} 77\nd_sum{{h=\"x\"}} 1\n"
            );
            Histogram::read(&parse_samples(&text), "d", ("h", "x"))
        };
        assert_eq!(read(3, 9), Histogram::of(vec![(0.5, 4.0), (f64::INFINITY, 9.0)]));
        assert_eq!(read(7, 12).since(&read(3, 9)), Histogram::of(vec![(0.5, 4.0), (f64::INFINITY, 3.0)]));
        assert_eq!(read(7, 12).since(&Histogram::default()).count(), 12.0);
    }
}
