//! What of the devices must outlive the agent, in the kubelet's own file: `kubelet_internal_checkpoint` (kubelet 1.20 and
//! later), so that a node can be taken over from a kubelet and given back.
//!
//! The file is JSON with a checksum: FNV-1a, 32 bits, of the data as the kubelet's `DeepHashObject` prints it ([`text`]).
//! What is read is checked in the form in which it was written, so that lists in any order and `null` beside `[]` hold
//! ([`read`]); what is written has one form ([`write`]).

mod file;
#[cfg(test)]
mod golden;
mod read;
#[cfg(test)]
mod tests;
mod text;
mod write;

use std::collections::BTreeMap;

use nodewarden_model::DevicesPerNuma;

pub use file::{CheckpointFile, CheckpointFileError, Damaged, LoadError};

/// What the kubelet writes down (`checkpoint.checkpointData`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// In any order: the kubelet has none.
    pub entries: Vec<PodDevicesEntry>,
    /// Ids of healthy devices by resource. The kubelet reads only the names again.
    pub registered: BTreeMap<String, Vec<String>>,
}

/// The devices of one resource that a container has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDevicesEntry {
    pub pod_uid: String,
    pub container_name: String,
    pub resource_name: String,
    pub device_ids: DevicesPerNuma,
    /// `v1beta1.ContainerAllocateResponse`, encoded. A kubelet writes no entry without one.
    pub alloc_resp: Option<Vec<u8>>,
}

/// Why bytes are no checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("not a device checkpoint of a kubelet 1.20 or later: {0}")]
    Json(#[from] serde_json::Error),
    /// `DeviceIDs` is a plain list.
    #[error(
        "it is of a kubelet before 1.20: the devices of {resource} in container {container} of pod {pod} have no \
         NUMA nodes"
    )]
    BeforeNuma { pod: String, container: String, resource: String },
    #[error("the checksum in it is {written}, that of its data {computed}")]
    Checksum { written: u64, computed: u32 },
}

impl Checkpoint {
    /// Reads the kubelet's file and holds it to its checksum. What newer kubelets write beside the data (`BootID`) is
    /// passed over.
    ///
    /// # Errors
    /// Not JSON, not this format, or another checksum.
    pub fn parse(bytes: &[u8]) -> Result<Self, CheckpointError> {
        read::parse(bytes)
    }

    /// The file: JSON without spaces, with its checksum. An empty list is `null`, as Go's nil slice is.
    pub fn to_bytes(&self) -> Vec<u8> {
        write::Writer::default().bytes(self)
    }
}
