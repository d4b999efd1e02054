//! `downwardAPI` volumes: fields of the pod as files (kubelet pkg/volume/downwardapi).

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, DownwardAPIVolumeSource};

use super::{Source, VolumeError, directory};
use crate::fields::{FieldError, pod_field, resource_value};
use crate::paths::PodPaths;
use nodewarden_manifest::Pod;
use nodewarden_qos::Node;

const DEFAULT_MODE: i32 = 0o644;

/// Writes all `downwardAPI` volumes of the pod. Each file is replaced atomically; unchanged files are not written.
///
/// # Errors
/// A field is unknown or a file cannot be written; the error names the volume.
pub(crate) fn write_downward(pod: &Pod, paths: &PodPaths, node: Node<'_>) -> Result<(), VolumeError> {
    for volume in pod.spec.volumes.iter().flatten() {
        if let Some(Source::DownwardApi(asked)) = Source::of(volume) {
            write_volume(&paths.downward_api(&volume.name), asked, pod, node)
                .map_err(|error| error.of(&volume.name))?;
        }
    }
    Ok(())
}

fn write_volume(
    dir: &Path,
    asked: &DownwardAPIVolumeSource,
    pod: &Pod,
    node: Node<'_>,
) -> Result<(), VolumeError> {
    directory(dir, 0o755)?;
    let context = pod.spec.security_context.as_ref();
    let group = context.and_then(|c| c.fs_group).and_then(|group| u32::try_from(group).ok());
    for item in asked.items.iter().flatten() {
        let fail = |source| VolumeError::Field { path: item.path.clone(), source };
        let content = content(item, pod, node).map_err(fail)?;
        let relative = Path::new(&item.path);
        if relative.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(VolumeError::Escape { root: dir.to_owned(), path: dir.join(relative) });
        }
        let path = dir.join(relative);
        if let Some(parent) = path.parent() {
            directory(parent, 0o755)?;
        }
        let mode = item.mode.or(asked.default_mode).unwrap_or(DEFAULT_MODE);
        // With fsGroup the group may read the file.
        let mode = mode.unsigned_abs() | if group.is_some() { 0o440 } else { 0 };
        write(&path, &content, mode, group)?;
    }
    Ok(())
}

fn content(item: &DownwardAPIVolumeFile, pod: &Pod, node: Node<'_>) -> Result<String, FieldError> {
    if let Some(selector) = &item.field_ref {
        let unknown = || FieldError::Unsupported(selector.field_path.clone());
        pod_field(&selector.field_path, pod).ok_or_else(unknown)
    } else if let Some(selector) = &item.resource_field_ref {
        resource_value(selector, None, pod, node)
    } else {
        Err(FieldError::Unsupported(String::new()))
    }
}

fn write(path: &Path, content: &str, mode: u32, group: Option<u32>) -> Result<(), VolumeError> {
    if fs::read(path).is_ok_and(|known| known == content.as_bytes()) {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut open = fs::OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = open.open(&new).map_err(VolumeError::file("create", &new))?;
    file.write_all(content.as_bytes()).map_err(VolumeError::file("write", &new))?;
    if group.is_some() {
        fchown(&file, None, group).map_err(VolumeError::file("chown", &new))?;
    }
    let mode = fs::Permissions::from_mode(mode);
    file.set_permissions(mode).map_err(VolumeError::file("chmod", &new))?;
    fs::rename(&new, path).map_err(VolumeError::file("rename", &new))
}
