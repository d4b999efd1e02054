//! Counters and gauges of garbage collection.

use nodewarden_metrics::Own;

/// Why an image was removed (label `reason` of `kubelet_image_garbage_collected_total`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum RemovalReason {
    /// For free space.
    Space,
    /// For its age.
    Age,
}

impl RemovalReason {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a removal or a failure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Part {
    Image,
    /// The file with the times at which images were seen and used.
    #[strum(serialize = "image record")]
    ImageRecord,
    Container,
    Sandbox,
    Logs,
    /// Free space on the images' file system.
    Space,
}

impl Part {
    /// The name in steps and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Counts a removed image.
pub fn image_removed(reason: RemovalReason) {
    metrics::counter!(Own::ImagesCollected.name(), "reason" => reason.name()).increment(1);
}

/// Counts freed bytes.
pub fn freed(bytes: u64) {
    metrics::counter!(Own::GcFreed.name()).increment(bytes);
}

/// Counts a failed removal, or a run that ended early.
pub fn failed(what: Part) {
    metrics::counter!(Own::GcFailures.name(), "what" => what.name()).increment(1);
}

/// Sets how many bytes the last run for space was to free, and how many it freed.
pub fn space(wanted: u64, freed: u64) {
    metrics::gauge!(Own::GcLastWanted.name()).set(wanted as f64);
    metrics::gauge!(Own::GcLastFreed.name()).set(freed as f64);
}
