//! The pods of the random changes. Each records at every start which version of its manifest it has.

use std::path::Path;

use serde_json::{Value, json};

use crate::e2e::pods::manifest::{STAY, merged, pod, shell};

/// The parts of a pod that are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// A change replaces the pod.
    pub content: u64,
    /// A change resizes the pod.
    pub size: u64,
}

/// The kinds of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One container, nothing requested.
    Plain,
    /// With requests; an init container, a sidecar and two others; volumes on disk and in memory.
    Rich,
    /// Requests equal limits; it can be resized.
    Sized,
    /// Its container fails after three seconds, every time.
    Failing,
}

impl Kind {
    pub fn of(number: u64) -> Self {
        match number % 10 {
            0 | 4 | 8 => Self::Plain,
            1 | 5 => Self::Rich,
            9 => Self::Failing,
            _ => Self::Sized,
        }
    }

    /// Number of containers that run all the time.
    pub fn running(self) -> usize {
        if self == Self::Rich { 3 } else { 1 }
    }
}

pub fn name(number: u64) -> String {
    format!("pod{number:03}")
}

/// The manifest of a pod. Every start appends `<uid> <container> <content>` to `<evidence>/<name>`.
pub fn manifest(number: u64, version: Version, evidence: &Path) -> Value {
    let name = name(number);
    let uid = json!([{ "name": "UID", "valueFrom": { "fieldRef": { "fieldPath": "metadata.uid" } } }]);
    let mount = json!({ "name": "evidence", "mountPath": "/evidence" });
    let says = |container: &str| format!("echo $UID {container} {} >> /evidence/{name}; ", version.content);
    let container = |of: &str, then: &str, more: Value| {
        let usual = json!({ "env": uid, "volumeMounts": [mount] });
        shell(of, &format!("{}{then}", says(of)), merged(usual, more))
    };
    let evidence = json!({ "name": "evidence", "hostPath": { "path": evidence } });
    let spec = match Kind::of(number) {
        Kind::Plain => json!({ "volumes": [evidence], "containers": [container("c", STAY, json!({}))] }),
        Kind::Failing => {
            json!({ "volumes": [evidence], "containers": [container("c", "sleep 3; exit 1", json!({}))] })
        }
        Kind::Sized => {
            let (cpu, memory) = (20 + 10 * (version.size % 5), 24 + 4 * (version.size % 5));
            let limits = json!({ "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi") });
            let sized = json!({ "resources": { "limits": limits } });
            json!({ "volumes": [evidence], "containers": [container("c", STAY, sized)] })
        }
        Kind::Rich => {
            let mounts = json!({ "volumeMounts": [mount, { "name": "disk", "mountPath": "/disk" },
                { "name": "memory", "mountPath": "/memory" }],
                "resources": { "requests": { "cpu": "10m", "memory": "8Mi" }, "limits": { "memory": "32Mi" } } });
            let with = |more: Value| merged(mounts.clone(), more);
            json!({
                "volumes": [evidence, { "name": "disk", "emptyDir": {} },
                    { "name": "memory", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } }],
                "initContainers": [
                    container("init", "echo x > /disk/x; echo y > /memory/y", with(json!({}))),
                    container("side", STAY, with(json!({ "restartPolicy": "Always" }))),
                ],
                "containers": [
                    container("c", &format!("test -e /disk/x -a -e /memory/y && {STAY}"), with(json!({}))),
                    container("d", STAY, with(json!({}))),
                ],
            })
        }
    };
    pod(&name, spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_valid_and_only_the_size_of_sized_pods_is_a_resize() {
        let of = |number, content, size| {
            let value = manifest(number, Version { content, size }, Path::new("/e"));
            let parsed = nodewarden_manifest::manifest::parse(&value.to_string());
            parsed.into_iter().map(Result::unwrap).next().unwrap()
        };
        for number in 0..10 {
            let change = |a, b| nodewarden_lifecycle::change(&a, &b);
            use nodewarden_lifecycle::Change;
            let resized = if Kind::of(number) == Kind::Sized { Change::Resize } else { Change::Same };
            assert_eq!(change(of(number, 1, 1), of(number, 1, 2)), resized, "{number}");
            assert_eq!(change(of(number, 1, 1), of(number, 2, 1)), Change::Replace, "{number}");
        }
    }
}
