//! Mirror pods: the pods of manifests, shown at the API server. They are made, made again when someone
//! deletes them or the manifest changes, and deleted when the manifest is gone. Their statuses are written by
//! [`crate::status`].

mod decide;
mod object;
mod pods;

pub use pods::MirrorPods;
