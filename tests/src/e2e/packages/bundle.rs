//! `nodewarden bundle` of a running agent: everything is in it, and no secret.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use flate2::read::GzDecoder;

use crate::fixture::{Agent, AgentOptions, command_line};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("bundle_has_everything_but_secrets", complete).needs(&[
        Capability::Root,
        Capability::Btf,
        Capability::Loopback,
    ]),
    Test::new("bundle_without_an_agent", without_agent),
];

/// Planted in the configuration and in the arguments.
const SECRETS: [&str; 3] = ["hunter2-in-a-header", "hunter2-in-an-address", "hunter2-on-the-command-line"];

/// The settings, figures and facts of a running agent are there. What was planted as a secret is not.
fn complete(context: &Context) -> Result<(), Failure> {
    let kubelet = format!(
        "maxPods: 77\nstaticPodURL: http://127.0.0.1:9/pods?token={}\nstaticPodURLHeader: {{X-Auth: [{}]}}\n",
        SECRETS[1], SECRETS[0]
    );
    let arguments = vec![format!("--manifest-url-header=Authorization:{}", SECRETS[2])];
    let agent = Agent::start(context, &AgentOptions { kubelet, arguments, ..Default::default() })?;
    let path = context.temp.join("bundle.tar.gz");
    let output = agent.command(&["bundle", "--output", &path.display().to_string()])?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "bundle fails: {said}");
    let mode = fs::metadata(&path).map_err(Failure::file(&path))?.permissions().mode();
    ensure_eq!(mode & 0o777, 0o600, "permissions of the archive");

    let files = unpack(&path)?;
    let text = |name: &str| files.get(name).map(String::as_str).unwrap_or_default();
    for (name, part) in [
        ("status.txt", "in mode observe"),
        ("status.json", "\"mode\": \"observe\""),
        ("agent/settings.yaml", "maxPods: 77"),
        ("agent/variables", "PATH\n"),
        ("agent/limits", "Max open files"),
        ("metrics/own", "nodewarden_build_info"),
        ("metrics/cadvisor", "container_memory_usage_bytes"),
        ("events.jsonl", "\"type\":\"agent\""),
        ("machine/sysctl", "vm.overcommit_memory"),
        ("machine/kernel-types", "vmlinux: "),
    ] {
        ensure!(text(name).contains(part), "{name} lacks {part:?}: {}\n{}", text(name), text("problems"));
    }
    for (name, content) in &files {
        for secret in SECRETS {
            ensure!(!content.contains(secret), "{name} has the secret {secret}");
        }
    }
    ensure!(text("agent/command-line").contains("<left out>"), "{}", text("agent/command-line"));

    let again = agent.command(&["bundle", "--output", &path.display().to_string()])?;
    ensure!(!again.status.success(), "an existing file is overwritten");
    Ok(())
}

/// Without an agent the bundle has the machine, and says what is missing.
fn without_agent(context: &Context) -> Result<(), Failure> {
    let socket = context.temp.join("absent.sock");
    let path = context.temp.join("bundle.tar.gz");
    let output = command_line(&context.agent, &socket, &["bundle", "--output", &path.display().to_string()])?;
    ensure!(output.status.success(), "bundle fails: {}", String::from_utf8_lossy(&output.stderr));
    let files = unpack(&path)?;
    ensure!(files.contains_key("machine/version"), "{:?}", files.keys());
    let problems = files.get("problems").cloned().unwrap_or_default();
    ensure!(problems.contains("status.txt: ") && problems.contains("absent.sock"), "{problems}");
    Ok(())
}

/// The files of the archive, by their path below its folder.
fn unpack(path: &std::path::Path) -> Result<BTreeMap<String, String>, Failure> {
    let file = File::open(path).map_err(Failure::file(path))?;
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let mut files = BTreeMap::new();
    for entry in archive.entries().map_err(Failure::file(path))? {
        let mut entry = entry.map_err(Failure::file(path))?;
        let name = entry.path().map_err(Failure::file(path))?.display().to_string();
        let name = name.split_once('/').map_or(name.clone(), |(_, rest)| rest.to_owned());
        let mut text = Vec::new();
        entry.read_to_end(&mut text).map_err(Failure::file(path))?;
        files.insert(name, String::from_utf8_lossy(&text).into_owned());
    }
    Ok(files)
}
