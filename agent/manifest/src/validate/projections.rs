//! Volumes of files that the agent writes: downwardAPI, configMap, secret, projected
//! (`validateConfigMapVolumeSource`, `validateSecretVolumeSource`, `validateProjectedVolumeSource`).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, KeyToPath, ProjectedVolumeSource, SecretVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::env;
use super::report::Report;
use crate::Pod;
use crate::fields::is_volume_field;

/// A file's permission bits.
const MOST_MODE: i64 = 0o777;
/// `ServiceAccountTokenProjection.expirationSeconds`, at least and at most.
const EXPIRATION: (i64, i64) = (600, 1 << 32);

pub(super) fn mode(place: &str, mode: Option<i32>, report: &mut Report) {
    report.number(place, mode.map(i64::from), 0, MOST_MODE);
}

pub(super) fn config_map(asked: &ConfigMapVolumeSource, place: &str, report: &mut Report) {
    object(&asked.name, &format!("{place}.name"), "config maps", report);
    mode(&format!("{place}.defaultMode"), asked.default_mode, report);
    keys(asked.items.as_deref(), place, report, &mut BTreeSet::new());
}

pub(super) fn secret(asked: &SecretVolumeSource, place: &str, report: &mut Report) {
    let name = asked.secret_name.as_deref().unwrap_or_default();
    object(name, &format!("{place}.secretName"), "secrets", report);
    mode(&format!("{place}.defaultMode"), asked.default_mode, report);
    keys(asked.items.as_deref(), place, report, &mut BTreeSet::new());
}

fn object(name: &str, field: &str, kind: &str, report: &mut Report) {
    report.object(field, name, kind);
    if report.is_api() && name.is_empty() {
        report.required(field);
    }
}

/// Several sources in one volume; no two may write the same file.
pub(super) fn projected(asked: &ProjectedVolumeSource, place: &str, pod: &Pod, report: &mut Report) {
    mode(&format!("{place}.defaultMode"), asked.default_mode, report);
    let mut paths = BTreeSet::new();
    for (index, source) in asked.sources.iter().flatten().enumerate() {
        projection(source, &format!("{place}.sources[{index}]"), pod, report, &mut paths);
    }
}

fn projection(
    source: &VolumeProjection,
    place: &str,
    pod: &Pod,
    report: &mut Report,
    paths: &mut BTreeSet<String>,
) {
    let kinds = serde_json::to_value(source).ok().and_then(|v| v.as_object().map(serde_json::Map::len));
    if kinds != Some(1) {
        report.add(place, "", "must have one source");
    }
    if let Some(secret) = &source.secret {
        let place = format!("{place}.secret");
        object(&secret.name, &format!("{place}.name"), "secrets", report);
        keys(secret.items.as_deref(), &place, report, paths);
    }
    if let Some(map) = &source.config_map {
        let place = format!("{place}.configMap");
        object(&map.name, &format!("{place}.name"), "config maps", report);
        keys(map.items.as_deref(), &place, report, paths);
    }
    if let Some(fields) = &source.downward_api {
        self::fields(fields.items.as_deref(), &format!("{place}.downwardAPI"), pod, report, paths);
    }
    if let Some(asked) = &source.service_account_token {
        token(asked, &format!("{place}.serviceAccountToken"), report, paths);
    }
    if source.cluster_trust_bundle.is_some() {
        let expected = "must not be used: this agent projects no trust bundles";
        report.add(format!("{place}.clusterTrustBundle"), "", expected);
    }
    if source.pod_certificate.is_some() {
        let expected = "must not be used: this agent projects no pod certificates";
        report.add(format!("{place}.podCertificate"), "", expected);
    }
}

fn token(
    asked: &ServiceAccountTokenProjection,
    place: &str,
    report: &mut Report,
    paths: &mut BTreeSet<String>,
) {
    report.object(place, "", "service account tokens");
    let (least, most) = EXPIRATION;
    report.number(format!("{place}.expirationSeconds"), asked.expiration_seconds, least, most);
    path(&asked.path, &format!("{place}.path"), report, paths);
}

/// `items` of a config map or secret.
fn keys(items: Option<&[KeyToPath]>, place: &str, report: &mut Report, paths: &mut BTreeSet<String>) {
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let place = format!("{place}.items[{index}]");
        if item.key.is_empty() {
            report.required(format!("{place}.key"));
        }
        path(&item.path, &format!("{place}.path"), report, paths);
        mode(&format!("{place}.mode"), item.mode, report);
    }
}

/// `items` of a downward API volume.
pub(super) fn fields(
    items: Option<&[DownwardAPIVolumeFile]>,
    place: &str,
    pod: &Pod,
    report: &mut Report,
    paths: &mut BTreeSet<String>,
) {
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let place = format!("{place}.items[{index}]");
        path(&item.path, &format!("{place}.path"), report, paths);
        mode(&format!("{place}.mode"), item.mode, report);
        match (&item.field_ref, &item.resource_field_ref) {
            (Some(_), Some(_)) => report.add(&place, "", "must have one of fieldRef and resourceFieldRef"),
            (Some(selector), None) => {
                env::field(selector, &format!("{place}.fieldRef"), is_volume_field, report);
            }
            (None, Some(selector)) => {
                let place = format!("{place}.resourceFieldRef");
                env::resource(selector, &place, report);
                let name = selector.container_name.as_deref().unwrap_or_default();
                if crate::find(pod, name).is_none() {
                    report.add(format!("{place}.containerName"), name, "must be a container of the pod");
                }
            }
            (None, None) => report.add(&place, "", "must have fieldRef or resourceFieldRef"),
        }
    }
}

/// A file's path in its volume (`validateLocalNonReservedPath`).
fn path(path: &str, field: &str, report: &mut Report, paths: &mut BTreeSet<String>) {
    if path.is_empty() {
        report.required(field);
    }
    report.descending(field, path);
    if path.starts_with("..") && !path.starts_with("../") && path != ".." {
        report.add(field, path, "must not begin with '..'");
    }
    if !paths.insert(path.trim_end_matches('/').to_owned()) {
        report.add(field, path, "must be unique among the items of the volume");
    }
}
