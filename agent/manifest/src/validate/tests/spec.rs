//! Rules of the whole manifest: each case is a spec with its expected problems, none for a valid one.

use serde_json::{Value, json};

use super::{check, pod};
use crate::Pod;

fn spec(yaml: &str) -> Value {
    let mut spec: Value = serde_yaml_ng::from_str(yaml).expect(yaml);
    let spec_of = spec.as_object_mut().expect("a spec");
    spec_of.entry("containers").or_insert_with(|| json!([{"name": "c"}]));
    pod(spec)
}

/// A spec with one container that has these fields.
pub(super) fn one(yaml: &str) -> String {
    format!("containers: [{{name: c, {yaml}}}]")
}

#[track_caller]
pub(super) fn good(yaml: &str) {
    check(spec(yaml), &[]);
}

#[track_caller]
pub(super) fn bad(yaml: &str, expected: &[&str]) {
    check(spec(yaml), expected);
}

#[track_caller]
pub(super) fn bad_one(yaml: &str, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|e| format!("spec.containers[0].{e}")).collect();
    check(spec(&one(yaml)), &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_static_pod_may_not_name_objects_of_the_api_server() {
    for (yaml, expected) in [
        ("serviceAccountName: default", "spec.serviceAccountName: \"default\" must not be set"),
        ("serviceAccount: x", "spec.serviceAccount: \"x\" must not be set"),
        ("runtimeClassName: gvisor", "spec.runtimeClassName: \"gvisor\" must not be set"),
        ("hostUsers: false", "spec.hostUsers: \"false\" must be true or left out"),
        ("imagePullSecrets: [{name: s}]", "spec.imagePullSecrets[0]: \"s\" must not be set: a static pod"),
        ("resourceClaims: [{name: r}]", "spec.resourceClaims[0]: \"r\" must not be used"),
        ("readinessGates: [{conditionType: a}]", "spec.readinessGates[0]: \"a\" needs a cluster"),
        ("schedulingGates: [{name: g}]", "spec.schedulingGates[0]: \"g\" needs a cluster"),
        ("activeDeadlineSeconds: 5", "spec.activeDeadlineSeconds: \"5\" must not be set"),
        ("os: {name: windows}", "spec.os.name: \"windows\" must be linux"),
        ("securityContext: {windowsOptions: {}}", "spec.securityContext.windowsOptions: must not be set"),
    ] {
        bad(yaml, &[expected]);
    }
    for (yaml, expected) in [
        (
            "envFrom: [{configMapRef: {name: m}}]",
            "envFrom[0].configMapRef: \"m\" must not be set: a static pod",
        ),
        ("envFrom: [{secretRef: {name: s}}]", "envFrom[0].secretRef: \"s\" must not be set: a static pod"),
        (
            "env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: k, optional: true}}}]",
            "env[0].valueFrom.configMapKeyRef: \"m\" must not be set: a static pod",
        ),
        (
            "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
            "env[0].valueFrom.secretKeyRef: \"s\" must not be set: a static pod",
        ),
        (
            "env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]",
            "env[0].valueFrom.fileKeyRef: \"k\" must not be set",
        ),
        ("volumeDevices: [{name: d, devicePath: /d}]", "volumeDevices[0]: \"d\" must not be used"),
        ("resources: {claims: [{name: r}]}", "resources.claims[0]: \"r\" must not be used"),
    ] {
        bad_one(yaml, &[expected]);
    }
}

#[test]
fn volumes_of_other_kinds_are_refused_in_a_static_pod() {
    for (source, field) in [
        ("configMap: {name: m}", "configMap.name"),
        ("secret: {secretName: s}", "secret.secretName"),
        ("projected: {sources: [{secret: {name: s}}]}", "projected.sources[0].secret.name"),
        (
            "projected: {sources: [{serviceAccountToken: {path: t}}]}",
            "projected.sources[0].serviceAccountToken",
        ),
        ("persistentVolumeClaim: {claimName: c}", "persistentVolumeClaim.claimName"),
        ("csi: {driver: d}", "csi"),
        ("ephemeral: {}", "ephemeral"),
        ("nfs: {server: s, path: /}", "nfs"),
        ("image: {reference: r}", "image"),
        ("gitRepo: {repository: r}", "gitRepo"),
    ] {
        bad(&format!("volumes: [{{name: v, {source}}}]"), &[&format!("spec.volumes[0].{field}: ")]);
    }
    good(
        "volumes: [{name: a}, {name: b, emptyDir: {}}, {name: c, hostPath: {path: /x}}, {name: d, downwardAPI: {}}, {name: e, projected: {sources: [{downwardAPI: {items: [{path: n, fieldRef: {fieldPath: metadata.name}}]}}]}}]",
    );
}

#[test]
fn a_pod_of_the_api_server_may_name_its_objects() {
    let api = |yaml: &str| {
        let mut pod = spec(yaml);
        pod["spec"]["containers"][0]["image"] = "i".into();
        let problems = Pod::from_api(serde_json::from_value(pod).unwrap()).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for yaml in [
        "serviceAccountName: default",
        "runtimeClassName: gvisor",
        "imagePullSecrets: [{name: s}]",
        "readinessGates: [{conditionType: a}]",
        "activeDeadlineSeconds: 5",
        "securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}",
        // Rejected by the node, with the kubelet's reason.
        "hostIPC: true\nsecurityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}",
        "volumes: [{name: a, configMap: {name: m, optional: true, items: [{key: k, path: a/b}]}}, {name: b, secret: {secretName: s}}, {name: c, persistentVolumeClaim: {claimName: c}}, {name: d, ephemeral: {volumeClaimTemplate: {spec: {}}}}]",
        "volumes: [{name: a, projected: {sources: [{secret: {name: s}}, {configMap: {name: m}}, {serviceAccountToken: {path: token, expirationSeconds: 3607}}]}}]",
        &one(
            "env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: k}}}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
        ),
        &one("envFrom: [{prefix: P_, configMapRef: {name: m}}, {secretRef: {name: s}}]"),
    ] {
        assert_eq!(api(yaml), [""; 0], "{yaml}");
    }
    for (yaml, expected) in [
        ("volumes: [{name: v, csi: {driver: d}}]", "spec.volumes[0].csi: must not be used"),
        ("volumes: [{name: v, configMap: {}}]", "spec.volumes[0].configMap.name: is required"),
        (
            "volumes: [{name: v, secret: {secretName: s, items: [{key: k, path: ../x}]}}]",
            "spec.volumes[0].secret.items[0].path: \"../x\" must not contain '..'",
        ),
        (
            "volumes: [{name: v, projected: {sources: [{configMap: {name: m, items: [{key: k, path: x}]}}, {serviceAccountToken: {path: x}}]}}]",
            "spec.volumes[0].projected.sources[1].serviceAccountToken.path: \"x\" must be unique",
        ),
        (
            "volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: x, expirationSeconds: 5}}]}}]",
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: \"5\" must be 600 to",
        ),
        (
            &one("envFrom: [{configMapRef: {name: M}}]"),
            "spec.containers[0].envFrom[0].configMapRef.name: \"M\"",
        ),
        (
            &one("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: ..k}}}]"),
            "spec.containers[0].env[0].valueFrom.secretKeyRef.key: \"..k\"",
        ),
    ] {
        let problems = api(yaml);
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
    }
}

#[test]
fn fields_that_only_a_scheduler_reads_are_not_validated() {
    good(
        "nodeSelector: {a: b}\nnodeName: elsewhere\nschedulerName: mine\ntolerations: [{operator: Exists}]\n\
         affinity: {nodeAffinity: {}}\ntopologySpreadConstraints: []\npreemptionPolicy: Never\n\
         automountServiceAccountToken: false\nenableServiceLinks: true\nos: {name: linux}",
    );
}

#[test]
fn fields_of_the_pod_are_validated() {
    good("restartPolicy: OnFailure\nhostPID: true\nhostIPC: true\nterminationGracePeriodSeconds: 0");
    bad(
        "restartPolicy: Sometimes",
        &["spec.restartPolicy: \"Sometimes\" must be one of Always, OnFailure, Never"],
    );
    bad(
        "hostPID: true\nshareProcessNamespace: true",
        &["spec.shareProcessNamespace: \"true\" must not be true together with spec.hostPID"],
    );
    bad(
        "hostname: A.b\nsubdomain: '-'",
        &["spec.hostname: \"A.b\" must be", "spec.subdomain: \"-\" must be"],
    );
    bad(
        "hostnameOverride: a_b\nhostNetwork: true\nsetHostnameAsFQDN: true",
        &[
            "spec.hostnameOverride: \"a_b\" must be a DNS",
            "spec.hostnameOverride: \"a_b\" must not be set together with spec.hostN",
            "spec.hostnameOverride: \"a_b\" must not be set together with spec.setH",
        ],
    );
    good("hostAliases: [{ip: 1.2.3.4, hostnames: [a, b.c]}, {ip: '::1'}]");
    bad(
        "hostAliases: [{ip: x, hostnames: [A]}]",
        &[
            "spec.hostAliases[0].ip: \"x\" must be an IP",
            "spec.hostAliases[0].hostnames[0]: \"A\" must be a DNS",
        ],
    );
}

#[test]
fn dns_settings_are_validated() {
    good(
        "dnsPolicy: None\ndnsConfig: {nameservers: [1.1.1.1], searches: [., a.b., _x.c], options: [{name: ndots, value: '2'}]}",
    );
    bad("dnsPolicy: First", &["spec.dnsPolicy: \"First\" must be one of"]);
    bad("dnsPolicy: None", &["spec.dnsConfig.nameservers: is required"]);
    bad(
        "dnsConfig: {nameservers: [a, '1.1.1.1', '::1', '2.2.2.2'], searches: [A_, ''], options: [{value: x}]}",
        &[
            "spec.dnsConfig.nameservers: \"4\" must be at most 3",
            "spec.dnsConfig.nameservers[0]: \"a\" must be an IP",
            "spec.dnsConfig.searches[0]: \"A_\" must be a DNS",
            "spec.dnsConfig.searches[1]: must be a DNS",
            "spec.dnsConfig.options[0].name: is required",
        ],
    );
    let many = (0..33).map(|n| format!("d{n}")).collect::<Vec<_>>().join(", ");
    bad(
        &format!("dnsConfig: {{searches: [{many}]}}"),
        &["spec.dnsConfig.searches: \"33\" must be at most 32"],
    );
    let long = vec!["a".repeat(63); 31].join(".x, ");
    let long = format!("dnsConfig: {{searches: [{long}, {}]}}", "b".repeat(60));
    bad(&long, &["spec.dnsConfig.searches: \"2104\" must be at most 2048"]);
}

#[test]
fn labels_and_annotations_are_validated() {
    let with = |labels: Value, annotations: Value| {
        let mut pod = spec("{}");
        pod["metadata"]["labels"] = labels;
        pod["metadata"]["annotations"] = annotations;
        pod
    };
    check(with(json!({"a.b/c": "x_y.z-1", "e": ""}), json!({"A/B": "any\nthing"})), &[]);
    check(
        with(json!({"a b": "", "c": "-"}), json!({"": "x", "big": "x".repeat(300_000)})),
        &[
            "metadata.labels: \"a b\" must be name",
            "metadata.labels[c]: \"-\" must be empty or",
            "metadata.annotations: must be name",
            "metadata.annotations: \"300004\" must be at most 262144",
        ],
    );
}
