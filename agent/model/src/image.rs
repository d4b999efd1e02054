//! Images, their garbage collection and dead containers, as `nodewarden images` and `nodewarden gc` show
//! them.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

/// The node's images and the file system that holds them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImagesView {
    /// In the order of removal, kept ones at the end.
    pub images: Vec<ImageView>,
    /// The file system of the images; `None` if it is unknown.
    pub fs: Option<FsUse>,
    /// Bytes to free now to get to the low threshold; 0 while the usage is below the high one.
    pub wanted: u64,
    /// Why the runtime or the file system could not be read; empty if both could.
    pub problem: String,
}

/// One image and why it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageView {
    /// What the runtime reports.
    pub image: ImageSeen,
    /// Since when it is known and when it was last used; `None` until a check has recorded it.
    pub known: Option<ImageUse>,
    /// Why it is kept; `None` if it would be removed.
    pub keep: Option<Keep>,
    /// What uses it: pods and containers, manifests.
    pub users: Vec<String>,
}

/// One step of a collection, as `nodewarden gc` prints it.
#[derive(Debug, Clone, PartialEq)]
pub struct GcStep {
    /// When it was done or planned.
    pub time: Timestamp,
    /// `image`, `container`, `sandbox`, `logs`.
    pub what: &'static str,
    /// Id of the image, container or sandbox, or path of the logs.
    pub id: String,
    /// The names of it, for display.
    pub name: String,
    /// Bytes by which the file system's free space grew since the step before; `None` where it was not
    /// measured.
    pub freed: Option<u64>,
    /// Why it failed; empty if it did not.
    pub error: String,
    /// Whether it was only planned.
    pub dry: bool,
}

/// The result of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcOutcome {
    /// Bytes to free to get to the low threshold when it began; 0 where the usage was below the high one.
    pub wanted: u64,
    /// Bytes by which the free space of the images' file system has grown since then.
    pub freed: u64,
    /// Whether the usage is at or below the low threshold, or nothing had to be freed. Meaningless for a
    /// plan.
    pub reached: bool,
}

impl ImageView {
    /// Every value of [`ImageView::state`].
    pub const STATES: [&'static str; 8] =
        ["container", "sandbox", "pinned", "manifest", "just_used", "young", "not_needed", "removable"];

    /// What keeps it, in the word used by metrics, API and command line; `removable` if nothing does.
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
    /// The settings that the collection follows.
    fn settings(&self) -> GcSettings;

    /// Reads the images now. If something could not be read, `problem` says what.
    async fn view(&self) -> ImagesView;

    /// Collects what is due now, containers first, or only plans it (`dry`). Each step is sent to `steps` as
    /// soon as it is done; a closed receiver does not stop the collection. A failed removal is a step, not an
    /// error.
    ///
    /// # Errors
    /// Why the collection did not start or did not finish, as a message for the user.
    async fn collect(&self, dry: bool, steps: UnboundedSender<GcStep>) -> Result<GcOutcome, String>;
}

/// An image as reported by the runtime, with all its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSeen {
    /// The runtime's id of it: `sha256:…`.
    pub id: String,
    /// Tags, then digests.
    pub names: Vec<String>,
    /// Bytes reported by the runtime, including layers shared with other images.
    pub size: u64,
    /// Whether the runtime itself keeps it.
    pub pinned: bool,
}

/// What must outlive the agent of an image (kubelet: `imageRecord`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageUse {
    /// When a check first saw it; the agent's own time, not the image's.
    pub first_detected: Timestamp,
    /// When a check last saw it in use; `None` if it never did.
    pub last_used: Option<Timestamp>,
}

/// Why an image is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Used {
    /// By a container that exists, running or not yet collected.
    Container,
    /// It is the image of pod sandboxes.
    Sandbox,
    /// The runtime has pinned it.
    Pinned,
    /// A manifest on this node names it.
    Manifest,
}

/// Why an image is not removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keep {
    /// It is in use.
    InUse(Used),
    /// It was used after the collection began.
    JustUsed,
    /// It was detected less than `imageMinimumGCAge` ago.
    Young,
    /// Enough is free without removing it.
    NotNeeded,
}

/// How full a file system is (statfs), in bytes and inodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsUse {
    /// A directory on it.
    pub path: PathBuf,
    /// Its device number, which identifies the file system.
    pub device: u64,
    /// Bytes in total.
    pub capacity: u64,
    /// Bytes available to unprivileged users.
    pub available: u64,
    /// Inodes in total.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
    /// Bytes used by images or containers, as reported by the runtime; `None` without a report.
    pub used: Option<u64>,
    /// Inodes used by images or containers, as reported by the runtime; `None` without a report.
    pub inodes_used: Option<u64>,
}

/// Settings of the garbage collection of images and dead containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcSettings {
    /// `imageGCHighThresholdPercent`: usage of the image file system from which on images are collected; with
    /// 100 they never are periodically.
    pub high_percent: u8,
    /// `imageGCLowThresholdPercent`: images are removed until the usage is down to this.
    pub low_percent: u8,
    /// `imageMinimumGCAge`: images detected less than this ago are kept.
    pub min_age: Duration,
    /// `imageMaximumGCAge`: images unused for longer are removed at any usage; `None`: there is no such age.
    pub max_age: Option<Duration>,
    /// `nodewarden.gc.periodSeconds` (kubelet: ImageGCPeriod, 5 min).
    pub period: Duration,
    /// `nodewarden.gc.maxPerPodContainer`: how many dead containers are kept of each container of a pod
    /// (kubelet flag `--maximum-dead-containers-per-container`, 1); `None`: all.
    pub max_per_pod_container: Option<u32>,
    /// `nodewarden.gc.maxContainers`: how many dead containers are kept on the node
    /// (`--maximum-dead-containers`, no bound); `None`: all.
    pub max_containers: Option<u32>,
    /// `nodewarden.gc.minAgeSeconds`: dead containers younger than this are kept
    /// (`--minimum-container-ttl-duration`, 0).
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
