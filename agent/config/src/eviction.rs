//! What an operator sets of eviction and of what comes before it: the kubelet's keys, and `nodewarden.eviction`.

use std::time::Duration;

use super::threshold::EvictionThreshold;

/// Settings of eviction.
#[derive(Debug, Clone, PartialEq)]
pub struct EvictionSettings {
    /// Hard and soft thresholds, with those of `allocatableMemory.available` where pods are enforced.
    pub thresholds: Vec<EvictionThreshold>,
    /// `evictionPressureTransitionPeriod`: a condition stays so long after its last threshold was passed (5 min).
    pub transition: Duration,
    /// `evictionMaxPodGracePeriod`: the longest grace of a pod that a soft threshold evicts (0); [`Duration::MAX`] for a
    /// negative one, which is no bound. See [`Self::soft_grace`].
    pub max_pod_grace: Duration,
    /// `nodewarden.eviction.comeBack`: evicted pods start again when the pressure is over.
    pub come_back: bool,
    /// `nodewarden.eviction.backOffSeconds`: after its first eviction a pod stays away so long; doubled with each (10 s).
    pub back_off: Duration,
    /// `nodewarden.eviction.maxBackOffSeconds` (5 min). Ten minutes without an eviction start it over.
    pub max_back_off: Duration,
    /// `nodewarden.eviction.manifestPodsCritical`: every pod of a manifest counts as critical, as static pods do for a
    /// kubelet. By default only their priority decides.
    pub manifests_critical: bool,
    /// `localStorageCapacityIsolation`: pods beyond limits of disk space of their own have to go (true).
    pub own_limits: bool,
    /// Longest and shortest time between two readings of memory and processes (`maxIntervalMilliseconds` 10 s,
    /// `minIntervalMilliseconds` 10 ms).
    pub max_interval: Duration,
    pub min_interval: Duration,
}

impl EvictionSettings {
    /// How long a pod may take to end that a soft threshold evicts: what it says itself, up to the bound.
    pub fn soft_grace(&self, own: Duration) -> Duration {
        own.min(self.max_pod_grace)
    }
}

impl Default for EvictionSettings {
    fn default() -> Self {
        Self {
            thresholds: Vec::new(),
            transition: Duration::from_secs(300),
            max_pod_grace: Duration::ZERO,
            come_back: true,
            back_off: Duration::from_secs(10),
            max_back_off: Duration::from_secs(300),
            manifests_critical: false,
            own_limits: true,
            max_interval: Duration::from_secs(10),
            min_interval: Duration::from_millis(10),
        }
    }
}
