//! Environment variables and the fields that they come from (`ValidateEnv`).

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector,
};

use super::report::Report;
use crate::Quantity;
use crate::name_forms::{is_config_key, is_dns_subdomain, is_qualified_name};
use crate::names::{CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages};
use crate::subscript;

const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(super) fn problems(container: &Container, place: &str, report: &mut Report) {
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        env_from(source, &format!("{place}.envFrom[{index}]"), report);
    }
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let place = format!("{place}.env[{index}]");
        let name = &variable.name;
        if name.is_empty() {
            report.required(format!("{place}.name"));
        } else if !is_variable_name(name) {
            report.add(format!("{place}.name"), name, VARIABLE_NAME);
        }
        if let Some(source) = &variable.value_from {
            let place = format!("{place}.valueFrom");
            if variable.value.as_deref().is_some_and(|value| !value.is_empty()) {
                report.add(&place, "", "must not be set together with value");
            }
            self::source(source, &place, report);
        }
    }
}

const VARIABLE_NAME: &str = "must be printable ASCII characters other than '='";

/// `IsRelaxedEnvVarName` (apimachinery util/validation).
fn is_variable_name(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=')
}

/// All keys of an object as variables (`ValidateEnvFrom`).
fn env_from(source: &EnvFromSource, place: &str, report: &mut Report) {
    if let Some(prefix) = source.prefix.as_deref().filter(|prefix| !is_variable_name(prefix)) {
        report.add(format!("{place}.prefix"), prefix, VARIABLE_NAME);
    }
    match (&source.config_map_ref, &source.secret_ref) {
        (Some(_), Some(_)) => report.add(place, "", "must have one source only"),
        (Some(map), None) => object(&format!("{place}.configMapRef"), &map.name, "config maps", report),
        (None, Some(secret)) => object(&format!("{place}.secretRef"), &secret.name, "secrets", report),
        (None, None) => report.add(place, "", "must have configMapRef or secretRef"),
    }
}

/// An object of the pod's namespace.
fn object(place: &str, name: &str, kind: &str, report: &mut Report) {
    if !report.is_api() {
        report.object(place, name, kind);
    } else if !is_dns_subdomain(name) {
        report.add(format!("{place}.name"), name, "must be the name of an object: a DNS subdomain");
    }
}

/// A key of an object of the pod's namespace.
fn key_of((name, key): (&str, &str), place: &str, kind: &str, report: &mut Report) {
    object(place, name, kind, report);
    if report.is_api() && !is_config_key(key) {
        report.add(format!("{place}.key"), key, "must be letters, digits, '-', '_' and '.', at most 253");
    }
}

fn source(source: &EnvVarSource, place: &str, report: &mut Report) {
    let kinds = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    match kinds.into_iter().filter(|set| *set).count() {
        0 => report.add(place, "", "must have one source"),
        1 => {}
        _ => report.add(place, "", "must have one source only"),
    }
    if let Some(selector) = &source.field_ref {
        let place = format!("{place}.fieldRef");
        let of_map = |path: &str| subscript(path).is_some();
        field(selector, &place, |path| FIELDS.contains(&path) || of_map(path), report);
    }
    if let Some(selector) = &source.resource_field_ref {
        resource(selector, &format!("{place}.resourceFieldRef"), report);
    }
    if let Some(map) = &source.config_map_key_ref {
        key_of((&map.name, &map.key), &format!("{place}.configMapKeyRef"), "config maps", report);
    }
    if let Some(secret) = &source.secret_key_ref {
        key_of((&secret.name, &secret.key), &format!("{place}.secretKeyRef"), "secrets", report);
    }
    if let Some(file) = &source.file_key_ref {
        let expected = "must not be set: this agent reads no variables from files";
        report.add(format!("{place}.fileKeyRef"), &file.key, expected);
    }
}

/// A reference to a field of the pod; `known` returns whether the field is available in this place.
pub(super) fn field(
    selector: &ObjectFieldSelector,
    place: &str,
    known: impl Fn(&str) -> bool,
    report: &mut Report,
) {
    report.word(format!("{place}.apiVersion"), selector.api_version.as_deref(), &["", "v1"]);
    let path = selector.field_path.as_str();
    let field = format!("{place}.fieldPath");
    match subscript(path) {
        _ if path.is_empty() => report.required(field),
        _ if !known(path) => report.add(field, path, "must be a field of the pod that is available there"),
        Some((_, key)) if !is_qualified_name(&key.to_lowercase()) => {
            report.add(field, path, "must name a key of the form name or domain/name");
        }
        _ => {}
    }
}

pub(super) fn resource(selector: &ResourceFieldSelector, place: &str, report: &mut Report) {
    let (what, resource) = selector.resource.split_once('.').unwrap_or_default();
    let known = matches!(resource, CPU | MEMORY | EPHEMERAL_STORAGE) || is_hugepages(resource);
    if selector.resource.is_empty() {
        report.required(format!("{place}.resource"));
    } else if !(known && matches!(what, "limits" | "requests")) {
        let expected = "must be limits or requests of cpu, memory, ephemeral-storage or hugepages-<size>";
        report.add(format!("{place}.resource"), &selector.resource, expected);
    } else if let Some(text) = &selector.divisor {
        divisor(resource, &text.0, place, report);
    }
}

/// `validateContainerResourceDivisor`.
fn divisor(resource: &str, text: &str, place: &str, report: &mut Report) {
    let of_bytes = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let allowed = if resource == CPU { &["1", "1m"][..] } else { &of_bytes };
    let same = |one: &str, quantity: &Quantity| Quantity::parse(one).is_ok_and(|one| one == *quantity);
    let good = Quantity::parse(text.trim())
        .is_ok_and(|quantity| quantity.is_zero() || allowed.iter().any(|one| same(one, &quantity)));
    if !good {
        report.add(format!("{place}.divisor"), text, format!("must be one of {}", allowed.join(", ")));
    }
}
