//! The device checkpoint in the kubelet's own file: `kubelet_internal_checkpoint` (kubelet 1.20 and later),
//! so that a node can be taken over from a kubelet and given back.
//!
//! The file is JSON with a checksum: FNV-1a, 32 bits, of the data as the kubelet's `DeepHashObject` prints it
//! ([`text`]). A file is verified in the form in which it was written, so that lists in any order, and `null`
//! as well as `[]`, are accepted ([`read`]); it is always written in one form ([`mod@write`]).

mod file;
#[cfg(test)]
mod golden;
mod read;
#[cfg(test)]
mod tests;
mod text;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodewarden_model::DevicesPerNuma;

pub use file::CheckpointFile;
#[cfg(test)]
use file::LoadError;

/// The data of the checkpoint (`checkpoint.checkpointData`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// In any order, as in the kubelet. They are shared with the allocations, since most of them are the same
    /// from one checkpoint to the next.
    pub entries: Vec<Arc<PodDevicesEntry>>,
    /// Ids of healthy devices by resource. The kubelet only uses the names when it reads them.
    pub registered: BTreeMap<String, Arc<[String]>>,
}

/// The devices of one resource in one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDevicesEntry {
    pub pod_uid: String,
    pub container_name: String,
    pub resource_name: String,
    pub device_ids: DevicesPerNuma,
    /// `v1beta1.ContainerAllocateResponse`, encoded. A kubelet always writes it.
    pub alloc_resp: Option<Vec<u8>>,
}

impl PodDevicesEntry {
    /// All device ids, each once.
    pub fn ids(&self) -> BTreeSet<String> {
        crate::types::all_ids(&self.device_ids)
    }
}

/// Why a file is not a valid checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("not a device checkpoint of a kubelet 1.20 or later: {0}")]
    Json(#[from] serde_json::Error),
    /// `DeviceIDs` is a plain list, without NUMA nodes.
    #[error(
        "it was written by a kubelet before 1.20: the devices of {resource} in container {container} of pod {pod} have no \
         NUMA nodes"
    )]
    BeforeNuma { pod: String, container: String, resource: String },
    #[error("the checksum in it is {written}, that of its data {computed}")]
    Checksum { written: u64, computed: u32 },
}

impl Checkpoint {
    /// Parses the file and verifies its checksum. What newer kubelets add outside of the data (`BootID`) is
    /// ignored.
    ///
    /// # Errors
    /// The file is not JSON, has another format, or its checksum is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, CheckpointError> {
        read::parse(bytes)
    }

    /// As [`Self::parse`] without a look at the checksum, which a fuzzer does not guess. `None` when it is
    /// refused.
    #[cfg(feature = "fuzzing")]
    pub fn unverified(bytes: &[u8]) -> Option<Self> {
        read::unverified(bytes)
    }

    /// The file's content: JSON without spaces, with its checksum. An empty list is `null`, like Go's nil
    /// slice.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn to_bytes(&self) -> Vec<u8> {
        write::Writer::default().bytes(self)
    }
}
