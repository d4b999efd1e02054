//! Probes in manifests: their handlers, and what they have beside them.

use serde_json::{Value, json};

use crate::e2e::pods::manifest::merged;

/// `exec` by busybox's shell.
pub fn exec(script: &str) -> Value {
    json!({ "exec": { "command": ["/bin/sh", "-c", script] } })
}

/// `grpc`; there is no host to give.
pub fn grpc(port: u16, service: &str) -> Value {
    json!({ "grpc": { "port": port, "service": service } })
}

/// A probe by this handler: every second, one failure is enough unless `more` says otherwise.
pub fn probe(handler: Value, more: Value) -> Value {
    let usual = json!({ "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1 });
    merged(merged(usual, handler), more)
}

/// The ports that one server listens at.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    pub http: u16,
    pub https: u16,
    pub tcp: u16,
    /// Listens and never accepts.
    pub deaf: u16,
    pub grpc: u16,
    /// Nobody listens here.
    pub nobody: u16,
}

impl Ports {
    /// Those that listen.
    pub fn all(&self) -> [u16; 5] {
        [self.http, self.https, self.tcp, self.deaf, self.grpc]
    }

    /// What tells a server of all of them.
    pub fn arguments(&self) -> Vec<String> {
        let option = |name: &str, port: u16| [format!("--{name}"), port.to_string()];
        [
            option("http", self.http),
            option("https", self.https),
            option("tcp", self.tcp),
            option("deaf", self.deaf),
            option("grpc", self.grpc),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_its_handler_and_its_times() {
        let made = probe(grpc(1, "s"), json!({ "failureThreshold": 3, "timeoutSeconds": null }));
        let expected =
            json!({ "grpc": { "port": 1, "service": "s" }, "periodSeconds": 1, "failureThreshold": 3 });
        assert_eq!(made, expected);
    }
}
