//! Histograms of latencies, as the kernel programs count them.

use nodewarden_proto::nodewarden::v1 as proto;

/// Number of buckets of a latency histogram.
pub const WAIT_BUCKETS: usize = 24;
/// Bucket `i` holds values below 2^(WAIT_FIRST_SHIFT + i) ns (and not below the bound before); the last one
/// has no upper bound. So the bounds run from 1.024 µs to 4.3 s.
const WAIT_FIRST_SHIFT: u32 = 10;

/// A histogram of nanoseconds whose bounds are powers of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Log2Histogram {
    /// Number of values in each bucket (not cumulative); see [`Log2Histogram::upper_bound_ns`].
    pub buckets: [u64; WAIT_BUCKETS],
    /// Sum of all values in nanoseconds.
    pub sum_ns: u64,
}

impl Log2Histogram {
    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The gRPC message.
    pub fn to_proto(&self) -> proto::Histogram {
        proto::Histogram { buckets: self.buckets.to_vec(), sum_ns: self.sum_ns }
    }

    /// An example for tests.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn example() -> Self {
        let mut histogram = Self { sum_ns: 1_234_567, ..Self::default() };
        for (i, bucket) in histogram.buckets.iter_mut().enumerate() {
            *bucket = (i as u64 * 7) % 11;
        }
        histogram
    }

    /// Upper bound of bucket `i` in nanoseconds; `None` for the last.
    pub fn upper_bound_ns(i: usize) -> Option<u64> {
        (i + 1 < WAIT_BUCKETS).then(|| 1u64 << (WAIT_FIRST_SHIFT as usize + i))
    }

    /// The upper bound of the bucket in which quantile `q` (0…1) falls, in nanoseconds; 0 when the histogram
    /// is empty. For the last bucket it is the lower bound.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let total = self.count();
        if total == 0 {
            return 0;
        }
        let rank = ((total as f64) * q).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Self::upper_bound_ns(i)
                    .unwrap_or(1 << (WAIT_FIRST_SHIFT as usize + WAIT_BUCKETS - 2));
            }
        }
        0
    }
}
