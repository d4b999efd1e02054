//! Histograms whose observations cost one addition.

use std::time::Duration;

use nodewarden_model::Buckets;

/// Upper bounds in seconds.
pub type Bounds<const N: usize> = [f64; N];

/// Bounds of `prober_probe_duration_seconds`, as in the kubelet: Prometheus' default bounds.
pub const DURATION: Bounds<11> = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Bounds for the time from when a probe was due until it began.
pub const DELAY: Bounds<18> = [
    0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0,
];

/// The number of observations per bucket, not cumulated.
#[derive(Debug, Clone, Copy)]
pub struct Histogram<const N: usize> {
    counts: [u64; N],
    above: u64,
    seconds: f64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { counts: [0; N], above: 0, seconds: 0.0 }
    }
}

impl<const N: usize> Histogram<N> {
    pub fn observe(&mut self, bounds: &Bounds<N>, what: Duration) {
        let seconds = what.as_secs_f64();
        let bucket = bounds.partition_point(|&bound| bound < seconds);
        *self.counts.get_mut(bucket).unwrap_or(&mut self.above) += 1;
        self.seconds += seconds;
    }

    pub fn show(&self, bounds: &Bounds<N>) -> Buckets {
        let counts = bounds.iter().copied().zip(self.counts).collect();
        Buckets { counts, above: self.above, sum: self.seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets() {
        let bounds = [0.1, 1.0];
        let mut histogram = Histogram::default();
        for ms in [0, 100, 101, 1_000, 1_001, 60_000] {
            histogram.observe(&bounds, Duration::from_millis(ms));
        }
        let shown = histogram.show(&bounds);
        assert_eq!((shown.counts, shown.above), (vec![(0.1, 2), (1.0, 2)], 2));
        assert!((shown.sum - 62.202).abs() < 1e-9);
    }

    #[test]
    fn bounds_ascend() {
        assert!(DURATION.is_sorted() && DELAY.is_sorted());
    }
}
