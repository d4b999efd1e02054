//! How much the agent asks of the API server: `kubeAPIQPS`, `kubeAPIBurst`, `eventRecordQPS`, `eventBurst`.

use crate::fields::Fields;
use crate::show::Map;

/// Requests a second, and how many at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiRate {
    /// Requests a second; `None`: no limit.
    pub per_second: Option<u32>,
    /// At once.
    pub burst: u32,
}

/// The rates of a node's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiRates {
    /// `kubeAPIQPS` and `kubeAPIBurst`: statuses of pods.
    pub requests: ApiRate,
    /// `eventRecordQPS` and `eventBurst`: events.
    pub events: ApiRate,
}

/// SetDefaults_KubeletConfiguration (pkg/kubelet/apis/config/v1beta1/defaults.go).
impl Default for ApiRates {
    fn default() -> Self {
        let rate = ApiRate { per_second: Some(50), burst: 100 };
        Self { requests: rate, events: rate }
    }
}

const EXPECTED: &str = "a whole number from 0 up";

/// As in the kubelet `kubeAPIQPS` may also be negative, which is no limit; for `eventRecordQPS` that is 0.
pub(super) fn take(top: &mut Fields<'_>) -> ApiRates {
    let default = ApiRates::default();
    let most = i64::from(i32::MAX);
    let burst = |top: &mut Fields<'_>, key, default: u32| {
        let given = top.integer(key, EXPECTED, &(0..=most)).and_then(|n| u32::try_from(n).ok());
        given.filter(|burst| *burst > 0).unwrap_or(default)
    };
    let requests = match top.integer("kubeAPIQPS", "a whole number", &(-most..=most)) {
        None | Some(0) => default.requests.per_second,
        Some(qps) => u32::try_from(qps).ok(),
    };
    let events = match top.integer("eventRecordQPS", EXPECTED, &(0..=most)) {
        None => default.events.per_second,
        Some(qps) => u32::try_from(qps).ok().filter(|qps| *qps > 0),
    };
    ApiRates {
        requests: ApiRate { per_second: requests, burst: burst(top, "kubeAPIBurst", default.requests.burst) },
        events: ApiRate { per_second: events, burst: burst(top, "eventBurst", default.events.burst) },
    }
}

pub(super) fn show(top: &mut Map, rates: &ApiRates) {
    top.put("kubeAPIQPS", rates.requests.per_second.map_or(-1, i64::from));
    top.put("kubeAPIBurst", rates.requests.burst);
    top.put("eventRecordQPS", rates.events.per_second.unwrap_or(0));
    top.put("eventBurst", rates.events.burst);
}
