//! Command, arguments, environment and working directory of containers.

use serde_json::json;

use super::fixture::PodFixture;
use super::manifest::{STAY, pod, shell};
use super::{NEEDS, check};
use crate::fixture::BUSYBOX_IMAGE;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_command_and_environment", environment).timeout(120).needs(NEEDS)];

/// Command, arguments and environment are expanded as the kubelet does, with fields of the pod and its
/// resources; without a command the image's own is used.
fn environment(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    let field = |path: &str| json!({ "fieldRef": { "fieldPath": path } });
    let resource =
        |what: &str, divisor: &str| json!({ "resourceFieldRef": { "resource": what, "divisor": divisor } });
    let env = json!([
        { "name": "GREETING", "value": "hello" },
        { "name": "BOTH", "value": "$(GREETING), $(NOT_THERE) and $$(GREETING)" },
        { "name": "LATER", "value": "$(AFTER)" },
        { "name": "AFTER", "value": "x" },
        { "name": "NAME", "valueFrom": field("metadata.name") },
        { "name": "NAMESPACE", "valueFrom": field("metadata.namespace") },
        { "name": "UID", "valueFrom": field("metadata.uid") },
        { "name": "LABEL", "valueFrom": field("metadata.labels['app']") },
        { "name": "NOTE", "valueFrom": field("metadata.annotations['note']") },
        { "name": "NODE", "valueFrom": field("spec.nodeName") },
        { "name": "HOST_IP", "valueFrom": field("status.hostIP") },
        { "name": "POD_IP", "valueFrom": field("status.podIP") },
        { "name": "CPU", "valueFrom": resource("limits.cpu", "1m") },
        { "name": "CPUS", "valueFrom": resource("limits.cpu", "1") },
        { "name": "MEMORY", "valueFrom": resource("limits.memory", "0") },
        { "name": "MEBIBYTES", "valueFrom": resource("requests.memory", "1Mi") },
    ]);
    let script = "echo \"zero=$0\"; echo \"one=$1\"; echo \"two=$2\"; env; echo \"at=$PWD\"; echo done; ";
    let mut shown = shell("shown", "", json!({}));
    shown["command"] = json!(["/bin/sh", "-c", format!("{script}{STAY}"), "$(GREETING)"]);
    shown["args"] = json!(["$(GREETING) world", "$$(GREETING)"]);
    shown["env"] = env;
    shown["workingDir"] = json!("/made/for/it");
    shown["resources"] = json!({ "limits": { "cpu": "250m", "memory": "64Mi" } });
    // The image's own command, and arguments without a command.
    let plain = json!({ "name": "plain", "image": BUSYBOX_IMAGE, "imagePullPolicy": "Never" });
    let mut arguments = plain.clone();
    arguments["name"] = json!("arguments");
    arguments["args"] = json!(["/bin/echo", "as", "arguments"]);
    let mut manifest =
        pod("words", json!({ "restartPolicy": "Never", "containers": [shown, plain, arguments] }));
    manifest["metadata"]["labels"] = json!({ "app": "shop" });
    manifest["metadata"]["annotations"] = json!({ "note": "be kind" });
    fixture.put([manifest])?;

    let seen = fixture.wait_until("words", "running its first container", 30, |pod| {
        pod.container("shown").is_ok_and(|one| one.is_running())
    })?;
    let printed = fixture.printed_values(&seen, "shown")?;
    let uid = seen.uid().to_owned();
    check(
        &printed,
        &[
            ("zero", "hello"),
            ("one", "hello world"),
            ("two", "$(GREETING)"),
            ("GREETING", "hello"),
            ("BOTH", "hello, $(NOT_THERE) and $(GREETING)"),
            ("LATER", "$(AFTER)"),
            ("NAME", "words"),
            ("NAMESPACE", "default"),
            ("UID", &uid),
            ("LABEL", "shop"),
            ("NOTE", "be kind"),
            ("NODE", "stage"),
            ("CPU", "250"),
            ("CPUS", "1"),
            ("MEMORY", "67108864"),
            ("MEBIBYTES", "64"),
            ("PATH", "/bin:/usr/local/bin"),
            ("at", "/made/for/it"),
        ],
    )?;
    let host = seen.text("/status/hostIP");
    // A machine without a network has no address.
    ensure!(!host.is_empty() || !has_default_route(), "no hostIP in {}", seen.0["status"]);
    check(&printed, &[("HOST_IP", host), ("POD_IP", host)])?;
    // The image's command is a shell, whose standard input is closed.
    fixture.wait_until("words", "finished with its image's command", 20, |pod| {
        pod.container("plain").is_ok_and(|one| one.exit_code() == Some(0))
    })?;
    ensure_eq!(
        fixture.log_until(&seen, "arguments", 0, "\n")?,
        "as arguments\n",
        "what the arguments printed"
    );
    fixture.finish()
}

/// Whether the machine has a default route (/proc/net/route: destination 0).
fn has_default_route() -> bool {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    routes.lines().any(|line| line.split_whitespace().nth(1) == Some("00000000"))
}
