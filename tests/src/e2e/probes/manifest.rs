//! Probes in manifests, and the ports of servers.

use serde_json::{Value, json};

use crate::e2e::pods::manifest::merged;

/// The handler `exec` with a script for busybox's shell.
pub fn exec(script: &str) -> Value {
    json!({ "exec": { "command": ["/bin/sh", "-c", script] } })
}

/// The handler `grpc`, which has no field for a host.
pub fn grpc(port: u16, service: &str) -> Value {
    json!({ "grpc": { "port": port, "service": service } })
}

/// A probe with this handler: every second, with a failure threshold of 1; fields of `more` replace these.
pub fn probe(handler: Value, more: Value) -> Value {
    let usual = json!({ "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1 });
    merged(merged(usual, handler), more)
}

/// The ports of one server.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    pub http: u16,
    pub https: u16,
    pub tcp: u16,
    /// Listens and never accepts a connection.
    pub deaf: u16,
    pub grpc: u16,
    /// No process listens here.
    pub closed: u16,
}

impl Ports {
    /// The ports that the server listens on.
    pub fn all(&self) -> [u16; 5] {
        [self.http, self.https, self.tcp, self.deaf, self.grpc]
    }

    /// The server's arguments for all its ports.
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
    fn a_probe_has_its_handler_and_the_given_fields() {
        let made = probe(grpc(1, "s"), json!({ "failureThreshold": 3, "timeoutSeconds": null }));
        let expected =
            json!({ "grpc": { "port": 1, "service": "s" }, "periodSeconds": 1, "failureThreshold": 3 });
        assert_eq!(made, expected);
    }
}
