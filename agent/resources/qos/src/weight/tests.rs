use super::*;

#[test]
fn the_linear_formula_has_the_values_of_the_kep() {
    let cases = [
        (0, 0),
        (1, 1),
        (2, 1),
        (102, 4),
        (910, 35),
        (1024, 39),
        (2048, 79),
        (262_144, 10_000),
        (300_000, 10_000),
    ];
    for (shares, weight) in cases {
        assert_eq!(weight_linear(shares), weight, "{shares}");
    }
}

#[test]
fn the_quadratic_formula_has_the_values_of_runc() {
    let cases =
        [(0, 0), (1, 1), (2, 1), (3, 2), (102, 17), (1024, 100), (262_143, 10_000), (262_144, 10_000)];
    for (shares, weight) in cases {
        assert_eq!(weight_quadratic(shares), weight, "{shares}");
    }
}

/// For all possible shares: the plain formula, as opencontainers/cgroups computes it, gives the same result,
/// and no result is so near to an integer that another platform's arithmetic could give another.
#[test]
fn quadratic_is_the_plain_formula_everywhere() {
    let mut last = 0;
    for shares in MIN_SHARES + 1..MAX_SHARES {
        let exact = 10f64.powf(exponent(shares));
        let weight = weight_quadratic(shares);
        if shares == 1024 {
            assert!((exact - 100.0).abs() < 1e-12);
        } else {
            assert!((exact - exact.round()).abs() > 1e-6, "{shares}: {exact}");
            assert_eq!(weight, exact.ceil() as u64, "{shares}");
        }
        assert!((last..=MAX_WEIGHT).contains(&weight), "{shares}: monotonic");
        last = weight;
    }
}

#[test]
fn a_pair_of_shares_and_weight_shows_its_formula() {
    assert_eq!(formula_of(102, 4), Some(WeightFormula::Linear));
    assert_eq!(formula_of(102, 17), Some(WeightFormula::Quadratic));
    assert_eq!(formula_of(2, 1), None, "both");
    assert_eq!(formula_of(262_144, 10_000), None, "both");
    assert_eq!(formula_of(102, 50), None, "neither: it was written by something else");
    assert!(weight_is_true(102, 4) && weight_is_true(102, 17));
    assert!(!weight_is_true(102, 50));
}

#[test]
fn evidence_follows_the_newest_container() {
    let mut evidence = FormulaEvidence::default();
    assert_eq!(evidence.observe(2, 1), None);
    assert_eq!(evidence.formula(), None, "both formulas give this weight");
    evidence.observe(102, 4);
    assert_eq!(evidence.formula(), Some(WeightFormula::Linear));
    evidence.observe(102, 50);
    assert_eq!(evidence.formula(), Some(WeightFormula::Linear));
    evidence.observe(1024, 100);
    assert_eq!(evidence.formula(), Some(WeightFormula::Quadratic), "the runtime was replaced");
}
