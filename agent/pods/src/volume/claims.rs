//! Claims that are bound to a path of the node: `hostPath` and local persistent volumes. The pod's directory
//! gets a link to the path, so that containers of the pod start again while the API server does not answer.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::foreign::{on_host_paths, on_many_files};
use super::{Source, VolumeError, directory, host_path, ownership};
use crate::objects::{BoundVolume, ObjectError};
use crate::paths::PodPaths;
use nodewarden_manifest::Pod;
use nodewarden_tasks::blocking;

/// The pod's volumes that are claims and have no link yet, each with the claim's name. Blocks.
pub fn unlinked_claims(pod: &Pod, paths: &PodPaths) -> Vec<(String, String)> {
    let spec = pod.spec();
    let volumes = spec.volumes.iter().flatten();
    let claims = volumes.filter_map(|volume| {
        let source = Source::of(volume)?;
        let claim = source.claim(&pod.name, &volume.name)?;
        let link = paths.source(source, &volume.name);
        fs::read_link(link).is_err().then(|| (volume.name.clone(), claim))
    });
    claims.collect()
}

/// A local volume that another pod of the node uses already, with another group (the kubelet's
/// `AlreadyMountedVolume`). Its files are left as they are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "The requested fsGroup is {wanted}, but the volume {name} has GID {found}. The volume may not be shareable."
)]
pub struct Shared {
    name: String,
    wanted: u32,
    found: u32,
}

/// Checks what a claim of the pod is bound to, gives a local volume to the pod's `fsGroup`, and links it into
/// the pod's directory. As in a kubelet, a `hostPath` and a volume that the pod only reads keep their owners.
///
/// # Errors
/// The path does not match its type, its file system does not answer, its files cannot be given to the group,
/// or the link cannot be made; the error names the volume.
pub async fn link_claim(
    pod: &Pod,
    paths: &PodPaths,
    volume: &str,
    bound: BoundVolume,
) -> Result<Option<Shared>, VolumeError> {
    let spec = pod.spec();
    let source = spec.volumes.iter().flatten().find(|own| own.name == volume).and_then(Source::of);
    let Some(source) = source else { return Ok(None) };
    let link = paths.source(source, volume);
    let is_read_only = matches!(source, Source::Claim(asked) if asked.read_only == Some(true));
    let group = ownership::Wanted::of(spec.security_context.as_ref());
    let BoundVolume { name, path, path_type, is_local, .. } = bound;
    let checked = {
        let path = path.clone();
        on_host_paths(vec![path.clone()], move || host_path::check(&path, &path_type)).await
    };
    // None: a panic, which is a fault of the agent; the pod is tried again.
    checked.and_then(|checked| checked.unwrap_or(Ok(()))).map_err(|error| error.of(volume))?;
    let shared = match group.filter(|_| is_local && !is_read_only) {
        Some(wanted) => own(paths, &link, &name, &path, wanted).await.map_err(|error| error.of(volume))?,
        None => None,
    };
    let made = blocking::POD_FILES.run(move || make_link(&link, &path)).await;
    made.unwrap_or(Ok(())).map_err(|error| error.of(volume))?;
    Ok(shared)
}

/// Gives the volume to the group, unless another pod uses it.
async fn own(
    paths: &PodPaths,
    link: &Path,
    name: &str,
    path: &Path,
    wanted: ownership::Wanted,
) -> Result<Option<Shared>, VolumeError> {
    let is_used = {
        let (pod_dir, link, path) = (paths.pod_dir.clone(), link.to_owned(), path.to_owned());
        blocking::POD_FILES.run(move || is_used_by_another(&pod_dir, &link, &path)).await.unwrap_or(false)
    };
    let root = path.to_owned();
    if !is_used {
        let work = move |moves: &_| ownership::give(&root, wanted, moves);
        return on_many_files(path.to_owned(), work).await?.unwrap_or(Ok(())).map(|()| None);
    }
    let found = on_host_paths(vec![path.to_owned()], move || ownership::group_of(&root)).await?;
    let found = found.unwrap_or(Ok(wanted.group))?;
    let shared = Shared { name: name.to_owned(), wanted: wanted.group, found };
    Ok((found != wanted.group).then_some(shared))
}

/// Whether another pod has a link to the path, as this pod will have at `link` below `pod_dir`.
fn is_used_by_another(pod_dir: &Path, link: &Path, path: &Path) -> bool {
    let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let plugin = link.parent().and_then(|plugin| plugin.strip_prefix(pod_dir).ok());
    let (Some(pods_dir), Some(plugin)) = (pod_dir.parent(), plugin) else { return false };
    let mut others = list(pods_dir).filter(|other| other != pod_dir);
    others.any(|other| {
        list(&other.join(plugin)).any(|link| fs::read_link(link).is_ok_and(|found| found == path))
    })
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

#[cfg(test)]
mod tests;
