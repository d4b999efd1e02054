//! What the agent may do once it has started: exactly what its status lists, in every thread, and each mode
//! works with it.

use std::fs;
use std::path::{Path, PathBuf};

use nodewarden_machine::privileges::{Capability, CapabilitySet, Held, Mounts, refused};
use nodewarden_proto::nodewarden::v1::Privileges;
use serde_json::json;

use super::augment::fixture::{Augmented, NEEDS as AUGMENT_NEEDS, features, is_possible};
use super::pods::NEEDS as POD_NEEDS;
use super::pods::fixture::PodFixture;
use super::pods::manifest::{STAY, pod, shell};
use super::support::{MIB, die_of_memory, eventually, known, oom_of};
use crate::fixture::{Agent, AgentOptions, Client, TestRoot, credential_provider};
use crate::harness::{Capability as Needs, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("privileges_observe", observe).needs(OBSERVE_NEEDS),
    Test::new("privileges_kept_on_request", kept_on_request).needs(&[
        Needs::Root,
        Needs::Btf,
        Needs::Loopback,
    ]),
    Test::new("privileges_manage", manage).timeout(150).needs(POD_NEEDS),
    Test::new("privileges_augment", augment).timeout(90).needs(AUGMENT_NEEDS),
];

const OBSERVE_NEEDS: &[Needs] =
    &[Needs::Root, Needs::MemoryCgroup, Needs::Btf, Needs::OomVictims, Needs::Loopback];

/// What no agent keeps, whatever it does.
const NEVER: &[Capability] = &[
    Capability::CapSetpcap,
    Capability::CapSetuid,
    Capability::CapSetgid,
    Capability::CapSysModule,
    Capability::CapSysRawio,
    Capability::CapSysBoot,
    Capability::CapSysTime,
    Capability::CapMknod,
    Capability::CapSyslog,
    Capability::CapNetRaw,
];

/// Checks that every thread holds exactly what the status lists, that nothing more can be had by programs
/// that the agent starts, and that system calls are refused in all of them. Returns what is held.
pub fn check(pid: u32, client: &Client) -> Result<CapabilitySet, Failure> {
    let status = client.status()?;
    let own = known(status.privileges, "what the agent may do")?;
    ensure_eq!(own.problem, "", "problem");
    ensure!(own.no_new_privileges && own.refused_calls > 40, "status: {own:?}");
    let listed = listed(&own)?;
    let bounding = set(&own.bounding)?;
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let mut threads = 0;
    for entry in fs::read_dir(&tasks).map_err(Failure::file(&tasks))? {
        let path = entry.map_err(Failure::file(&tasks))?.path().join("status");
        // The thread may have ended since.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let held = known(Held::parse(&text), "the thread's status")?;
        ensure_eq!(held.permitted.names(), listed.names(), "permitted of {}", path.display());
        ensure_eq!(held.effective.names(), listed.names(), "effective of {}", path.display());
        ensure_eq!(held.bounding.names(), bounding.names(), "bounding set of {}", path.display());
        ensure!(text.contains("CapInh:\t0000000000000000"), "inheritable of {}", path.display());
        ensure!(held.no_new_privileges && held.filtered, "{} is not restricted", path.display());
        threads += 1;
    }
    ensure!(threads > 5, "only {threads} threads were seen");
    for own in NEVER {
        ensure!(!listed.has(*own) && !bounding.has(*own), "{} is held", own.name());
    }
    Ok(listed)
}

/// What the test itself has, as its agents at their start.
fn own() -> Result<CapabilitySet, Failure> {
    let held = Held::of_threads(Path::new("/proc/self/task"));
    Ok(held.map_err(|error| Failure::Unexpected(error.to_string()))?.permitted)
}

/// The capabilities that the status lists; each has a reason.
fn listed(own: &Privileges) -> Result<CapabilitySet, Failure> {
    for held in &own.capabilities {
        ensure!(!held.why.is_empty(), "{} is held for nothing", held.name);
    }
    set(&own.capabilities.iter().map(|held| held.name.clone()).collect::<Vec<_>>())
}

fn set(names: &[String]) -> Result<CapabilitySet, Failure> {
    let of = |name: &String| name.parse().map_err(|_| Failure::Unexpected(format!("there is no {name}")));
    names.iter().map(of).collect::<Result<CapabilitySet, _>>()
}

/// An agent without statistics of its programs gives up CAP_SYS_ADMIN, and still reports an OOM kill.
fn observe(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let with_statistics = Agent::start(context, &AgentOptions::default())?;
    let held = check(with_statistics.pid(), &with_statistics.client()?)?;
    ensure!(held.has(Capability::CapSysAdmin), "programStats: Sampled works by {held}");
    drop(with_statistics);

    let agent =
        Agent::start(context, &AgentOptions { program_stats: Some(false), ..AgentOptions::default() })?;
    let client = agent.client()?;
    let held = check(agent.pid(), &client)?;
    for gone in [Capability::CapSysAdmin, Capability::CapKill, Capability::CapDacOverride] {
        ensure!(!held.has(gone), "{} is held", gone.name());
    }
    let events = client.watch_types(&["oom"])?;
    let group = root.child("victim")?;
    group.limit_memory(32 * MIB)?;
    let (killed, _) = die_of_memory(context, &group, 128 * MIB)?;
    let received =
        events.find(context.patiently(5), |event| event.cgroup.starts_with(root.group().path()))?;
    let received = known(received, "an OOM kill")?;
    ensure_eq!(known(oom_of(&received.event), "its details")?.pid, killed, "pid");
    let text = String::from_utf8_lossy(&agent.command(&["status"])?.stdout).into_owned();
    for part in ["privileges none by programs' files", "CAPABILITY", "CAP_BPF"] {
        ensure!(text.contains(part), "{part:?} in\n{text}");
    }
    // Threads that were made since have no more.
    check(agent.pid(), &client).map(drop)
}

