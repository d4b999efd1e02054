//! The manifests of measured pods: on the machine's network, with one container and a grace period of one
//! second.

use std::path::Path;

use serde_json::{Value, json};

use crate::e2e::pods::manifest::{STAY, merged, pod, shell};

/// Path of the evidence directory in containers.
const INSIDE: &str = "/evidence";
/// The program `pause/pause.rs` in the evidence directory: it records the time of its first instruction.
pub const CLOCK: &str = "clock";

/// What runs in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Writes the time of its first instruction into the pod's file.
    Clock,
    /// A busybox shell that creates the pod's file, as in the measurements of the kubelet.
    Shell,
}

/// A pod whose container creates a file with the pod's name in the directory `evidence`.
pub fn manifest(name: &str, program: Program, evidence: &Path) -> Value {
    let usual = json!({
        "volumeMounts": [{ "name": "evidence", "mountPath": INSIDE }],
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
    });
    let script = STAY.replacen(';', &format!("; : > {INSIDE}/{name};"), 1);
    let command = match program {
        Program::Clock => json!([format!("{INSIDE}/{CLOCK}"), format!("{INSIDE}/{name}")]),
        Program::Shell => json!(["/bin/sh", "-c", script]),
    };
    pod(
        name,
        json!({
            "volumes": [{ "name": "evidence", "hostPath": { "path": evidence, "type": "Directory" } }],
            "containers": [shell("c", "", merged(usual, json!({ "command": command })))],
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_give_valid_pods_and_the_shell_sets_its_trap_first() {
        for program in [Program::Clock, Program::Shell] {
            let text = manifest("p1", program, Path::new("/e")).to_string();
            let pods = nodewarden_manifest::manifest::parse(&text);
            assert!(pods.into_iter().all(|pod| pod.is_ok()), "{text}");
        }
        let shell = manifest("p1", Program::Shell, Path::new("/e"));
        let script = shell["spec"]["containers"][0]["command"][2].as_str().unwrap();
        assert!(script.starts_with("trap 'exit 0' TERM; : > /evidence/p1; while"), "{script}");
    }
}
