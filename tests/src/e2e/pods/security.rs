//! Security contexts.

use std::fs;

use serde_json::{Value, json};

use super::fixture::PodFixture;
use super::manifest::{STAY, merged, pod, shell};
use super::{NEEDS, check};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_security_contexts", contexts).timeout(150).needs(NEEDS)];

const SHOW: &str = "echo user=`id -u`; echo group=`id -g`; echo groups=`id -G`; \
    for key in CapEff CapBnd NoNewPrivs Seccomp; do echo $key=`grep ^$key: /proc/self/status | cut -f 2`; done; \
    touch /made 2>/dev/null; echo root=$?; test -e /dev/kmsg; echo kmsg=$?; \
    mkdir /tmp/denied 2>/dev/null; echo mkdir=$?; echo done; ";

/// A container that prints its user, groups, capabilities and what it may do.
fn container_with(context: Value) -> Value {
    shell("c", &format!("{SHOW}{STAY}"), json!({ "securityContext": context }))
}

/// A pod with these security contexts of pod and container.
fn pod_with(name: &str, of_pod: Value, of_container: Value) -> Value {
    pod(name, json!({ "securityContext": of_pod, "containers": [container_with(of_container)] }))
}

/// Users, groups, capabilities, privileged, read-only root, seccomp and no-new-privileges take effect inside
/// the container.
fn contexts(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let profiles = fixture.agent()?.state().join("seccomp");
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
    fixture.put([
        pod_with("plain", json!({}), json!({})),
        on_volume,
        // The container's setting overrides the pod's.
        pod_with(
            "own-user",
            json!({ "runAsUser": 1000, "runAsNonRoot": true }),
            json!({ "runAsUser": 1001 }),
        ),
        pod_with("few", json!({}), capabilities),
        pod_with("privileged", json!({}), json!({ "privileged": true })),
        pod_with("readonly", json!({}), json!({ "readOnlyRootFilesystem": true })),
        pod_with("nothing-new", json!({}), json!({ "allowPrivilegeEscalation": false })),
        pod_with("default-profile", json!({ "seccompProfile": { "type": "RuntimeDefault" } }), json!({})),
        pod_with(
            "own-profile",
            json!({}),
            json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "no-mkdir.json" } }),
        ),
        pod_with(
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
        let seen = fixture.wait_up(name)?;
        let printed = fixture.printed_values(&seen, "c")?;
        check(&printed, expected).map_err(|failure| Failure::Unexpected(format!("pod {name}: {failure}")))?;
        match name {
            "fsgroup" => {
                let groups: Vec<&str> =
                    printed.get("groups").map(|g| g.split(' ').collect()).unwrap_or_default();
                ensure!(["3000", "4000"].iter().all(|g| groups.contains(g)), "groups {groups:?}");
            }
            "privileged" => {
                let plain = fixture.printed_values(&fixture.wait_up("plain")?, "c")?;
                ensure!(
                    printed.get("CapEff") > plain.get("CapEff"),
                    "CapEff of the privileged container is {:?}, of a plain one {:?}",
                    printed.get("CapEff"),
                    plain.get("CapEff")
                );
            }
            _ => {}
        }
    }
    check_refused(&mut fixture)?;
    fixture.finish()
}

/// Checks that a container is refused whose user is root though the pod forbids it, or whose seccomp profile
/// is missing.
fn check_refused(fixture: &mut PodFixture<'_>) -> Result<(), Failure> {
    let absent = json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "absent.json" } });
    fixture.put([
        pod_with("not-root", json!({ "runAsNonRoot": true }), json!({})),
        pod_with("no-profile", json!({}), absent),
    ])?;
    let check_waiting = |name: &str, reasons: &[&str], word: &str| -> Result<(), Failure> {
        let seen = fixture.wait_until(name, "waiting for a refused container", 20, |pod| {
            pod.container("c").is_ok_and(|c| reasons.contains(&c.waiting_reason()))
        })?;
        let message = seen.container("c")?.waiting_message().to_owned();
        ensure!(message.contains(word), "pod {name}: {word:?} is not in {message:?}");
        ensure_eq!(seen.container("c")?.restarts(), 0, "restarts of {name}");
        Ok(())
    };
    check_waiting("not-root", &["CreateContainerConfigError"], "runAsNonRoot")?;
    check_waiting("no-profile", &["CreateContainerError", "CreateContainerConfigError"], "absent.json")?;
    // With another user it runs.
    fixture.put([pod_with(
        "not-root",
        json!({ "runAsNonRoot": true, "runAsUser": 1234 }),
        merged(json!({}), json!({})),
    )])?;
    let seen = fixture.wait_up("not-root")?;
    check(&fixture.printed_values(&seen, "c")?, &[("user", "1234")])
}
