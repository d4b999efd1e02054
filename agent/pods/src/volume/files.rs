//! Volumes of files that the agent writes: downwardAPI, configMap, secret, projected. Made before the pod's
//! sandbox, and written again whenever something in them has changed.

use std::path::Path;

use super::empty_dir::Wanted;
use super::payload::{group, payload};
use super::{Source, VolumeError, atomic, empty_dir};
use crate::objects::PodObjects;
use crate::paths::PodPaths;
use nodewarden_manifest::Pod;
use nodewarden_qos::Node;

/// What became of the pod's volumes of files.
#[derive(Debug, Default)]
pub struct Written {
    /// Volumes of which containers see other content now.
    pub changed: Vec<String>,
    /// Volumes that keep what they have, because what they should have could not be found out.
    pub kept: Vec<VolumeError>,
}

/// Writes all volumes of files of the pod. A volume that has been written before keeps its content if what it
/// names cannot be had.
///
/// # Errors
/// A volume has never been written, and what it names cannot be had; or a file cannot be written. The error
/// names the volume.
pub fn write_files(
    pod: &Pod,
    paths: &PodPaths,
    node: Node<'_>,
    objects: &PodObjects,
) -> Result<Written, VolumeError> {
    let mut written = Written::default();
    for volume in pod.spec().volumes.iter().flatten() {
        let Some(source) = Source::of(volume) else { continue };
        let dir = paths.source(source, &volume.name);
        match payload(source, pod, objects, node) {
            Ok(None) => {}
            Ok(Some(payload)) => {
                let made = make(&dir, source, pod);
                let changed = made.and_then(|()| atomic::write(&dir, &payload, group(pod)));
                if changed.map_err(|error| error.of(&volume.name))? {
                    written.changed.push(volume.name.clone());
                }
            }
            Err(error) if atomic::is_written(&dir) => written.kept.push(error.of(&volume.name)),
            Err(error) => return Err(error.of(&volume.name)),
        }
    }
    Ok(written)
}

/// Whether the pod has volumes of files.
pub fn has_files(pod: &Pod) -> bool {
    let spec = pod.spec();
    let sources = spec.volumes.iter().flatten().filter_map(Source::of);
    let is_written = |source| {
        matches!(
            source,
            Source::DownwardApi(_) | Source::ConfigMap(_) | Source::Secret(_) | Source::Projected(_)
        )
    };
    sources.into_iter().any(is_written)
}

/// Makes the volume's directory; in memory what may be secret.
fn make(dir: &Path, source: Source<'_>, pod: &Pod) -> Result<(), VolumeError> {
    if atomic::is_written(dir) {
        return Ok(());
    }
    let in_memory = matches!(source, Source::Secret(_) | Source::Projected(_));
    empty_dir::make(dir, &Wanted::of_files(in_memory, group(pod)))
}
