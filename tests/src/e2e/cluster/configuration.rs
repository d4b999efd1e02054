//! Objects of the API as files and environment of a pod.

use serde_json::json;

use super::NEEDS;
use super::fixture::{ClusterFixture, ensure_no_restart};
use super::manifest::{WAIT, pod};
use crate::e2e::support::eventually;
use crate::ensure_eq;
use crate::harness::{Context, Failure, Test};

pub const TESTS: &[Test] = &[Test::new("cluster_config_map", config_map).timeout(300).needs(NEEDS)];

/// A config map's file changes while the pod runs, its environment does not; the token of the service account
/// is there.
fn config_map(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let put = |value: &str| {
        fixture.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" },
            "data": { "color": value },
        }))
    };
    put("blue")?;
    let mut reader = pod("reader", fixture.name(), WAIT);
    reader["spec"]["volumes"] = json!([{ "name": "settings", "configMap": { "name": "settings" } }]);
    let container = &mut reader["spec"]["containers"][0];
    container["volumeMounts"] = json!([{ "name": "settings", "mountPath": "/settings" }]);
    container["env"] = json!([{
        "name": "COLOR",
        "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "color" } },
    }]);
    fixture.apply(&reader)?;
    fixture.wait_ready("reader")?;
    let inside = |command: &str| fixture.run(&["exec", "reader", "--", "/bin/sh", "-c", command]);
    ensure_eq!(inside("cat /settings/color; echo -n \" $COLOR\"")?, "blue blue", "file and environment");
    let token = inside("test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo -n there")?;
    ensure_eq!(token, "there", "the service account's token");

    put("green")?;
    // A kubelet that watches writes it at the next sync of the pod, 10 s and a random part of 50 % later.
    eventually(context.patiently(120), "the file of the config map does not change", || {
        Ok((inside("cat /settings/color")? == "green").then_some(()))
    })?;
    ensure_eq!(inside("echo -n $COLOR")?, "blue", "the environment of a container that runs");
    let after = fixture.pod("reader")?.unwrap_or_default();
    ensure_no_restart(&after)?;
    fixture.finish()
}
