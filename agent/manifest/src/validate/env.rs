//! Environment variables and the fields that they come from (`ValidateEnv`).

use k8s_openapi::api::core::v1::{Container, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector};

use super::labels::is_qualified_name;
use super::report::Report;
use crate::Quantity;
use crate::names::{CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY};
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
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let place = format!("{place}.env[{index}]");
        let name = &variable.name;
        if name.is_empty() {
            report.required(format!("{place}.name"));
        } else if !name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') {
            report.add(format!("{place}.name"), name, "must be printable ASCII characters other than '='");
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

fn source(source: &EnvVarSource, place: &str, report: &mut Report) {
    let kinds = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    match kinds.into_iter().filter(|set| *set).count() {
        0 => report.add(place, "", "must have fieldRef or resourceFieldRef"),
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
    let known =
        matches!(resource, CPU | MEMORY | EPHEMERAL_STORAGE) || resource.starts_with(HUGEPAGES_PREFIX);
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
