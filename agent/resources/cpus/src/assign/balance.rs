//! How evenly free CPUs are spread over NUMA nodes.

/// The standard deviation of free CPUs by NUMA node, in thousandths and rounded, as the kubelet compares it
/// (`standardDeviation`, of a mean that is rounded to thousandths too).
///
/// Computed from sum and sum of squares, so that taking CPUs of one node changes it in constant time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Balance {
    nodes: f64,
    sum: f64,
    /// The mean in thousandths, rounded.
    mean: f64,
}

impl Balance {
    /// For this many nodes with `sum` free CPUs together.
    pub fn new(nodes: usize, sum: usize) -> Self {
        let (nodes, sum) = (nodes as f64, sum as f64);
        Self { nodes, sum, mean: (sum / nodes * 1000.0).round() }
    }

    /// The deviation, in thousandths of a CPU, if this is the sum of the squares.
    pub fn score(&self, squares: usize) -> u64 {
        // Numbers below 2^53, which a double holds exactly.
        let total = 1e6 * squares as f64 - 2000.0 * self.mean * self.sum + self.nodes * self.mean * self.mean;
        (total.max(0.0) / self.nodes).sqrt().round() as u64
    }
}

/// The sum of squares.
pub(super) fn squares(counts: &[usize]) -> usize {
    counts.iter().map(|count| count * count).sum()
}

/// The least sum of squares when `groups` groups of `size` are taken from `counts`: each from the largest.
/// `None` if there are not as many.
pub(super) fn least_squares(counts: &[usize], groups: usize, size: usize) -> Option<usize> {
    let mut counts = counts.to_vec();
    for _ in 0..groups {
        let largest = counts.iter_mut().max().filter(|count| **count >= size)?;
        *largest -= size;
    }
    Some(squares(&counts))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the kubelet computes it.
    fn deviation(counts: &[usize]) -> u64 {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        let number = counts.len() as f64;
        let mean = round(counts.iter().map(|count| *count as f64).sum::<f64>() / number);
        let squares: f64 = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum();
        ((squares / number).sqrt() * 1000.0).round() as u64
    }

    proptest! {
        #[test]
        fn scores_are_the_kubelets_deviation(counts in prop::collection::vec(0..200usize, 1..16)) {
            let balance = Balance::new(counts.len(), counts.iter().sum());
            prop_assert_eq!(balance.score(squares(&counts)), deviation(&counts));
        }
    }
}
