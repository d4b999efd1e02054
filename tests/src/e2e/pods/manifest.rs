//! Manifests of pods that run shell scripts.

use serde_json::{Value, json};

use crate::fixture::BUSYBOX_IMAGE;

/// A container that runs a shell script in busybox; fields of `more` replace the usual ones.
pub fn shell(name: &str, script: &str, more: Value) -> Value {
    let container = json!({
        "name": name,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", script],
    });
    merged(container, more)
}

/// The end of a script that keeps its container running until SIGTERM.
pub const STAY: &str = "trap 'exit 0' TERM; while true; do sleep 600 & wait $!; done";

/// A pod on the machine's network with a grace period of a second; fields of `spec` replace the usual ones.
pub fn pod(name: &str, spec: Value) -> Value {
    let usual = json!({ "hostNetwork": true, "terminationGracePeriodSeconds": 1 });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": merged(usual, spec),
    })
}

/// A pod with one container `c`.
pub fn one(name: &str, script: &str, more: Value) -> Value {
    pod(name, json!({ "containers": [shell("c", script, more)] }))
}

/// The fields of `base` replaced by those of `more`; a `null` removes the field.
pub fn merged(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        for (key, value) in more {
            match value {
                Value::Null => drop(base.remove(&key)),
                value => drop(base.insert(key, value)),
            }
        }
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_fields_replace_the_usual_ones() {
        let pod = pod("p", json!({ "hostNetwork": null, "containers": [] }));
        assert_eq!(pod["spec"], json!({ "terminationGracePeriodSeconds": 1, "containers": [] }));
        let c = shell("c", "true", json!({ "imagePullPolicy": "Always" }));
        assert_eq!((&c["imagePullPolicy"], &c["command"][2]), (&json!("Always"), &json!("true")));
    }
}
