//! Manifests that prove something from inside.

use serde_json::{Value, json};

use crate::fixture::BUSYBOX_IMAGE;

/// A container that runs a shell script, and what else it has.
pub fn shell(name: &str, script: &str, more: Value) -> Value {
    let container = json!({
        "name": name,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", script],
    });
    merged(container, more)
}

/// Ends a script that has shown what it was to show: waits, and goes when it is asked to.
pub const STAY: &str = "trap 'exit 0' TERM; while true; do sleep 600 & wait $!; done";

/// A pod on the machine's network that ends within a second.
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

/// `more` over `base`; `null` takes away.
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
    fn what_is_given_wins() {
        let pod = pod("p", json!({ "hostNetwork": null, "containers": [] }));
        assert_eq!(pod["spec"], json!({ "terminationGracePeriodSeconds": 1, "containers": [] }));
        let c = shell("c", "true", json!({ "imagePullPolicy": "Always" }));
        assert_eq!((&c["imagePullPolicy"], &c["command"][2]), (&json!("Always"), &json!("true")));
    }
}
