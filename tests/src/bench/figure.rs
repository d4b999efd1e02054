//! A measured figure and its bound.

use serde::Serialize;

use super::statistics::quantile;

/// Upper bounds. A value must be below its bound; `None` means that there is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

impl Bound {
    pub const NONE: Self = Self { p50: None, p99: None };

    /// A bound on the median, or on the only value.
    pub const fn p50(bound: f64) -> Self {
        Self { p50: Some(bound), p99: None }
    }

    pub const fn both(p50: f64, p99: f64) -> Self {
        Self { p50: Some(p50), p99: Some(p99) }
    }
}

/// One line of a bench's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    pub bench: &'static str,
    pub name: String,
    pub unit: &'static str,
    /// The median, or the value where there is only one.
    pub p50: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// Number of values.
    pub samples: usize,
    #[serde(skip_serializing_if = "is_none")]
    pub bound: Bound,
    /// Whether every value is below its bound; true without bounds.
    pub holds: bool,
}

fn is_none(bound: &Bound) -> bool {
    *bound == Bound::NONE
}

impl Figure {
    /// A figure of many values. Without values `holds` is false, because nothing was measured.
    pub fn of(
        bench: &'static str,
        name: impl Into<String>,
        unit: &'static str,
        values: &[f64],
        bound: Bound,
    ) -> Self {
        let quantiles = [0.5, 0.99].map(|q| quantile(values, q));
        Self::summary(bench, name, unit, quantiles, values.len(), bound)
    }

    /// A figure of values that were counted elsewhere: their p50, p99 and number.
    pub fn summary(
        bench: &'static str,
        name: impl Into<String>,
        unit: &'static str,
        [p50, p99]: [f64; 2],
        samples: usize,
        bound: Bound,
    ) -> Self {
        let below = |value: f64, bound: Option<f64>| bound.is_none_or(|bound| value < bound);
        let holds = samples > 0 && below(p50, bound.p50) && below(p99, bound.p99);
        Self { bench, name: name.into(), unit, p50, p99: Some(p99), samples, bound, holds }
    }

    /// A figure of a single value.
    pub fn one(
        bench: &'static str,
        name: impl Into<String>,
        unit: &'static str,
        value: f64,
        bound: Bound,
    ) -> Self {
        Self { p99: None, ..Self::of(bench, name, unit, &[value], bound) }
    }

    /// The figure as a JSON object.
    pub fn json(&self) -> String {
        // Serialising strings and numbers does not fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The figure as a line of text.
    pub fn line(&self) -> String {
        let mut line = format!("{:<9} {:<46} ", self.bench, self.name);
        match self.p99 {
            Some(p99) => line.push_str(&format!(
                "p50 {:>9} {unit:<7} p99 {:>9} {unit:<7}",
                short(self.p50),
                short(p99),
                unit = self.unit
            )),
            None => line.push_str(&format!("    {:>9} {:<28}", short(self.p50), self.unit)),
        }
        let bounds: Vec<String> = [("p50", self.bound.p50), ("p99", self.bound.p99)]
            .into_iter()
            .filter_map(|(name, bound)| Some(format!("{name} < {}", short(bound?))))
            .collect();
        if !bounds.is_empty() {
            line.push_str(&format!(
                " bound {}: {}",
                bounds.join(", "),
                if self.holds { "holds" } else { "MISSED" }
            ));
        }
        line.trim_end().to_owned()
    }
}

/// Formats a number with three significant digits, or with all digits before the point.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bounds_must_hold() {
        for (values, bound, holds) in [
            (&[1.0, 1.0, 1.0][..], Bound::both(2.0, 2.0), true),
            (&[1.0, 1.0, 3.0][..], Bound::both(2.0, 2.0), false),
            (&[1.0, 1.0, 3.0][..], Bound::p50(2.0), true),
            (&[2.0][..], Bound::p50(2.0), false),
            (&[][..], Bound::NONE, false),
        ] {
            assert_eq!(Figure::of("b", "n", "ms", values, bound).holds, holds, "{values:?} {bound:?}");
        }
    }

    #[test]
    fn json_leaves_out_missing_values() {
        let json = Figure::one("b", "n", "ms", 1.5, Bound::NONE).json();
        assert_eq!(json, r#"{"bench":"b","name":"n","unit":"ms","p50":1.5,"samples":1,"holds":true}"#);
        let json = Figure::of("b", "n", "ms", &[1.5], Bound::p50(2.0)).json();
        assert!(json.contains(r#""p99":1.5,"samples":1,"bound":{"p50":2.0},"holds":true"#), "{json}");
    }
}
