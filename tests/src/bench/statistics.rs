//! Quantiles, and by how much equal runs differ.

/// The quantile `q` (0 to 1) by the nearest rank; 0 without values.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// The median: the mean of the two middle values of an even number of them; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    (middle(sorted.len() / 2) + middle(sorted.len().saturating_sub(1) / 2)) / 2.0
}

/// By how much the median of as many ratios of equal runs as there are `pairs` differs from 1, in 19 of 20
/// series; 0 without pairs. Each pair holds what two equal runs took. Computed as for normally distributed
/// values: 1.96 standard errors of a median, which are 1.25 times those of a mean.
pub fn noise(pairs: &[[f64; 2]]) -> f64 {
    let squares = pairs.iter().map(|[one, other]| (one / other).ln().powi(2));
    let mean = squares.sum::<f64>() / pairs.len().max(1) as f64;
    1.96 * 1.25 * (mean / pairs.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_values() {
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), 3.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn noise_grows_with_the_differences_and_shrinks_with_the_number_of_pairs() {
        assert_eq!(noise(&[[2.0, 2.0], [3.0, 3.0]]), 0.0);
        assert_eq!(noise(&[]), 0.0);
        let one = noise(&[[1.02, 1.0]]);
        assert!((one - 2.45 * 0.0198).abs() < 1e-4, "{one}");
        assert!((noise(&[[1.02, 1.0], [1.0, 1.02], [1.02, 1.0], [1.0, 1.02]]) - one / 2.0).abs() < 1e-9);
        assert!(noise(&[[1.04, 1.0]]) > one);
    }

    #[test]
    fn quantiles_use_the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.5), 50.0);
        assert_eq!(quantile(&hundred, 0.99), 99.0);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
