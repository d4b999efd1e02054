//! Images as `nodewarden images` shows them.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

/// The node's images and what they are on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImagesView {
    /// In the order of removal, kept ones at the end.
    pub images: Vec<ImageView>,
    /// The file system of the images; `None` if it is unknown.
    pub fs: Option<FsUse>,
    /// Bytes to free now for the low threshold; 0 while the use is below the high one.
    pub wanted: u64,
    /// Why the runtime or the file system could not be asked; empty when it could.
    pub problem: String,
}

/// One image.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageView {
    pub image: ImageSeen,
    pub known: Option<ImageUse>,
    /// `None` if it would be removed.
    pub keep: Option<Keep>,
    /// What uses it: pods and containers, manifests.
    pub users: Vec<String>,
}

/// One step of a collection, as printed by `nodewarden gc`.
#[derive(Debug, Clone, PartialEq)]
pub struct GcStep {
    pub time: Timestamp,
    /// `image`, `container`, `sandbox`, `logs`.
    pub what: &'static str,
    /// Id or path, and names.
    pub id: String,
    pub name: String,
    /// Bytes that the file system has more of since the step before; none where it was not looked at.
    pub freed: Option<u64>,
    /// Why it failed; empty when it did not.
    pub error: String,
    /// Only planned.
    pub dry: bool,
}

/// What a collection came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcOutcome {
    /// Bytes to free for the low threshold as it began; 0 where the use was below the high one.
    pub wanted: u64,
    /// Bytes that the file system of the images has more of since then.
    pub freed: u64,
    /// The use is at or below the low threshold, or nothing was wanted. Of no meaning where it was only planned.
    pub reached: bool,
}

impl ImageView {
    /// Every answer of [`ImageView::state`].
    pub const STATES: [&'static str; 8] =
        ["container", "sandbox", "pinned", "manifest", "just_used", "young", "not_needed", "removable"];

    /// What keeps it, as every surface calls it; `removable` where nothing does.
    pub fn state(&self) -> &'static str {
        match self.keep {
            Some(Keep::InUse(Used::Container)) => "container",
            Some(Keep::InUse(Used::Sandbox)) => "sandbox",
            Some(Keep::InUse(Used::Pinned)) => "pinned",
            Some(Keep::InUse(Used::Manifest)) => "manifest",
            Some(Keep::JustUsed) => "just_used",
            Some(Keep::Young) => "young",
            Some(Keep::NotNeeded) => "not_needed",
            None => "removable",
        }
    }
}

/// Garbage collection of images and dead containers, and the images' present state. Implementations ask the
/// container runtime.
#[async_trait::async_trait]
pub trait ImageGc: Send + Sync + 'static {
    /// The settings that collection follows.
    fn settings(&self) -> GcSettings;

    /// Reads the images now. If something could not be read, `problem` says what.
    async fn view(&self) -> ImagesView;

    /// Collects what is due now, containers first, or only plans it (`dry`). Each step is sent to `steps` as soon as
    /// it is done; a closed receiver does not stop the collection. A failed removal is a step, not an error.
    ///
    /// # Errors
    /// Why the collection did not start or did not finish, as a message for the user.
    async fn collect(&self, dry: bool, steps: UnboundedSender<GcStep>) -> Result<GcOutcome, String>;
}

/// An image as reported by the runtime, with all its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSeen {
    /// As the runtime identifies it.
    pub id: String,
    /// Tags, then digests.
    pub names: Vec<String>,
    /// Bytes reported by the runtime, including layers shared with other images.
    pub size: u64,
    /// The runtime itself keeps it.
    pub pinned: bool,
}

/// What must outlive the agent of an image (kubelet: `imageRecord`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageUse {
    pub first_detected: Timestamp,
    /// None: never seen in use.
    pub last_used: Option<Timestamp>,
}

/// Why an image is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Used {
    /// By a container that exists, running or not yet collected.
    Container,
    /// It is the sandboxes' image.
    Sandbox,
    /// The runtime has pinned it.
    Pinned,
    /// A manifest on this node names it.
    Manifest,
}

/// Why an image stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keep {
    InUse(Used),
    /// Used since the run began.
    JustUsed,
    /// Detected less than `imageMinimumGCAge` ago.
    Young,
    /// Enough is free without it.
    NotNeeded,
}

/// How full one is (statfs), in bytes and inodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsUse {
    /// A directory on it.
    pub path: PathBuf,
    /// Its device number, which identifies the file system.
    pub device: u64,
    pub capacity: u64,
    /// To unprivileged users.
    pub available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
    /// Bytes used by images or containers, as reported by the runtime.
    pub used: Option<u64>,
    pub inodes_used: Option<u64>,
}

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
