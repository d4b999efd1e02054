//! What an operator sets of garbage collection: the kubelet's keys for images, and `nodewarden.gc` for what are flags of
//! the kubelet.

use std::time::Duration;

/// Settings of images and dead containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcSettings {
    /// `imageGCHighThresholdPercent`: use of the image file system from which on images are collected; 100: never
    /// periodically.
    pub high_percent: u8,
    /// `imageGCLowThresholdPercent`: use down to which they are.
    pub low_percent: u8,
    /// `imageMinimumGCAge`.
    pub min_age: Duration,
    /// `imageMaximumGCAge`; none: unused images of any age stay as long as there is room.
    pub max_age: Option<Duration>,
    /// `nodewarden.gc.periodSeconds` (kubelet: ImageGCPeriod, 5 min).
    pub period: Duration,
    /// `nodewarden.gc.maxPerPodContainer`: dead ones of a pod's container that stay (kubelet flag
    /// `--maximum-dead-containers-per-container`, 1); none: all.
    pub max_per_pod_container: Option<u32>,
    /// `nodewarden.gc.maxContainers`: dead ones on the node that stay (`--maximum-dead-containers`, no bound).
    pub max_containers: Option<u32>,
    /// `nodewarden.gc.minAgeSeconds`: younger dead ones stay (`--minimum-container-ttl-duration`, 0).
    pub min_container_age: Duration,
}

impl Default for GcSettings {
    fn default() -> Self {
        Self {
            high_percent: 85,
            low_percent: 80,
            min_age: Duration::from_secs(120),
            max_age: None,
            period: Duration::from_secs(300),
            max_per_pod_container: Some(1),
            max_containers: None,
            min_container_age: Duration::ZERO,
        }
    }
}
