//! Images as `nodewarden images` shows them.

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;

use crate::config::GcSettings;
use crate::gc::{FsUse, ImageSeen, ImageUse, Keep, Used};

/// The node's images and what they are on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImagesView {
    /// In the order in which they would go, those that stay at the end.
    pub images: Vec<ImageView>,
    /// Of the images; none where it cannot be told.
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
    /// None: it would go.
    pub keep: Option<Keep>,
    /// What uses it: pods and containers, manifests.
    pub users: Vec<String>,
}

/// One step of a collection, as `nodewarden gc` tells it.
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

/// Images as they stand, and their collection with that of dead containers. Whoever implements it asks the runtime.
#[async_trait::async_trait]
pub trait Garbage: Send + Sync + 'static {
    /// What collection goes by.
    fn settings(&self) -> GcSettings;

    /// A look made now. What keeps it from being whole is in it.
    async fn view(&self) -> ImagesView;

    /// Collects what is due now, containers first, or only plans it (`dry`). Each step is sent as soon as it is done;
    /// that nobody takes them ends nothing. A removal that failed is a step and no error.
    ///
    /// # Errors
    /// Why there was no collection, or no end of it, for people.
    async fn collect(&self, dry: bool, steps: UnboundedSender<GcStep>) -> Result<GcOutcome, String>;
}
