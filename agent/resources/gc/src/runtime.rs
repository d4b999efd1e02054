//! What collection asks of the container runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nodewarden_proto::runtime::v1 as cri;

use nodewarden_cri::{Client, Listing, RuntimeError};
use nodewarden_model::ImageSeen;

/// A directory that something of the runtime's is on, and what that takes by its word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    pub used: Option<u64>,
    pub inodes_used: Option<u64>,
}

/// Where the runtime has images and containers' writable layers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    pub images: Vec<Place>,
    /// Empty from runtimes that do not tell: they are with the images.
    pub containers: Vec<Place>,
}

/// The runtime's calls. A removal of what is gone succeeds.
#[async_trait::async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Each image once.
    async fn images(&self) -> Result<Vec<ImageSeen>, RuntimeError>;
    /// The id of the image that a reference names, if it is there.
    async fn image_id(&self, reference: &str) -> Result<Option<String>, RuntimeError>;
    /// The image that sandboxes are made of, where the runtime tells.
    async fn sandbox_image(&self, sandboxes: &[cri::PodSandbox]) -> Result<Option<String>, RuntimeError>;
    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError>;
    async fn places(&self) -> Result<Places, RuntimeError>;
    /// Everybody's sandboxes and containers.
    async fn list(&self) -> Result<Listing, RuntimeError>;
    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError>;
    /// Stops it, so that its network is surely gone, and removes it.
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

    async fn sandbox_image(&self, sandboxes: &[cri::PodSandbox]) -> Result<Option<String>, RuntimeError> {
        Self::sandbox_image(self, sandboxes).await
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        Self::remove_image(self, id).await
    }

    async fn places(&self) -> Result<Places, RuntimeError> {
        let told = self.image_fs_info().await?;
        let places = |told: Vec<cri::FilesystemUsage>| told.into_iter().filter_map(place).collect();
        Ok(Places { images: places(told.image_filesystems), containers: places(told.container_filesystems) })
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

fn place(told: cri::FilesystemUsage) -> Option<Place> {
    let path = told.fs_id?.mountpoint;
    let value = |told: Option<cri::UInt64Value>| told.map(|told| told.value);
    (!path.is_empty()).then(|| Place {
        path: path.into(),
        used: value(told.used_bytes),
        inodes_used: value(told.inodes_used),
    })
}

/// One with several names may be told several times.
fn each_once(told: Vec<cri::Image>) -> Vec<ImageSeen> {
    let mut images: BTreeMap<String, ImageSeen> = BTreeMap::new();
    for image in told.into_iter().filter(|image| !image.id.is_empty()) {
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
    fn one_image_under_several_names_is_one() {
        let told = |id: &str, tag: &str, pinned| cri::Image {
            id: id.into(),
            repo_tags: vec![tag.into()],
            repo_digests: vec!["r/x@sha256:00".into()],
            size: 7,
            pinned,
            ..Default::default()
        };
        let images = each_once(vec![told("a", "x:1", false), told("", "y", false), told("a", "x:2", true)]);
        let names = ["x:1", "r/x@sha256:00", "x:2"].map(String::from).to_vec();
        assert_eq!(images, [ImageSeen { id: "a".into(), names, size: 7, pinned: true }]);
    }

    #[test]
    fn places_without_a_directory_are_none() {
        let told = |path: &str| cri::FilesystemUsage {
            fs_id: Some(cri::FilesystemIdentifier { mountpoint: path.into() }),
            used_bytes: Some(cri::UInt64Value { value: 3 }),
            ..Default::default()
        };
        let place = Some(Place { path: "/images".into(), used: Some(3), inodes_used: None });
        assert_eq!(super::place(told("/images")), place);
        assert_eq!(super::place(told("")), None);
        assert_eq!(super::place(cri::FilesystemUsage::default()), None);
    }
}
