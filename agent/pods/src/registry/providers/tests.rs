use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A plugin that is this shell script. It counts its calls in the file `calls`.
fn plugin(dir: &Path, script: &str) -> Providers {
    let program = dir.join("plugin");
    let calls = dir.join("calls");
    fs::write(&program, format!("#!/bin/sh\necho x >> {}\n{script}\n", calls.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = dir.join("config.yaml");
    let text = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {name: plugin, matchImages: ['*.test'], defaultCacheDuration: 10m, apiVersion: credentialprovider.kubelet.k8s.io/v1, env: [{name: USER_NAME, value: u}]}\n";
    fs::write(&config, text).unwrap();
    Providers::open(&config, dir).unwrap()
}

fn answer(cache: &str, duration: &str) -> String {
    format!(
        "read request; case \"$request\" in *'\"image\":\"r.test/'*) ;; *) exit 3;; esac\necho '{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"cacheKeyType\":\"{cache}\"{duration},\"auth\":{{\"r.test\":{{\"username\":\"'$USER_NAME'\",\"password\":\"p\"}}}}}}'"
    )
}

async fn found(providers: &Providers, image: &str) -> Vec<String> {
    let mut keyring = Keyring::default();
    providers.add_to(&mut keyring, image).await;
    keyring.find(image).into_iter().map(|found| format!("{}:{}", found.username, found.password)).collect()
}

fn calls(dir: &Path) -> usize {
    fs::read_to_string(dir.join("calls")).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn a_plugin_is_asked_once_for_what_its_answer_is_for() {
    for (cache, duration, expected) in [
        ("Registry", "", 1),
        ("Global", "", 1),
        ("Image", "", 2),
        ("Registry", ",\"cacheDuration\":\"0s\"", 3),
        ("Image", ",\"cacheDuration\":\"1h0m0s\"", 2),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let providers = plugin(dir.path(), &answer(cache, duration));
        for image in ["r.test/a", "r.test/a", "r.test/b"] {
            assert_eq!(found(&providers, image).await, ["u:p"], "{cache}");
        }
        assert_eq!(calls(dir.path()), expected, "{cache} {duration}");
        // Not an image that it is for.
        assert_eq!(found(&providers, "r.example/a").await, [""; 0]);
        assert_eq!(calls(dir.path()), expected);
    }
}

#[tokio::test]
async fn a_plugin_that_fails_has_nothing() {
    for script in [
        "exit 1",
        "echo '{}'",
        "echo no",
        &answer("Sometimes", ""),
        &answer("Image", ",\"cacheDuration\":\"x\""),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let providers = plugin(dir.path(), script);
        assert_eq!(found(&providers, "r.test/a").await, [""; 0], "{script}");
    }
}

#[test]
fn a_program_that_is_missing_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    plugin(dir.path(), "");
    fs::remove_file(dir.path().join("plugin")).unwrap();
    let error = Providers::open(&dir.path().join("config.yaml"), dir.path()).unwrap_err();
    assert!(error.to_string().contains("no such program"), "{error}");
}
