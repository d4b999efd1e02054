//! The calls of garbage collection to the container runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nodewarden_cri::{Client, ListedSandbox, Listing, RuntimeError};
use nodewarden_model::ImageSeen;
use nodewarden_proto::runtime::v1 as cri;

/// A directory of the runtime, with the usage that the runtime reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskUsage {
    /// The directory.
    pub path: PathBuf,
    /// Used bytes according to the runtime.
    pub used: Option<u64>,
    /// Used inodes according to the runtime.
    pub inodes_used: Option<u64>,
}

/// The directories of images and of containers' writable layers (CRI: ImageFsInfo).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageFsInfo {
    /// Directories of images.
    pub images: Vec<DiskUsage>,
    /// Empty if the runtime does not report it: then they are with the images.
    pub containers: Vec<DiskUsage>,
}

/// The runtime's calls. Removing what does not exist succeeds.
#[async_trait::async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// All images, each once.
    async fn images(&self) -> Result<Vec<ImageSeen>, RuntimeError>;
    /// The id of the image that a reference names, if the runtime has it.
    async fn image_id(&self, reference: &str) -> Result<Option<String>, RuntimeError>;
    /// The image of sandboxes, if the runtime reports it.
    async fn sandbox_image(&self, sandboxes: &[ListedSandbox]) -> Result<Option<String>, RuntimeError>;
    /// Removes an image with all its names.
    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError>;
    /// The directories of images and containers.
    async fn image_fs_info(&self) -> Result<ImageFsInfo, RuntimeError>;
    /// All sandboxes and containers, also those of other owners.
    async fn list(&self) -> Result<Listing, RuntimeError>;
    /// Removes a container.
    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError>;
    /// Stops a sandbox, so that its network is removed, and removes it.
    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError>;
}

#[async_trait::async_trait]
impl Runtime for Client {
    async fn images(&self) -> Result<Vec<ImageSeen>, RuntimeError> {
        Ok(each_once(self.list_images().await?))
    }

    async fn image_id(&self, reference: &str) -> Result<Option<String>, RuntimeError> {
        Ok(self.image(reference).await?.map(|image| image.id))
    }

    async fn sandbox_image(&self, sandboxes: &[ListedSandbox]) -> Result<Option<String>, RuntimeError> {
        Self::sandbox_image(self, sandboxes).await
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        Self::remove_image(self, id).await
    }

    async fn image_fs_info(&self) -> Result<ImageFsInfo, RuntimeError> {
        let info = self.image_fs_info().await?;
        let usages = |list: Vec<cri::FilesystemUsage>| list.into_iter().filter_map(usage).collect();
        Ok(ImageFsInfo {
            images: usages(info.image_filesystems),
            containers: usages(info.container_filesystems),
        })
    }

    async fn list(&self) -> Result<Listing, RuntimeError> {
        Self::list(self).await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        Self::remove_container(self, id).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.stop_sandbox(id).await?;
        Self::remove_sandbox(self, id).await
    }
}

fn usage(reported: cri::FilesystemUsage) -> Option<DiskUsage> {
    let path = reported.fs_id?.mountpoint;
    let value = |value: Option<cri::UInt64Value>| value.map(|value| value.value);
    (!path.is_empty()).then(|| DiskUsage {
        path: path.into(),
        used: value(reported.used_bytes),
        inodes_used: value(reported.inodes_used),
    })
}

/// Merges entries of one image, which some runtimes list once per name.
fn each_once(reported: Vec<cri::Image>) -> Vec<ImageSeen> {
    let mut images: BTreeMap<String, ImageSeen> = BTreeMap::new();
    for image in reported.into_iter().filter(|image| !image.id.is_empty()) {
        let own = images.entry(image.id.clone()).or_insert_with(|| ImageSeen {
            id: image.id,
            names: Vec::new(),
            size: 0,
            pinned: false,
        });
        for name in image.repo_tags.into_iter().chain(image.repo_digests) {
            if !own.names.contains(&name) {
                own.names.push(name);
            }
        }
        own.size = own.size.max(image.size);
        own.pinned |= image.pinned;
    }
    images.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_image_are_merged() {
        let reported = |id: &str, tag: &str, pinned| cri::Image {
            id: id.into(),
            repo_tags: vec![tag.into()],
            repo_digests: vec!["r/x@sha256:00".into()],
            size: 7,
            pinned,
            ..Default::default()
        };
        let images = each_once(vec![
            reported("a", "x:1", false),
            reported("", "y", false),
            reported("a", "x:2", true),
        ]);
        let names = ["x:1", "r/x@sha256:00", "x:2"].map(String::from).to_vec();
        assert_eq!(images, [ImageSeen { id: "a".into(), names, size: 7, pinned: true }]);
    }

    #[test]
    fn file_systems_without_a_directory_are_ignored() {
        let reported = |path: &str| cri::FilesystemUsage {
            fs_id: Some(cri::FilesystemIdentifier { mountpoint: path.into() }),
            used_bytes: Some(cri::UInt64Value { value: 3 }),
            ..Default::default()
        };
        let place = Some(DiskUsage { path: "/images".into(), used: Some(3), inodes_used: None });
        assert_eq!(usage(reported("/images")), place);
        assert_eq!(usage(reported("")), None);
        assert_eq!(usage(cri::FilesystemUsage::default()), None);
    }
}
