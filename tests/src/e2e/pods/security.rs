//! Security contexts: users and groups, capabilities, privileged, read-only root, seccomp, no new privileges.

use std::fs;

use serde_json::{Value, json};

use super::manifest::{STAY, merged, pod, shell};
use super::stage::Stage;
use super::{NEEDS, check};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_security_contexts", contexts).timeout(150).needs(NEEDS)];

const SHOW: &str = "echo user=`id -u`; echo group=`id -g`; echo groups=`id -G`; \
    for key in CapEff CapBnd NoNewPrivs Seccomp; do echo $key=`grep ^$key: /proc/self/status | cut -f 2`; done; \
    touch /made 2>/dev/null; echo root=$?; test -e /dev/kmsg; echo kmsg=$?; \
    mkdir /tmp/denied 2>/dev/null; echo mkdir=$?; echo done; ";

/// A container that shows what it may.
fn shows(context: Value) -> Value {
    shell("c", &format!("{SHOW}{STAY}"), json!({ "securityContext": context }))
}

fn with(name: &str, of_pod: Value, of_container: Value) -> Value {
    pod(name, json!({ "securityContext": of_pod, "containers": [shows(of_container)] }))
}

fn contexts(context: &Context) -> Result<(), Failure> {
    let mut stage = Stage::new(context)?;
    let profiles = stage.agent()?.state().join("seccomp");
    fs::create_dir_all(&profiles).map_err(Failure::file(&profiles))?;
    let deny = json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        { "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }] });
    fs::write(profiles.join("no-mkdir.json"), deny.to_string()).map_err(Failure::file(&profiles))?;
    let users =
        json!({ "runAsUser": 1000, "runAsGroup": 2000, "supplementalGroups": [3000], "fsGroup": 4000 });
    let mounted =
        "echo volume=`stat -c %g /volume`; touch /volume/file; echo file=`stat -c %g /volume/file`; ";
    let mut on_volume =
        pod("fsgroup", json!({ "securityContext": users, "volumes": [{ "name": "v", "emptyDir": {} }] }));
    on_volume["spec"]["containers"] = json!([shell(
        "c",
        &format!("{mounted}{SHOW}{STAY}"),
        json!({ "volumeMounts": [{ "name": "v", "mountPath": "/volume" }] })
    )]);
    let capabilities = json!({ "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] } });
    stage.put([
        with("plain", json!({}), json!({})),
        on_volume,
        // The container's word counts more than the pod's.
        with("own-user", json!({ "runAsUser": 1000, "runAsNonRoot": true }), json!({ "runAsUser": 1001 })),
        with("few", json!({}), capabilities),
        with("privileged", json!({}), json!({ "privileged": true })),
        with("readonly", json!({}), json!({ "readOnlyRootFilesystem": true })),
        with("nothing-new", json!({}), json!({ "allowPrivilegeEscalation": false })),
        with("default-profile", json!({ "seccompProfile": { "type": "RuntimeDefault" } }), json!({})),
        with(
            "own-profile",
            json!({}),
            json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "no-mkdir.json" } }),
        ),
        with(
            "unconfined",
            json!({ "seccompProfile": { "type": "RuntimeDefault" } }),
            json!({ "seccompProfile": { "type": "Unconfined" } }),
        ),
    ])?;
    for (name, expected) in [
        (
            "plain",
            &[
                ("user", "0"),
                ("NoNewPrivs", "0"),
                ("root", "0"),
                ("kmsg", "1"),
                ("mkdir", "0"),
                ("Seccomp", "0"),
            ][..],
        ),
        ("fsgroup", &[("user", "1000"), ("group", "2000"), ("volume", "4000"), ("file", "4000")]),
        ("own-user", &[("user", "1001"), ("CapEff", "0000000000000000")]),
        ("few", &[("CapEff", "0000000000000400"), ("CapBnd", "0000000000000400")]),
        ("privileged", &[("kmsg", "0"), ("NoNewPrivs", "0"), ("Seccomp", "0")]),
        ("readonly", &[("root", "1")]),
        ("nothing-new", &[("NoNewPrivs", "1")]),
        ("default-profile", &[("Seccomp", "2"), ("mkdir", "0")]),
        ("own-profile", &[("Seccomp", "2"), ("mkdir", "1")]),
        ("unconfined", &[("Seccomp", "0")]),
    ] {
        let seen = stage.up(name)?;
        let said = stage.told(&seen, "c")?;
        check(&said, expected).map_err(|failure| Failure::Unexpected(format!("pod {name}: {failure}")))?;
        match name {
            "fsgroup" => {
                let groups: Vec<&str> =
                    said.get("groups").map(|g| g.split(' ').collect()).unwrap_or_default();
                ensure!(["3000", "4000"].iter().all(|g| groups.contains(g)), "groups {groups:?}");
            }
            "privileged" => {
                let plain = stage.told(&stage.up("plain")?, "c")?;
                ensure!(
                    said.get("CapEff") > plain.get("CapEff"),
                    "privileged has {:?}, a plain one {:?}",
                    said.get("CapEff"),
                    plain.get("CapEff")
                );
            }
            _ => {}
        }
    }
    refused(&mut stage)?;
    stage.finish()
}

/// The image's user is root, which the pod refuses; a profile that is not there.
fn refused(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let absent = json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "absent.json" } });
    stage.put([
        with("not-root", json!({ "runAsNonRoot": true }), json!({})),
        with("no-profile", json!({}), absent),
    ])?;
    let waits = |name: &str, reasons: &[&str], word: &str| -> Result<(), Failure> {
        let seen = stage.until(name, "refused its container", 20, |pod| {
            pod.container("c").is_ok_and(|c| reasons.contains(&c.waits()))
        })?;
        let message = seen.container("c")?.waits_message().to_owned();
        ensure!(message.contains(word), "pod {name}: {word:?} is not in {message:?}");
        ensure_eq!(seen.container("c")?.restarts(), 0, "restarts of {name}");
        Ok(())
    };
    waits("not-root", &["CreateContainerConfigError"], "non-root")?;
    waits("no-profile", &["CreateContainerError", "CreateContainerConfigError"], "absent.json")?;
    // Merged over what is there: another user makes it run.
    stage.put([with(
        "not-root",
        json!({ "runAsNonRoot": true, "runAsUser": 1234 }),
        merged(json!({}), json!({})),
    )])?;
    let seen = stage.up("not-root")?;
    check(&stage.told(&seen, "c")?, &[("user", "1234")])
}