/// With `dropPrivileges: false` everything stays, and the status says so.
fn kept_on_request(context: &Context) -> Result<(), Failure> {
    let section = "dropPrivileges: false\n".to_owned();
    let agent = Agent::start(context, &AgentOptions { section, ..AgentOptions::default() })?;
    let status = known(agent.client()?.status()?.privileges, "what the agent may do")?;
    ensure!(status.problem.contains("dropPrivileges") && status.given_up.is_empty(), "status: {status:?}");
    let names: Vec<_> = status.capabilities.into_iter().map(|held| held.name).collect();
    ensure_eq!(names, own()?.names(), "capabilities");
    Ok(())
}

/// A pod with a volume of its group and a probe runs and ends; a plugin for credentials of images runs with
/// what the agent has, and what it tries of the refused calls is refused.
fn manage(context: &Context) -> Result<(), Failure> {
    let (config, programs, said) = plugin(context)?;
    let section = format!(
        "kubernetes: {{imageCredentialProviderConfig: {}, imageCredentialProviderBinDir: {}}}\n",
        config.display(),
        programs.display()
    );
    let mut fixture = PodFixture::with_config(context, "", &section)?;
    let (pid, client) = (fixture.agent()?.pid(), fixture.agent()?.client()?);
    let held = check(pid, &client)?;
    ensure!(held.has(Capability::CapSysAdmin) && held.has(Capability::CapChown), "held: {held}");

    let probe = json!({ "exec": { "command": ["/bin/test", "-e", "/memory/made"] }, "periodSeconds": 1 });
    let mount = json!([{ "name": "m", "mountPath": "/memory" }]);
    let container = shell(
        "c",
        &format!("touch /memory/made; {STAY}"),
        json!({ "readinessProbe": probe, "volumeMounts": mount }),
    );
    let of_group = json!({
        "securityContext": { "runAsUser": 1000, "fsGroup": 4000 },
        "volumes": [{ "name": "m", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } }],
        "containers": [container],
    });
    let image = json!({ "name": "c", "image": "credentials.invalid/none:1", "imagePullPolicy": "Always" });
    fixture.put([pod("ready", of_group), pod("refused", json!({ "containers": [image] }))])?;
    let pod = fixture.wait_up("ready")?;
    let directory = fixture.pod_dir(&pod)?;

    let text = eventually(context.patiently(30), "the plugin was not run", || {
        Ok(fs::read_to_string(&said).ok().filter(|text| text.contains("unshare=")))
    })?;
    let of_plugin = known(Held::parse(&text), "the plugin's status")?;
    ensure!(of_plugin.no_new_privileges && of_plugin.filtered, "the plugin is not restricted:\n{text}");
    ensure!(of_plugin.permitted.without(held).is_empty(), "the plugin has {}", of_plugin.permitted);
    ensure!(text.contains("unshare=1") && text.contains("Operation not permitted"), "refused call:\n{text}");
    check(pid, &client)?;
    fixture.remove("ready")?;
    fixture.remove("refused")?;
    fixture.wait_gone(&["ready", "refused"])?;
    eventually(context.patiently(30), "the pod's directory is left", || {
        Ok((!directory.exists()).then_some(()))
    })?;
    fixture.finish()
}

/// A plugin that writes what it may do and tries a refused call: its configuration, its directory, and the
/// file.
fn plugin(context: &Context) -> Result<(PathBuf, PathBuf, PathBuf), Failure> {
    ensure!(refused(Mounts::Allowed).any(|name| name == "unshare"), "unshare is refused");
    let programs = context.temp.join("providers");
    fs::create_dir_all(&programs).map_err(Failure::file(&programs))?;
    let said = context.temp.join("plugin-said");
    let script = format!(
        "#!/bin/sh\nexec >{0}.new 2>&1\ncat /proc/self/status\nunshare --mount true\necho unshare=$?\n\
         mv {0}.new {0}\nexit 1\n",
        said.display()
    );
    let config = credential_provider(context.temp.path(), &programs, "says", "credentials.invalid", &script)?;
    Ok((config, programs, said))
}

/// Everything that mode augment sets is written with what it keeps, and put back.
fn augment(context: &Context) -> Result<(), Failure> {
    is_possible(context)?;
    let node = Augmented::new(context)?;
    let before = node.settings()?;
    let state = context.temp.join("state");
    let agent = node.start(&features("Enforce"), &state)?;
    let held = check(agent.pid(), &agent.client()?)?;
    let mine = own()?;
    for needed in [Capability::CapDacOverride, Capability::CapSysResource] {
        ensure!(held.has(needed) || !mine.has(needed), "{} is needed for protection", needed.name());
    }
    ensure!(!held.has(Capability::CapKill) && !held.has(Capability::CapChown), "held: {held}");
    node.wait_written()?;
    check(agent.pid(), &agent.client()?)?;
    drop(agent);
    ensure_eq!(Augmented::differences(&before, &node.settings()?), [""; 0], "changed files");
    Ok(())
}
