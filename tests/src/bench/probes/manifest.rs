//! The manifests of probed pods: many idle containers, each of which is probed, and one server for all of a
//! pod.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::probes::manifest::probe;
use crate::fixture::{NOTES, PAUSE, ServerProgram};
use crate::harness::Failure;

/// Prefix of the names of pods whose containers are probed by commands.
pub const COMMANDS: &str = "commands-";
/// The program of the other containers, `pause/pause.rs`, which uses next to nothing.
const IDLE: &str = "idle";

/// Puts the program of idle containers into the directory that they mount.
///
/// # Errors
/// It cannot be written.
pub fn pause(program: &ServerProgram) -> Result<(), Failure> {
    let path = program.notes().join(IDLE);
    fs::write(&path, PAUSE).map_err(Failure::file(&path))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(Failure::file(&path))
}

/// The name of the pod of this number that is probed by HTTP and TCP.
pub fn served_name(n: usize) -> String {
    format!("served-{n:02}")
}

/// A pod whose containers are each probed by HTTP and TCP every second. The first container runs the server.
pub fn served(
    program: &ServerProgram,
    n: usize,
    [http, tcp]: [u16; 2],
    containers: usize,
    own_network: bool,
) -> Value {
    let name = served_name(n);
    let reached =
        |handler: Value| if own_network { handler } else { merged(handler, json!({ "host": "127.0.0.1" })) };
    let get = json!({ "httpGet": reached(json!({ "port": http, "path": "/ok" })) });
    let socket = json!({ "tcpSocket": reached(json!({ "port": tcp })) });
    let more = json!({ "failureThreshold": 3, "periodSeconds": 1 });
    let probes = json!({ "readinessProbe": probe(get, more.clone()), "livenessProbe": probe(socket, more) });
    let arguments = ["--http", &http.to_string(), "--tcp", &tcp.to_string()].map(str::to_owned);
    let server = json!({ "command": program.command(&name, &arguments), "volumeMounts": program.mounts() });
    let containers: Vec<_> = (0..containers)
        .map(|n| match n {
            0 => shell("server", "", merged(server.clone(), probes.clone())),
            n => shell(&format!("c{n:02}"), "", merged(idle(program), probes.clone())),
        })
        .collect();
    whole(program, &name, containers, own_network)
}

/// A pod whose containers are each probed by two commands every ten seconds.
pub fn commands(program: &ServerProgram, n: usize, containers: usize, own_network: bool) -> Value {
    let command = json!({ "exec": { "command": ["/bin/true"] } });
    let more = json!({ "failureThreshold": 3, "periodSeconds": 10, "timeoutSeconds": 30 });
    let probes = json!({ "readinessProbe": probe(command.clone(), more.clone()), "livenessProbe": probe(command, more) });
    let containers =
        (0..containers).map(|n| shell(&format!("c{n:02}"), "", merged(idle(program), probes.clone())));
    whole(program, &format!("{COMMANDS}{n:02}"), containers.collect(), own_network)
}

fn idle(program: &ServerProgram) -> Value {
    json!({ "command": [format!("{NOTES}/{IDLE}")], "volumeMounts": program.mounts() })
}

fn whole(program: &ServerProgram, name: &str, containers: Vec<Value>, own_network: bool) -> Value {
    pod(name, json!({ "hostNetwork": !own_network, "volumes": program.volumes(), "containers": containers }))
}
