//! The configuration in effect as `/configz` shows it: a KubeletConfiguration below the key `kubeletconfig`.
//! Pure.

use nodewarden_config::Config;
use serde_json::{Map, Value, json};

/// Where a header of `staticPodURL` has its values, which may be secrets (as a kubelet logs its
/// configuration).
const MASKED: &str = "<masked>";

/// The answer. The agent's own settings are left out: they are no part of a KubeletConfiguration. Values of
/// `staticPodURLHeader` are masked.
pub fn answer(config: &Config) -> Value {
    let shown = serde_yaml_ng::from_str(&config.to_yaml());
    let mut map: Map<String, Value> = shown.unwrap_or_default();
    map.remove("nodewarden");
    map.retain(|_, value| !value.is_null());
    let headers = map.get_mut("staticPodURLHeader").and_then(Value::as_object_mut);
    headers.into_iter().flat_map(Map::values_mut).for_each(|values| *values = json!([MASKED]));
    json!({ "kubeletconfig": map })
}

#[cfg(test)]
mod tests {
    use nodewarden_config::{Overrides, parse};

    use super::*;

    #[test]
    fn values_of_headers_are_masked() {
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    staticPodURL: http://h/pods\nstaticPodURLHeader: {Authorization: [Bearer secret, other]}\n";
        let answer = answer(&parse("test", text, &Overrides::default()).unwrap());
        let own = &answer["kubeletconfig"];
        assert_eq!(own["staticPodURL"], "http://h/pods");
        assert_eq!(own["staticPodURLHeader"], json!({"Authorization": ["<masked>"]}));
        assert!(!answer.to_string().contains("secret"));
    }

    /// The types of `KubeletConfiguration` (k8s.io/kubelet config/v1beta1/types.go): what decodes it must not
    /// fail.
    #[test]
    fn every_field_has_the_type_that_a_kubelets_has() {
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    evictionHard: {memory.available: 100Mi, nodefs.available: 10%}\nsystemReserved: {cpu: '1', memory: 1Gi}\n\
                    kubeReserved: {cpu: 500m}\nnodewarden: {mode: manage}\n";
        let config = parse("test", text, &Overrides::default()).unwrap();
        let answer = answer(&config);
        let own = answer["kubeletconfig"].as_object().unwrap();
        assert_eq!(answer.as_object().unwrap().len(), 1);
        assert!(!own.contains_key("nodewarden"));
        for (key, value) in own {
            let fits = match key.as_str() {
                "port"
                | "readOnlyPort"
                | "healthzPort"
                | "maxPods"
                | "podPidsLimit"
                | "oomScoreAdj"
                | "containerLogMaxFiles"
                | "containerLogMaxWorkers"
                | "maxOpenFiles"
                | "registryPullQPS"
                | "registryBurst"
                | "podsPerCore"
                | "imageGCHighThresholdPercent"
                | "imageGCLowThresholdPercent"
                | "evictionMaxPodGracePeriod"
                | "maxParallelImagePulls"
                | "nodeStatusMaxImages"
                | "nodeLeaseDurationSeconds"
                | "eventRecordQPS"
                | "eventBurst"
                | "kubeAPIQPS"
                | "kubeAPIBurst" => value.is_i64() || value.is_u64(),
                "memoryThrottlingFactor" => value.is_number(),
                "evictionHard"
                | "evictionSoft"
                | "evictionSoftGracePeriod"
                | "evictionMinimumReclaim"
                | "systemReserved"
                | "kubeReserved"
                | "qosReserved" => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
                "featureGates" => value.as_object().is_some_and(|map| map.values().all(Value::is_boolean)),
                "authentication" | "authorization" | "memorySwap" | "crashLoopBackOff" | "logging" => {
                    value.is_object()
                }
                "clusterDNS"
                | "enforceNodeAllocatable"
                | "tlsCipherSuites"
                | "allowedUnsafeSysctls"
                | "registerWithTaints"
                | "reservedMemory" => value.is_array(),
                key if key.ends_with("Frequency")
                    || key.ends_with("Timeout")
                    || key.ends_with("Interval")
                    || key.ends_with("GracePeriod")
                    || key.ends_with("CriticalPods") =>
                {
                    is_duration(value)
                }
                "cpuCFSQuotaPeriod"
                | "imageMinimumGCAge"
                | "imageMaximumGCAge"
                | "podHousekeepingPeriod"
                | "evictionPressureTransitionPeriod" => is_duration(value),
                _ => value.is_string() || value.is_boolean() || value.is_array(),
            };
            assert!(fits, "{key}: {value}");
        }
        assert_eq!(own["evictionHard"]["memory.available"], "100Mi");
        assert_eq!(own["authentication"]["webhook"]["cacheTTL"], "120s");
        assert_eq!(own["systemReserved"], json!({"cpu": "1", "memory": "1Gi"}));
    }

    fn is_duration(value: &Value) -> bool {
        value.as_str().is_some_and(|text| text.ends_with('s') || text == "0")
    }
}
