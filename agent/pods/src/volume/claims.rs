//! Claims that are bound to a path of the node: `hostPath` and local persistent volumes. The pod's directory gets a
//! link to the path, so that containers of the pod start again while the API server does not answer.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::foreign::on_host_paths;
use super::{Source, VolumeError, directory, host_path};
use crate::objects::{BoundVolume, ObjectError};
use crate::paths::PodPaths;
use nodewarden_manifest::Pod;
use nodewarden_tasks::blocking;

/// The pod's volumes that are claims and have no link yet, each with the claim's name. Blocks.
pub fn unlinked_claims(pod: &Pod, paths: &PodPaths) -> Vec<(String, String)> {
    let volumes = pod.spec.volumes.iter().flatten();
    let claims = volumes.filter_map(|volume| {
        let source = Source::of(volume)?;
        let claim = source.claim(&pod.name, &volume.name)?;
        let link = paths.source(source, &volume.name);
        fs::read_link(link).is_err().then(|| (volume.name.clone(), claim))
    });
    claims.collect()
}

/// Checks what a claim of the pod is bound to, and links it into the pod's directory.
///
/// # Errors
/// The path does not match its type, its file system does not answer, or the link cannot be made; the error
/// names the volume.
pub async fn link_claim(
    pod: &Pod,
    paths: &PodPaths,
    volume: &str,
    bound: BoundVolume,
) -> Result<(), VolumeError> {
    let source = pod.spec.volumes.iter().flatten().find(|own| own.name == volume).and_then(Source::of);
    let Some(source) = source else { return Ok(()) };
    let link = paths.source(source, volume);
    let BoundVolume { path, path_type, .. } = bound;
    let checked = {
        let path = path.clone();
        on_host_paths(vec![path.clone()], move || host_path::check(&path, &path_type)).await
    };
    // None: a panic, which is a fault of the agent; the pod is tried again.
    checked.and_then(|checked| checked.unwrap_or(Ok(()))).map_err(|error| error.of(volume))?;
    let made = blocking::POD_FILES.run(move || make_link(&link, &path)).await;
    made.unwrap_or(Ok(())).map_err(|error| error.of(volume))
}

fn make_link(link: &Path, path: &PathBuf) -> Result<(), VolumeError> {
    if let Some(parent) = link.parent() {
        directory(parent, 0o750)?;
    }
    match symlink(path, link) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(VolumeError::file("link", link)),
    }
}

impl VolumeError {
    /// The claim of a volume that cannot be had.
    pub fn claim(volume: &str, error: ObjectError) -> Self {
        Self::Object(error).of(volume)
    }
}
