//! What the files of a volume contain, as a function of the pod's spec and the objects that it names (kubelet
//! pkg/volume/configmap, secret, projected and downwardapi: `MakePayload`, `CollectData`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, ProjectedVolumeSource, ServiceAccountTokenProjection, VolumeProjection,
};

use super::VolumeError;
use crate::fields::{FieldError, pod_field, resource_value};
use crate::objects::{ConfigMap, ObjectError, PodObjects, Secret};
use nodewarden_manifest::Pod;
use nodewarden_manifest::volume_source::Source;
use nodewarden_qos::Node;

/// The mode of files without one.
const DEFAULT_MODE: i32 = 0o644;
/// The mode of a token that belongs to one user or group.
const OWN_TOKEN: u32 = 0o600;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileProjection {
    pub(super) data: Vec<u8>,
    /// Permission bits, before those of `fsGroup` are added.
    pub(super) mode: u32,
    /// Who owns it instead of root.
    pub(super) user: Option<u32>,
}

/// Files by their paths in the volume.
pub(super) type Payload = BTreeMap<String, FileProjection>;

/// The files of a volume; `None` for a volume whose content the agent does not write.
pub(super) fn payload(
    source: Source<'_>,
    pod: &Pod,
    objects: &PodObjects,
    node: Node<'_>,
) -> Result<Option<Payload>, VolumeError> {
    let mut files = Files { pod, objects, node, default_mode: DEFAULT_MODE, payload: Payload::new() };
    match source {
        Source::DownwardApi(asked) => {
            files.default_mode = asked.default_mode.unwrap_or(DEFAULT_MODE);
            files.fields(asked.items.as_deref())?;
        }
        Source::ConfigMap(asked) => {
            files.default_mode = asked.default_mode.unwrap_or(DEFAULT_MODE);
            files.config_map(&asked.name, asked.items.as_deref(), asked.optional)?;
        }
        Source::Secret(asked) => {
            files.default_mode = asked.default_mode.unwrap_or(DEFAULT_MODE);
            let name = asked.secret_name.as_deref().unwrap_or_default();
            files.secret(name, asked.items.as_deref(), asked.optional)?;
        }
        Source::Projected(asked) => files.projected(asked)?,
        Source::EmptyDir(_) | Source::HostPath(_) | Source::Claim(_) | Source::Ephemeral(_) => {
            return Ok(None);
        }
    }
    Ok(Some(files.payload))
}

/// The user that all containers of the pod run as by their manifest; `None` if they differ or one does not
/// say (kubelet `FsUserFrom`).
pub(super) fn common_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec();
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let init = spec.init_containers.iter().flatten();
    let mut users = init.chain(&spec.containers).map(|container| {
        container.security_context.as_ref().and_then(|context| context.run_as_user).or(of_pod)
    });
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok()).flatten()
}

/// `fsGroup`.
pub(super) fn group(pod: &Pod) -> Option<u32> {
    let spec = pod.spec();
    let context = spec.security_context.as_ref();
    context.and_then(|context| context.fs_group).and_then(|group| u32::try_from(group).ok())
}

/// The files of a volume as far as they are known.
struct Files<'a> {
    pod: &'a Pod,
    objects: &'a PodObjects,
    node: Node<'a>,
    default_mode: i32,
    payload: Payload,
}

impl Files<'_> {
    fn add(&mut self, path: &str, data: Vec<u8>, mode: Option<i32>) {
        let mode = mode.unwrap_or(self.default_mode).unsigned_abs() & 0o777;
        self.payload.insert(path.to_owned(), FileProjection { data, mode, user: None });
    }

    /// Every source adds its files; of two with one path the later counts.
    fn projected(&mut self, asked: &ProjectedVolumeSource) -> Result<(), VolumeError> {
        self.default_mode = asked.default_mode.unwrap_or(DEFAULT_MODE);
        let mut errors = Vec::new();
        for source in asked.sources.iter().flatten() {
            if let Err(error) = self.projection(source) {
                errors.push(error);
            }
        }
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(VolumeError::Several(errors)),
        }
    }

    fn projection(&mut self, source: &VolumeProjection) -> Result<(), VolumeError> {
        if let Some(map) = &source.config_map {
            self.config_map(&map.name, map.items.as_deref(), map.optional)?;
        }
        if let Some(secret) = &source.secret {
            self.secret(&secret.name, secret.items.as_deref(), secret.optional)?;
        }
        if let Some(asked) = &source.downward_api {
            self.fields(asked.items.as_deref())?;
        }
        if let Some(asked) = &source.service_account_token {
            self.token(asked)?;
        }
        Ok(())
    }

    fn config_map(
        &mut self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), VolumeError> {
        let optional = optional.unwrap_or(false);
        let empty = ConfigMap::default();
        let map = unless_optional(self.objects.config_map(name), optional, &empty)?;
        let text = map.data.iter().map(|(key, text)| (key.as_str(), text.as_bytes()));
        let binary = map.binary_data.iter().map(|(key, data)| (key.as_str(), data.as_slice()));
        let all: BTreeMap<&str, &[u8]> = binary.chain(text).collect();
        self.keys(&all, items, optional, "configmap references non-existent config key")
    }

    fn secret(
        &mut self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), VolumeError> {
        let optional = optional.unwrap_or(false);
        let empty = Secret::default();
        let secret = unless_optional(self.objects.secret(name), optional, &empty)?;
        let all = secret.data.iter().map(|(key, data)| (key.as_str(), data.as_slice())).collect();
        self.keys(&all, items, optional, "references non-existent secret key")
    }

    /// All keys, or those of `items`.
    fn keys(
        &mut self,
        all: &BTreeMap<&str, &[u8]>,
        items: Option<&[KeyToPath]>,
        optional: bool,
        missing: &'static str,
    ) -> Result<(), VolumeError> {
        let items = items.unwrap_or_default();
        if items.is_empty() {
            for (key, data) in all {
                self.add(key, data.to_vec(), None);
            }
        }
        for item in items {
            match all.get(item.key.as_str()) {
                Some(data) => self.add(&item.path, data.to_vec(), item.mode),
                None if optional => {}
                None => return Err(VolumeError::NoKey { missing, key: item.key.clone() }),
            }
        }
        Ok(())
    }

    fn fields(&mut self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<(), VolumeError> {
        for item in items.unwrap_or_default() {
            let fail = |source| VolumeError::Field { path: item.path.clone(), source };
            let content = content(item, self.pod, self.node).map_err(fail)?;
            self.add(&item.path, content.into_bytes(), item.mode);
        }
        Ok(())
    }

    fn token(&mut self, asked: &ServiceAccountTokenProjection) -> Result<(), VolumeError> {
        let token = self.objects.token(asked)?;
        let user = common_user(self.pod);
        self.add(&asked.path, token.as_bytes().to_vec(), None);
        if (user.is_some() || group(self.pod).is_some())
            && let Some(file) = self.payload.get_mut(&asked.path)
        {
            (file.mode, file.user) = (OWN_TOKEN, user);
        }
        Ok(())
    }
}

/// An object that does not exist has no keys if it is optional.
fn unless_optional<'a, T>(
    found: Result<&'a T, ObjectError>,
    optional: bool,
    empty: &'a T,
) -> Result<&'a T, ObjectError> {
    match found {
        Err(error) if optional && error.is_not_found() => Ok(empty),
        found => found,
    }
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

#[cfg(test)]
mod tests;
