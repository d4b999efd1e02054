//! How many images are pulled at a time, and how many pulls may begin in a time.

use crate::fields::Fields;
use crate::show::Map;

/// How many pulls may begin (`registryPullQPS` and `registryBurst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullRate {
    /// Pulls a second.
    pub per_second: u32,
    /// Pulls at once after a pause.
    pub burst: u32,
}

/// SetDefaults_KubeletConfiguration (pkg/kubelet/apis/config/v1beta1/defaults.go).
impl Default for PullRate {
    fn default() -> Self {
        Self { per_second: 5, burst: 10 }
    }
}

/// Reads `registryPullQPS` and `registryBurst`; `None` for no limit.
pub(super) fn rate(top: &mut Fields<'_>) -> Option<PullRate> {
    let default = PullRate::default();
    let most = 0..=i32::MAX as u64;
    let per_second = top.number("registryPullQPS", default.per_second.into(), &most);
    // As in the kubelet, 0 means not set.
    let burst = match top.number("registryBurst", 0, &most) {
        0 => default.burst.into(),
        burst => burst,
    };
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    (per_second > 0).then(|| PullRate { per_second: narrow(per_second), burst: narrow(burst) })
}

/// Number of concurrent pulls: `serializeImagePulls` is true unless `maxParallelImagePulls` is above 1;
/// `None` for no limit.
pub(super) fn at_once(top: &mut Fields<'_>) -> Option<u32> {
    let (serialize, most) = ("serializeImagePulls", "maxParallelImagePulls");
    let at_once = top
        .integer(most, "a whole number from 1 up", &(1..=i64::from(i32::MAX)))
        .and_then(|n| u32::try_from(n).ok());
    let one_by_one = top.optional_flag(serialize);
    if one_by_one == Some(true) && at_once.is_some_and(|n| n > 1) {
        let given = at_once.map(|n| n.to_string()).unwrap_or_default();
        top.refuse(most, &given, "1, or serializeImagePulls: false");
    }
    match one_by_one.unwrap_or(at_once.is_none_or(|n| n < 2)) {
        true => Some(1),
        false => at_once,
    }
}

/// Writes the keys.
pub(super) fn show(top: &mut Map, at_once: Option<u32>, rate: Option<PullRate>) {
    top.put("serializeImagePulls", at_once == Some(1));
    top.put_some("maxParallelImagePulls", at_once.filter(|n| *n > 1));
    top.put("registryPullQPS", rate.map_or(0, |rate| rate.per_second));
    top.put_some("registryBurst", rate.map(|rate| rate.burst));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{problems, read};
    use crate::{Overrides, parse};

    /// The kubelet's defaults, where 0 is no limit for the one key, and not set for the other.
    #[test]
    fn the_rate_of_pulls() {
        let rate = |per_second, burst| Some(PullRate { per_second, burst });
        for (body, expected) in [
            ("", rate(5, 10)),
            ("registryBurst: 0", rate(5, 10)),
            ("registryPullQPS: 0", None),
            ("registryPullQPS: 0\nregistryBurst: 3", None),
            ("registryPullQPS: 1\nregistryBurst: 2", rate(1, 2)),
        ] {
            let config = read(body).unwrap();
            assert_eq!(config.pods.pull_rate, expected, "{body}");
            let again = parse("again", &config.to_yaml(), &Overrides::default()).unwrap();
            assert_eq!(again, config, "{body}");
        }
        let expected = "registryPullQPS: -1: expected a whole number from 0 to 2147483647";
        assert_eq!(problems("registryPullQPS: -1"), [expected]);
    }
}
