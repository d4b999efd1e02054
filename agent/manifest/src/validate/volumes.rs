//! Volumes, and the containers' mounts of them (`ValidateVolumes`, `ValidateVolumeMounts`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Volume, VolumeMount};

use super::report::Report;
use super::{projections, refused};
use crate::name_forms::is_dns_label;
use crate::volume_source::{HOST_PATH_TYPES, Medium, Source};
use crate::{Pod, Quantity};

pub(super) fn problems(pod: &Pod, report: &mut Report) {
    let mut names = BTreeSet::new();
    for (index, volume) in pod.spec().volumes.iter().flatten().enumerate() {
        let place = format!("spec.volumes[{index}]");
        if !is_dns_label(&volume.name) {
            report.add(format!("{place}.name"), &volume.name, "must be a DNS label");
        } else if !names.insert(&volume.name) {
            report.add(format!("{place}.name"), &volume.name, "must be unique among the volumes of the pod");
        }
        let kinds = serde_json::to_value(volume).ok().and_then(|v| v.as_object().map(serde_json::Map::len));
        if kinds > Some(2) {
            report.add(&place, &volume.name, "must have one kind only");
        } else if !refused::volume(volume, &place, report) {
            source(volume, &place, pod, report);
        }
    }
}

fn source(volume: &Volume, place: &str, pod: &Pod, report: &mut Report) {
    match Source::of(volume) {
        Some(Source::EmptyDir(Some(asked))) => empty_dir(asked, &format!("{place}.emptyDir"), report),
        Some(Source::HostPath(asked)) => {
            let field = format!("{place}.hostPath.path");
            if asked.path.is_empty() {
                report.required(&field);
            } else if !asked.path.starts_with('/') {
                report.add(&field, &asked.path, "must be an absolute path");
            }
            report.no_steps_up(&field, &asked.path);
            report.word(format!("{place}.hostPath.type"), asked.type_.as_deref(), &HOST_PATH_TYPES);
        }
        Some(Source::DownwardApi(asked)) => {
            let place = format!("{place}.downwardAPI");
            projections::mode(&format!("{place}.defaultMode"), asked.default_mode, report);
            projections::fields(asked.items.as_deref(), &place, pod, report, &mut BTreeSet::new());
        }
        Some(Source::ConfigMap(asked)) => {
            projections::config_map(asked, &format!("{place}.configMap"), report);
        }
        Some(Source::Secret(asked)) => projections::secret(asked, &format!("{place}.secret"), report),
        Some(Source::Projected(asked)) => {
            projections::projected(asked, &format!("{place}.projected"), pod, report);
        }
        Some(Source::Claim(asked)) => {
            let field = format!("{place}.persistentVolumeClaim.claimName");
            report.object(&field, &asked.claim_name, "persistent volume claims");
            if report.is_api() && asked.claim_name.is_empty() {
                report.required(field);
            }
        }
        Some(Source::Ephemeral(_)) => {
            report.object(format!("{place}.ephemeral"), "", "persistent volume claims");
        }
        Some(Source::EmptyDir(None)) | None => {}
    }
}

fn empty_dir(asked: &EmptyDirVolumeSource, place: &str, report: &mut Report) {
    let medium = asked.medium.as_deref().unwrap_or_default();
    if Medium::parse(medium).is_none() {
        let expected = "must be Memory, HugePages, HugePages-<size> or left out";
        report.add(format!("{place}.medium"), medium, expected);
    }
    if let Some(text) = &asked.size_limit {
        let field = format!("{place}.sizeLimit");
        match Quantity::parse(text.0.trim()) {
            Ok(size) if size.is_negative() => report.add(field, &text.0, "must not be negative"),
            Ok(size) if !size.fits_i64() => report.add(field, &text.0, "exceeds what the kernel accepts"),
            Ok(_) => {}
            Err(error) => report.add(field, &text.0, format!("is not a quantity: {}", error.fault)),
        }
    }
}

pub(super) fn mounts(container: &Container, place: &str, pod: &Pod, report: &mut Report) {
    let spec = pod.spec();
    let volumes: BTreeMap<&str, &Volume> =
        spec.volumes.iter().flatten().map(|volume| (volume.name.as_str(), volume)).collect();
    let mut paths = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let place = format!("{place}.volumeMounts[{index}]");
        if mount.name.is_empty() {
            report.required(format!("{place}.name"));
        } else if !volumes.contains_key(mount.name.as_str()) {
            report.add(format!("{place}.name"), &mount.name, "must be a volume of the pod");
        }
        let field = format!("{place}.mountPath");
        let path = mount.mount_path.as_str();
        if path.is_empty() {
            report.required(&field);
        } else if !paths.insert(path) {
            report.add(&field, path, "must be unique among the mounts of the container");
        } else if path.contains(':') {
            report.add(&field, path, "must not contain ':'");
        }
        sub_path(mount, &place, report);
        let context = container.security_context.as_ref();
        let privileged = context.and_then(|context| context.privileged).unwrap_or(false);
        propagation(mount, privileged, &place, report);
    }
}

fn sub_path(mount: &VolumeMount, place: &str, report: &mut Report) {
    let [path, expression] =
        [&mount.sub_path, &mount.sub_path_expr].map(|text| text.as_deref().unwrap_or_default());
    report.descending(&format!("{place}.subPath"), path);
    report.descending(&format!("{place}.subPathExpr"), expression);
    if !path.is_empty() && !expression.is_empty() {
        report.add(format!("{place}.subPathExpr"), expression, "must not be set together with subPath");
    }
}

fn propagation(mount: &VolumeMount, privileged: bool, place: &str, report: &mut Report) {
    let mode = mount.mount_propagation.as_deref();
    let field = format!("{place}.mountPropagation");
    report.word(&field, mode, &["None", "HostToContainer", "Bidirectional"]);
    if mode == Some("Bidirectional") && !privileged {
        report.add(field, "Bidirectional", "must be of a privileged container");
    }
    let recursive = mount.recursive_read_only.as_deref();
    let field = format!("{place}.recursiveReadOnly");
    report.word(&field, recursive, &["Disabled", "IfPossible", "Enabled"]);
    if let Some(value @ ("IfPossible" | "Enabled")) = recursive {
        if !mount.read_only.unwrap_or(false) {
            report.add(&field, value, "needs readOnly: true");
        }
        if mode.is_some_and(|mode| mode != "None") {
            report.add(field, value, "must be without mountPropagation, or with None");
        }
    }
}
