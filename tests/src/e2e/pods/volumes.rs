//! Volumes of type emptyDir and hostPath.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::fixture::PodFixture;
use super::manifest::{STAY, one, pod, shell};
use super::{NEEDS, check};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_empty_dirs", empty_dirs).timeout(120).needs(NEEDS),
    Test::new("pod_host_paths", host_paths).timeout(150).needs(NEEDS),
];

/// Containers of a pod share an emptyDir on disk and one in memory; the latter is limited in size; both are
/// removed with the pod.
fn empty_dirs(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let volumes = json!([
        { "name": "disk", "emptyDir": {} },
        { "name": "memory", "emptyDir": { "medium": "Memory", "sizeLimit": "2Mi" } },
    ]);
    let mounts = json!({ "volumeMounts": [
        { "name": "disk", "mountPath": "/disk" }, { "name": "memory", "mountPath": "/memory" }] });
    let readonly = json!({ "volumeMounts": [
        { "name": "disk", "mountPath": "/disk", "readOnly": true }, { "name": "memory", "mountPath": "/memory" }] });
    let writer = "echo from-the-other > /disk/file; \
        echo mode=`stat -c %a /disk` ; \
        echo memory=`grep ' /memory ' /proc/mounts | cut -d ' ' -f 3`; \
        dd if=/dev/zero of=/memory/large bs=1M count=4 2>/dev/null; echo written=`stat -c %s /memory/large`; \
        rm /memory/large; echo small > /memory/file; echo done; ";
    let reader = "while ! [ -e /memory/file ]; do sleep 0.1; done; \
        echo read=`cat /disk/file` ; echo small=`cat /memory/file`; \
        touch /disk/mine 2>/dev/null; echo touched=$?; echo done; ";
    let containers = [
        shell("writer", &format!("{writer}{STAY}"), mounts),
        shell("reader", &format!("{reader}{STAY}"), readonly),
    ];
    fixture.put([pod("volumes", json!({ "volumes": volumes, "containers": containers }))])?;
    let seen = fixture.wait_up("volumes")?;
    let printed = fixture.printed_values(&seen, "writer")?;
    check(&printed, &[("mode", "777"), ("memory", "tmpfs"), ("written", "2097152")])?;
    let printed = fixture.printed_values(&seen, "reader")?;
    check(&printed, &[("read", "from-the-other"), ("small", "small"), ("touched", "1")])?;
    // At the kubelet's path.
    let pod_dir = fixture.pod_dir(&seen)?;
    let file = pod_dir.join("volumes/kubernetes.io~empty-dir/disk/file");
    ensure_eq!(
        fs::read_to_string(&file).map_err(Failure::file(&file))?,
        "from-the-other\n",
        "the file on the machine"
    );
    fixture.remove("volumes")?;
    fixture.wait_gone(&["volumes"])?;
    ensure!(!pod_dir.exists(), "{} is still there", pod_dir.display());
    fixture.finish()
}

/// A hostPath of each type is checked or created as the kubelet does; a missing one keeps only its pod
/// pending; files stay after the pod.
fn host_paths(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let place = context.temp.join("host");
    fs::create_dir(&place).map_err(Failure::file(&place))?;
    let at = |name: &str| place.join(name).display().to_string();
    for name in ["any", "directory"] {
        fs::create_dir(at(name)).map_err(Failure::file(at(name)))?;
        fs::write(place.join(name).join("kept"), "kept\n").map_err(Failure::file(at(name)))?;
    }
    fs::write(at("file"), "content\n").map_err(Failure::file(at("file")))?;
    let _socket = UnixListener::bind(at("socket")).map_err(Failure::file(at("socket")))?;
    let cases = [
        ("any", "", at("any")),
        ("directory", "Directory", at("directory")),
        ("file", "File", at("file")),
        ("socket", "Socket", at("socket")),
        ("made", "DirectoryOrCreate", at("new/directory")),
        ("touched", "FileOrCreate", at("new-file")),
        ("device", "CharDevice", "/dev/zero".to_owned()),
    ];
    let volume = |(name, kind, path): &(&str, &str, String)| json!({ "name": name, "hostPath": { "path": path, "type": kind } });
    let mount =
        |(name, ..): &(&str, &str, String)| json!({ "name": name, "mountPath": format!("/host/{name}") });
    let script = "for name in any directory; do echo $name=`cat /host/$name/kept`; rm /host/$name/kept; done; \
        echo file=`cat /host/file`; test -S /host/socket; echo socket=$?; echo x > /host/made/x; echo made=$?; \
        echo y > /host/touched; echo touched=$?; echo device=`head -c 3 /host/device | wc -c`; echo done; ";
    let mounts: Vec<Value> = cases.iter().map(mount).collect();
    let volumes: Vec<Value> = cases.iter().map(volume).collect();
    let container = shell("c", &format!("{script}{STAY}"), json!({ "volumeMounts": mounts }));
    fixture.put([pod("paths", json!({ "volumes": volumes, "containers": [container] }))])?;
    let seen = fixture.wait_up("paths")?;
    let printed = fixture.printed_values(&seen, "c")?;
    let zero = |name| (name, "0");
    check(
        &printed,
        &[
            ("any", "kept"),
            ("directory", "kept"),
            ("file", "content"),
            zero("socket"),
            zero("made"),
            zero("touched"),
            ("device", "3"),
        ],
    )?;
    let mode = |path: String| {
        Ok::<_, Failure>(fs::metadata(&path).map_err(Failure::file(&path))?.permissions().mode() & 0o777)
    };
    ensure_eq!(
        (mode(at("new/directory"))?, mode(at("new-file"))?),
        (0o755, 0o644),
        "modes of the created directory and file"
    );

    // A path that is missing or of another type keeps its pod pending and is named in the status; other pods
    // run.
    let wrong = [
        ("no-directory", "Directory", at("absent")),
        ("no-file", "File", at("directory")),
        ("no-socket", "Socket", at("file")),
        ("no-device", "CharDevice", at("file")),
    ];
    let waiting = |case: &(&str, &str, String)| {
        let container = shell("c", STAY, json!({ "volumeMounts": [mount(case)] }));
        pod(case.0, json!({ "volumes": [volume(case)], "containers": [container] }))
    };
    fixture.put(wrong.each_ref().map(waiting))?;
    fixture.put([one("other", STAY, json!({}))])?;
    fixture.wait_up("other")?;
    for (name, _, path) in &wrong {
        fixture.wait_until(name, "waiting for its volume", 20, |pod| {
            pod.phase() == "Pending" && pod.0["status"].to_string().contains(path.as_str())
        })?;
    }
    // Once the directory exists, the pod runs.
    fs::create_dir(at("absent")).map_err(Failure::file(at("absent")))?;
    fixture.wait_up("no-directory")?;
    fixture.finish()?;
    for (path, text) in [("any", None), ("new/directory/x", Some("x\n")), ("new-file", Some("y\n"))] {
        ensure!(place.join(path).exists(), "{} was removed with its pod", at(path));
        if let Some(text) = text {
            ensure_eq!(fs::read_to_string(at(path)).map_err(Failure::file(at(path)))?, text, "{path}");
        }
    }
    Ok(())
}
