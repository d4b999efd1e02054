//! Comparison with values that a real kubelet computed and wrote.

mod cri;
mod files;
mod kubelet;
mod pods;

use k8s_openapi::api::core::v1;
use serde_json::Value;

use super::{cpu, weight};
use nodewarden_manifest::Pod;
use nodewarden_testing::golden;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().expect("an object").iter()
}

fn pod(value: &Value) -> Pod {
    let pod: v1::Pod = serde_json::from_value(value.clone()).expect("a pod");
    Pod::unchecked(pod).unwrap_or_else(|problems| panic!("{problems:?}: {value}"))
}

#[test]
fn shares_and_quotas_are_those_of_the_kubelet() {
    let Some(rows) = golden::load("millicpu.json") else { return };
    for row in rows.as_array().expect("rows") {
        let milli = number(&row["Milli"]);
        // The recorded kubelet has CustomCPUCFSQuotaPeriod off, so it ignores the row's period.
        let period = cpu::DEFAULT_PERIOD_US;
        assert_eq!(cpu::shares_from_milli(milli), number(&row["Shares"]), "{row}");
        assert_eq!(cpu::quota_from_milli(milli, period).unwrap_or(0), number(&row["Quota"]), "{row}");
    }
}

#[test]
fn weights_are_those_of_the_runtimes_library() {
    let Some(rows) = golden::load("shares_to_weight.json") else { return };
    for row in rows.as_array().expect("rows") {
        assert_eq!(weight::weight_quadratic(number(&row["Shares"])), number(&row["Weight"]), "{row}");
    }
}
