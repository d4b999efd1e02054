use super::*;
use crate::objects::ObjectKind;
use crate::spec::fixture::{Fixture, pod};

/// Config map `m` with `a` and `b`, and `raw` in bytes; secret `s` with `k`; a token for `api`.
fn objects() -> PodObjects {
    let text = [("a", "1"), ("b", "2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let map = ConfigMap { data: text.into(), binary_data: [("raw".to_owned(), vec![0, 255])].into() };
    let secret = Secret { kind: String::new(), data: [("k".to_owned(), b"s3".to_vec())].into() };
    PodObjects::default()
        .with_config_map("m", Some(map))
        .with_secret("s", Some(secret))
        .with_token("api", 600, "tok")
}

/// The files of the pod's only volume: path, mode, owner and content.
fn files_of(spec: &str) -> Result<Vec<String>, String> {
    let fixture = Fixture::new();
    let pod = pod(&format!("{spec}\ncontainers: [{{name: c, securityContext: {{runAsUser: 7}}}}]"));
    let spec = pod.spec();
    let volume = &spec.volumes.as_ref().unwrap()[0];
    let objects = objects().with_config_map("none", None).with_secret("none", None);
    let found = payload(Source::of(volume).unwrap(), &pod, &objects, fixture.node());
    let line = |(path, file): (String, FileProjection)| {
        let data = String::from_utf8(file.data).unwrap_or_else(|_| "bytes".into());
        format!("{path} {:o} {:?} {data}", file.mode, file.user)
    };
    found.map(|files| files.unwrap().into_iter().map(line).collect()).map_err(|error| error.to_string())
}

#[track_caller]
fn check(volume: &str, files: &[&str]) {
    assert_eq!(files_of(&format!("volumes: [{{name: v, {volume}}}]")).unwrap(), files, "{volume}");
}

#[track_caller]
fn refused(volume: &str, why: &str) {
    assert_eq!(files_of(&format!("volumes: [{{name: v, {volume}}}]")).unwrap_err(), why, "{volume}");
}

#[test]
fn a_config_map_has_all_its_keys_or_those_that_are_named() {
    check("configMap: {name: m}", &["a 644 None 1", "b 644 None 2", "raw 644 None bytes"]);
    check(
        "configMap: {name: m, defaultMode: 256, items: [{key: b, path: x/y}, {key: a, path: z, mode: 511}]}",
        &["x/y 400 None 2", "z 777 None 1"],
    );
    refused(
        "configMap: {name: m, items: [{key: z, path: z}]}",
        "configmap references non-existent config key: z",
    );
    check(
        "configMap: {name: m, optional: true, items: [{key: z, path: z}, {key: a, path: a}]}",
        &["a 644 None 1"],
    );
    refused("configMap: {name: none}", "configmap \"none\" not found");
    check("configMap: {name: none, optional: true}", &[]);
    // Optional is only what does not exist.
    let error = files_of("volumes: [{name: v, configMap: {name: unread, optional: true}}]").unwrap_err();
    assert!(error.contains("needs an API server"), "{error}");
}

#[test]
fn a_secret_has_its_keys() {
    check("secret: {secretName: s, defaultMode: 288}", &["k 440 None s3"]);
    refused("secret: {secretName: s, items: [{key: z, path: z}]}", "references non-existent secret key: z");
    refused("secret: {secretName: none}", "secret \"none\" not found");
    check("secret: {secretName: none, optional: true}", &[]);
}

#[test]
fn a_projected_volume_has_the_files_of_all_its_sources() {
    check(
        "projected: {defaultMode: 416, sources: [{configMap: {name: m, items: [{key: a, path: a}]}}, {secret: {name: s}}, {downwardAPI: {items: [{path: n, fieldRef: {fieldPath: metadata.name}, mode: 292}]}}]}",
        &["a 640 None 1", "k 640 None s3", "n 444 None p"],
    );
    refused(
        "projected: {sources: [{configMap: {name: none}}, {secret: {name: none}}]}",
        "[configmap \"none\" not found, secret \"none\" not found]",
    );
}

#[test]
fn a_token_belongs_to_the_user_of_the_containers() {
    let token =
        "projected: {sources: [{serviceAccountToken: {path: token, audience: api, expirationSeconds: 600}}]}";
    check(token, &["token 600 Some(7) tok"]);
    let plain =
        files_of(&format!("securityContext: {{fsGroup: 5}}\nvolumes: [{{name: v, {token}}}]")).unwrap();
    assert_eq!(plain, ["token 600 Some(7) tok"]);
    let fixture = Fixture::new();
    let anybody = pod(&format!("volumes: [{{name: v, {token}}}]\ncontainers: [{{name: c}}]"));
    let spec = anybody.spec();
    let volume = &spec.volumes.as_ref().unwrap()[0];
    let found = payload(Source::of(volume).unwrap(), &anybody, &objects(), fixture.node()).unwrap().unwrap();
    assert_eq!((found["token"].mode, found["token"].user), (0o644, None));
}

#[test]
fn the_common_user_is_that_of_every_container() {
    let user = |spec: &str| common_user(&pod(spec));
    assert_eq!(user("containers: [{name: c}]"), None);
    assert_eq!(user("securityContext: {runAsUser: 5}\ncontainers: [{name: c}, {name: d}]"), Some(5));
    assert_eq!(
        user(
            "securityContext: {runAsUser: 5}\ncontainers: [{name: c}, {name: d, securityContext: {runAsUser: 6}}]"
        ),
        None
    );
    assert_eq!(
        user("initContainers: [{name: i}]\ncontainers: [{name: c, securityContext: {runAsUser: 6}}]"),
        None
    );
}

#[test]
fn volumes_of_other_kinds_have_no_files() {
    let fixture = Fixture::new();
    let pod = pod("volumes: [{name: e}, {name: h, hostPath: {path: /}}]\ncontainers: [{name: c}]");
    for volume in pod.spec().volumes.as_ref().unwrap() {
        let found = payload(Source::of(volume).unwrap(), &pod, &PodObjects::default(), fixture.node());
        assert_eq!(found.unwrap(), None);
    }
    let kind = ObjectKind::ConfigMap;
    assert_eq!(ObjectError::NotFound { kind, name: "x".into() }.to_string(), "configmap \"x\" not found");
}
