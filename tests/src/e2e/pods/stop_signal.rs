//! The signal with which containers are stopped: which one they get, how often, and who sends it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::fixture::PodFixture;
use super::manifest::{merged, pod, shell};
use crate::fixture::{Containerd, Image, archive, busybox};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_stop_signals", stop_signals).timeout(120).needs(&[
    Capability::Root,
    Capability::PrivateCri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Btf,
])];

/// Asks to be stopped with SIGQUIT.
const QUIT_IMAGE: &str = "nodewarden.test/quit:1";

/// A container gets the signal of its image, once; the agent sends it to the first process of a container,
/// and the runtime to containers whose first process the agent does not know for sure.
fn stop_signals(context: &Context) -> Result<(), Failure> {
    let containerd = Containerd::private(context)?;
    let socket = containerd.socket().to_owned();
    let mut fixture = PodFixture::with_runtime(context, containerd, &socket, "", "")?;
    import(context, &fixture)?;
    let calls = record_runc(context)?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let noted = |name: &str| fs::read_to_string(notes.join(name)).unwrap_or_default().replace('\n', " ");
    let with = |name: &str, container: Value, spec: Value| {
        let script = format!(
            "for s in TERM QUIT; do trap \"echo $s >> /notes/{name}; sleep 0.3; exit 0\" $s; done; \
             while true; do sleep 0.05; done"
        );
        let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
        let container = shell("c", &script, merged(mount, container));
        let volumes = json!({ "volumes": [{ "name": "notes", "hostPath": { "path": notes } }] });
        let grace = json!({ "terminationGracePeriodSeconds": 20 });
        pod(name, merged(merged(volumes, grace), merged(json!({ "containers": [container] }), spec)))
    };
    let quit = || json!({ "image": QUIT_IMAGE });
    fixture.put([
        with("usual", json!({}), json!({})),
        with("quit", quit(), json!({})),
        with("shared", quit(), json!({ "shareProcessNamespace": true })),
        // Stays beyond its time.
        pod(
            "deaf",
            json!({ "containers": [shell("c", "trap '' TERM; while true; do sleep 1; done", json!({}))] }),
        ),
    ])?;
    for (name, signal, by_runtime) in [
        ("usual", "TERM ", None),
        ("quit", "QUIT ", None),
        ("shared", "QUIT ", Some("3")),
        ("deaf", "", Some("9")),
    ] {
        let up = fixture.wait_up(name)?;
        let id = up.container("c")?.id().to_owned();
        fs::write(&calls, "").map_err(Failure::file(&calls))?;
        fixture.remove(name)?;
        fixture.wait_gone(&[name])?;
        ensure_eq!(noted(name), signal, "the signals that the container of {name} got");
        let kills = kills(&calls, &id)?;
        ensure_eq!(
            kills.first().map(String::as_str),
            by_runtime,
            "what runc sent to the container of {name}"
        );
        ensure!(kills.len() <= 1, "runc sent {kills:?} to the container of {name}");
    }
    fixture.finish()
}

/// Imports the image that asks for SIGQUIT.
fn import(context: &Context, fixture: &PodFixture<'_>) -> Result<(), Failure> {
    let (program, path) = (busybox(), context.temp.join("quit.tar"));
    let bytes = fs::read(&program).map_err(Failure::file(&program))?;
    let image = Image {
        name: QUIT_IMAGE,
        files: &[("bin/busybox", 0o755, &bytes)],
        links: &[("bin/sh", "busybox"), ("bin/sleep", "busybox")],
        command: &[],
        entrypoint: &[],
        user: "",
        stop_signal: "SIGQUIT",
    };
    let image = archive(&[image]).map_err(Failure::file(&path))?;
    fs::write(&path, image).map_err(Failure::file(&path))?;
    Ok(fixture.containerd().import(&path)?)
}

/// Has runc write its arguments into a file, a line a call. Returns the file.
fn record_runc(context: &Context) -> Result<std::path::PathBuf, Failure> {
    let (programs, calls) = (Containerd::programs(context), context.temp.join("runc-calls"));
    let runc = programs.join("runc");
    fs::create_dir_all(&programs).map_err(Failure::file(&programs))?;
    let script =
        format!("#!/bin/sh\necho \"$@\" >> {}\nPATH=\"${{PATH#*:}}\"\nexec runc \"$@\"\n", calls.display());
    fs::write(&runc, script).map_err(Failure::file(&runc))?;
    fs::set_permissions(&runc, fs::Permissions::from_mode(0o755)).map_err(Failure::file(&runc))?;
    Ok(calls)
}

/// The signals that runc was called to send to the first process of a container.
fn kills(calls: &Path, id: &str) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(calls).map_err(Failure::file(calls))?;
    ensure!(text.contains(" delete "), "no call of runc was written down: {text:?}");
    let signal = |line: &str| {
        let (_, rest) = line.split_once(" kill ")?;
        rest.strip_prefix(id)?.split_whitespace().next().map(str::to_owned)
    };
    Ok(text.lines().filter_map(signal).collect())
}
