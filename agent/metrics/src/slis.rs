//! `/metrics/slis`: the results of health checks, as a kubelet counts them (feature ComponentSLIs, KEP-3466;
//! component-base `metrics/prometheus/slis`).

use super::exposition::{Exposition, push_label};
use super::family::families;
use super::number::Value;

const LAST: &[&str] = &["name", "type"];
const TOTAL: &[&str] = &["name", "status", "type"];

families! {
    /// The families of `/metrics/slis`.
    pub enum Sli {
        Healthcheck: Gauge "kubernetes_healthcheck" LAST "[STABLE] This metric records the result of a single healthcheck.";
        Healthchecks: Counter "kubernetes_healthchecks_total" TOTAL "[STABLE] This metric records the results of all healthcheck.";
    }
}

/// The type of every check: the kubelet has no `livez` or `readyz`.
const TYPE: &str = "healthz";

/// How a check of `/healthz` has ended so far. One that was never made has no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthCheck {
    /// Its name, such as `syncloop`.
    pub name: &'static str,
    /// How often it has passed.
    pub passed: u64,
    /// How often it has failed.
    pub failed: u64,
    /// Whether it passed when it was made last.
    pub passed_last: bool,
}

/// Writes the whole document.
pub fn write(out: &mut Exposition<'_>, checks: &[HealthCheck]) {
    let made = || checks.iter().filter(|check| check.passed + check.failed > 0);
    let mut family = out.family(Sli::Healthcheck.desc());
    for check in made() {
        let labels = labels(&[("name", check.name), ("type", TYPE)]);
        family.sample(&labels, &[], Value::Int(u64::from(check.passed_last)), &[]);
    }
    let mut family = out.family(Sli::Healthchecks.desc());
    for check in made() {
        for (status, count) in [("error", check.failed), ("success", check.passed)] {
            if count > 0 {
                let labels = labels(&[("name", check.name), ("status", status), ("type", TYPE)]);
                family.sample(&labels, &[], Value::Int(count), &[]);
            }
        }
    }
}

fn labels(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut labels = Vec::new();
    pairs.iter().for_each(|(key, value)| push_label(&mut labels, 0, key, value));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::to_vec;

    #[test]
    fn checks_that_were_made_are_shown_as_by_a_kubelet() {
        let check = |name, passed, failed, passed_last| HealthCheck { name, passed, failed, passed_last };
        let checks = [check("ping", 3, 0, true), check("log", 0, 0, false), check("syncloop", 2, 1, false)];
        let text = String::from_utf8(to_vec(|out| write(out, &checks))).unwrap();
        let expected = "\
# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
# TYPE kubernetes_healthcheck gauge
kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1
kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 0
# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
# TYPE kubernetes_healthchecks_total counter
kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 3
kubernetes_healthchecks_total{name=\"syncloop\",status=\"error\",type=\"healthz\"} 1
kubernetes_healthchecks_total{name=\"syncloop\",status=\"success\",type=\"healthz\"} 2
";
        assert_eq!(text, expected);
    }
}
