//! Takes out of a pod what may be secret before it is shown without authentication: the literal values of
//! variables, those of headers that probes and hooks send, and annotations that repeat the manifest. Pure.
//!
//! Names stay, as does where a value comes from (`valueFrom`). `nodewarden pods --output json`, which only
//! root can use, shows everything.

use k8s_openapi::api::core::v1;

/// What is shown instead of a value.
const HIDDEN: &str = "<not shown>";
/// Annotations in which tools keep the manifest that they applied.
const APPLIED: [&str; 4] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "kapp.k14s.io/original",
    "objectset.rio.cattle.io/applied",
    "banzaicloud.com/last-applied",
];

/// Hides what may be secret.
pub(super) fn redact(pod: &mut v1::Pod) {
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|name, value| !repeats_manifest(name, value));
    }
    let Some(spec) = &mut pod.spec else { return };
    for own in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let probes = [&mut own.liveness_probe, &mut own.readiness_probe, &mut own.startup_probe];
        hide_all(&mut own.env, probes, &mut own.lifecycle);
    }
    // What `kubectl debug` adds: a type of its own with the same fields.
    for own in spec.ephemeral_containers.iter_mut().flatten() {
        let probes = [&mut own.liveness_probe, &mut own.readiness_probe, &mut own.startup_probe];
        hide_all(&mut own.env, probes, &mut own.lifecycle);
    }
}

/// Hides what a container of any kind has.
fn hide_all(
    env: &mut Option<Vec<v1::EnvVar>>,
    probes: [&mut Option<v1::Probe>; 3],
    lifecycle: &mut Option<v1::Lifecycle>,
) {
    env.iter_mut().flatten().for_each(|variable| hide(&mut variable.value));
    probes.into_iter().flatten().for_each(|probe| headers(probe.http_get.as_mut()));
    let Some(lifecycle) = lifecycle else { return };
    let hooks = [&mut lifecycle.post_start, &mut lifecycle.pre_stop];
    hooks.into_iter().flatten().for_each(|hook| headers(hook.http_get.as_mut()));
}

fn headers(get: Option<&mut v1::HTTPGetAction>) {
    for header in get.into_iter().flat_map(|get| get.http_headers.iter_mut().flatten()) {
        HIDDEN.clone_into(&mut header.value);
    }
}

fn hide(value: &mut Option<String>) {
    if let Some(value) = value.as_mut().filter(|value| !value.is_empty()) {
        HIDDEN.clone_into(value);
    }
}

/// Whether an annotation holds a manifest: by its name, or because it is JSON or YAML with variables.
fn repeats_manifest(name: &str, value: &str) -> bool {
    let is_json = value.trim_start().starts_with('{');
    APPLIED.contains(&name) || is_json && value.contains("\"env\"") || value.contains("\nspec:")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_hidden_and_names_stay() {
        let applied = r#"{"kind": "Pod", "spec": {"containers": [{"env": [{"value": "s3cret"}]}]}}"#;
        let get = json!({"port": 80, "httpHeaders": [{"name": "Authorization", "value": "s3cret"}]});
        let container = json!({
            "name": "c",
            "args": ["--flag"],
            "env": [
                {"name": "TOKEN", "value": "s3cret"},
                {"name": "EMPTY", "value": ""},
                {"name": "NONE"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
            "livenessProbe": {"httpGet": get}, "readinessProbe": {"httpGet": get}, "startupProbe": {"httpGet": get},
            "lifecycle": {"postStart": {"httpGet": get}, "preStop": {"httpGet": get}},
        });
        let mut pod: v1::Pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": applied,
                "example.com/copy": format!(" {applied}"),
                "example.com/yaml": "kind: Pod\nspec:\n  containers: [{env: [{value: s3cret}]}]",
                "note": "kept",
            }},
            "spec": {
                "containers": [container.clone()],
                "initContainers": [container.clone()],
                "ephemeralContainers": [container],
            },
        }))
        .unwrap();
        redact(&mut pod);
        let shown = serde_json::to_value(&pod).unwrap();
        assert!(!shown.to_string().contains("s3cret"), "{shown}");
        assert_eq!(shown["metadata"]["annotations"], json!({"note": "kept"}));
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            let own = &shown["spec"][list][0];
            let env = json!([
                {"name": "TOKEN", "value": HIDDEN},
                {"name": "EMPTY", "value": ""},
                {"name": "NONE"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ]);
            assert_eq!((&own["env"], &own["args"]), (&env, &json!(["--flag"])));
            let header = &own["lifecycle"]["preStop"]["httpGet"]["httpHeaders"][0];
            assert_eq!(header, &json!({"name": "Authorization", "value": HIDDEN}));
        }
    }
}
