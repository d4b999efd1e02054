//! A measured figure, its bound and its goal.

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

/// Where a figure is wanted to be. A value must be below it, unless the least that the same run measured for
/// it is not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goal {
    pub below: f64,
    /// What the same costs or takes without what the agent adds: an empty program, a bare reader, an agent
    /// that does nothing else. `None` where no such thing is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
}

impl Goal {
    fn is_missed(self, value: f64) -> bool {
        let out_of_reach = self.floor.is_some_and(|floor| floor >= self.below);
        // A value that is not a number was not measured.
        !(value < self.below || out_of_reach)
    }

    fn verdict(self, value: f64) -> String {
        match self.floor {
            _ if value < self.below => "holds".to_owned(),
            Some(floor) if floor >= self.below => format!("below the floor of {}", short(floor)),
            _ => "MISSED".to_owned(),
        }
    }
}

/// The goals of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Goals {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<Goal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<Goal>,
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
    #[serde(skip_serializing_if = "has_no_goal")]
    pub goals: Goals,
    /// Whether every value is below its bound and no goal is missed; true without bounds and goals.
    pub holds: bool,
}

fn is_none(bound: &Bound) -> bool {
    *bound == Bound::NONE
}

fn has_no_goal(goals: &Goals) -> bool {
    *goals == Goals::default()
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
        let goals = Goals::default();
        let p99 = Some(p99);
        let figure = Self { bench, name: name.into(), unit, p50, p99, samples, bound, goals, holds: true };
        Self { holds: figure.bound_holds(), ..figure }
    }

    /// The figure with goals. `floor`: what the same run measured without what the agent adds, if anything.
    pub fn with_goal(self, goal: Bound, floor: &[f64]) -> Self {
        let at = |below: Option<f64>, q| {
            let floor = (!floor.is_empty()).then(|| quantile(floor, q));
            below.map(|below| Goal { below, floor })
        };
        let goals = Goals { p50: at(goal.p50, 0.5), p99: at(goal.p99, 0.99) };
        let missed = goals.p50.is_some_and(|goal| goal.is_missed(self.p50))
            || goals.p99.is_some_and(|goal| goal.is_missed(self.p99.unwrap_or(self.p50)));
        Self { goals, holds: self.holds && !missed, ..self }
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
            let verdict = if self.bound_holds() { "holds" } else { "MISSED" };
            line.push_str(&format!(" bound {}: {verdict}", bounds.join(", ")));
        }
        let goals =
            [("p50", self.goals.p50, self.p50), ("p99", self.goals.p99, self.p99.unwrap_or(self.p50))];
        let goals = goals.into_iter().filter_map(|(name, goal, value)| {
            goal.map(|goal| format!("{name} < {}: {}", short(goal.below), goal.verdict(value)))
        });
        let goals: Vec<_> = goals.collect();
        if !goals.is_empty() {
            line.push_str(&format!(" goal {}", goals.join(", ")));
        }
        line.trim_end().to_owned()
    }

    fn bound_holds(&self) -> bool {
        let below = |value: f64, bound: Option<f64>| bound.is_none_or(|bound| value < bound);
        self.samples > 0
            && below(self.p50, self.bound.p50)
            && below(self.p99.unwrap_or(self.p50), self.bound.p99)
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
    fn a_goal_below_the_floor_is_not_missed() {
        let figure = |value: f64, floor: &[f64]| {
            Figure::of("b", "n", "ms", &[value], Bound::p50(5.0)).with_goal(Bound::both(1.0, 2.0), floor)
        };
        for (value, floor, holds, line) in [
            (0.5, &[][..], true, "goal p50 < 1.00: holds, p99 < 2.00: holds"),
            (1.5, &[][..], false, "goal p50 < 1.00: MISSED, p99 < 2.00: holds"),
            (1.5, &[0.9][..], false, "goal p50 < 1.00: MISSED, p99 < 2.00: holds"),
            (1.5, &[1.1][..], true, "goal p50 < 1.00: below the floor of 1.10, p99 < 2.00: holds"),
            (2.5, &[1.1][..], false, "goal p50 < 1.00: below the floor of 1.10, p99 < 2.00: MISSED"),
        ] {
            let figure = figure(value, floor);
            assert_eq!(figure.holds, holds, "{value} {floor:?}");
            let expected = format!("bound p50 < 5.00: holds {line}");
            assert!(figure.line().ends_with(&expected), "{}", figure.line());
        }
        // The bound is judged as without a goal.
        let missed = figure(6.0, &[9.0]);
        assert!(
            !missed.holds && missed.line().contains("bound p50 < 5.00: MISSED goal"),
            "{}",
            missed.line()
        );
        assert!(missed.json().contains(r#""goals":{"p50":{"below":1.0,"floor":9.0}"#), "{}", missed.json());
        let nothing = Figure::of("b", "n", "ms", &[], Bound::NONE).with_goal(Bound::p50(1.0), &[]);
        assert!(!nothing.holds);
    }

    #[test]
    fn json_leaves_out_missing_values() {
        let json = Figure::one("b", "n", "ms", 1.5, Bound::NONE).json();
        assert_eq!(json, r#"{"bench":"b","name":"n","unit":"ms","p50":1.5,"samples":1,"holds":true}"#);
        let json = Figure::of("b", "n", "ms", &[1.5], Bound::p50(2.0)).json();
        assert!(json.contains(r#""p99":1.5,"samples":1,"bound":{"p50":2.0},"holds":true"#), "{json}");
    }
}
