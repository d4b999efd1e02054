//! With which power of one quantity another one grows. Pure.

/// The slope of the line through two points (x, y) on logarithmic axes; `None` where there is none.
pub fn exponent((x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Option<f64> {
    let all_positive = [x1, y1, x2, y2].into_iter().all(|value| value > 0.0);
    (all_positive && x1 != x2).then(|| (y2 / y1).ln() / (x2 / x1).ln())
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn powers_are_recognised() {
        for power in [0.0, 0.5, 1.0, 2.0] {
            let y = |x: f64| 3.0 * x.powf(power);
            let found = exponent((10.0, y(10.0)), (1000.0, y(1000.0))).unwrap();
            assert!((found - power).abs() < 1e-9, "{power} {found}");
        }
        assert_eq!(exponent((10.0, 0.0), (100.0, 1.0)), None);
        assert_eq!(exponent((10.0, 1.0), (10.0, 2.0)), None);
    }
}
