//! Limits of containers' cgroups, which the runtime sets.

use nodewarden_proto::nodewarden::v1::event::Detail;
use nodewarden_proto::runtime::v1 as cri;
use serde_json::json;

use super::compare::{place, plain};
use super::fixture::{Driver, HierarchyFixture, just_before_now};
use crate::e2e::support::{eventually, since};
use crate::fixture::{Agent, BUSYBOX_IMAGE, Containerd, Cri};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("container_limits_are_corrected", corrects).timeout(180).needs(&[
    Capability::Root,
    Capability::Cri,
    Capability::MemoryCgroup,
    Capability::CpuCgroup,
    Capability::Loopback,
])];

const UID: &str = "c0a7a18e-0000-4000-8000-000000000001";

/// The agent corrects and reports every changed limit of a container, and leaves the runtime's own values
/// alone, of either version of runc.
fn corrects(context: &Context) -> Result<(), Failure> {
    let containerd = Containerd::start(context)?;
    let runtime = Cri::connect(containerd.socket())?;
    let driver = if runtime.uses_systemd()? { Driver::Systemd } else { Driver::Cgroupfs };
    let lines = format!("podLogsDir: {}\n", context.temp.join("pod-logs").display());
    let managed = HierarchyFixture::new(context, driver, u64::from(context.patience).min(3), &lines)?
        .with_runtime(containerd.socket());
    let limits = json!({ "requests": { "cpu": "500m" }, "limits": { "cpu": "777m", "memory": "64Mi" } });
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "p", "namespace": "default", "uid": UID },
        "spec": {
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c",
                "image": BUSYBOX_IMAGE,
                "command": ["/bin/busybox", "sleep", "600"],
                "resources": limits,
            }],
        },
    });
    let begin = just_before_now();
    managed.write("p", &manifest)?;
    let agent = managed.start()?;
    let status = managed.wait_settled(&agent, 1)?;
    let pod_path = status.pods[0].path.clone();
    let id = eventually(context.patiently(30), "the container does not run", || {
        let running = cri::ContainerState::ContainerRunning as i32;
        Ok(runtime.list_containers()?.into_iter().find(|c| c.state == running).map(|c| c.id))
    })?;
    let path = match driver {
        Driver::Cgroupfs => format!("{pod_path}/{id}"),
        Driver::Systemd => format!("{pod_path}/cri-containerd-{id}.scope"),
    };
    eventually(context.patiently(10), "the container is not shown with its name", || {
        let cgroup = agent.client()?.cgroups(&path)?.into_iter().find(|c| c.path == path);
        Ok(cgroup.and_then(|c| c.pod).filter(|p| p.container_name == "c"))
    })?;
    managed.wait_reconciled(&agent)?;
    managed.wait_reconciled(&agent)?;
    ensure_eq!(
        corrected(&agent, &path, begin)?,
        Vec::<String>::new(),
        "corrections of an unchanged container"
    );

    let v2 = context.layout.controller("memory").is_some_and(|h| h.v2);
    let changes: &[(&str, &str)] = if v2 {
        &[
            ("memory.oom.group", "0"),
            ("memory.max", "max"),
            ("cpu.max", "max 100000"),
            ("cpu.weight", "9999"),
            ("memory.swap.max", "max"),
        ]
    } else {
        &[("memory.limit_in_bytes", "33554432"), ("cpu.cfs_quota_us", "50000"), ("cpu.shares", "9999")]
    };
    let files =
        |names: &[&str]| names.iter().map(|file| read(context, &path, file)).collect::<Result<Vec<_>, _>>();
    let names: Vec<_> = changes.iter().map(|(file, _)| *file).collect();
    let expected = files(&names)?;
    for (file, value) in changes {
        write(context, &path, file, value)?;
    }
    managed.wait_reconciled(&agent)?;
    ensure_eq!(files(&names)?, expected, "{names:?} of the container");
    ensure_eq!(corrected(&agent, &path, begin)?.len(), changes.len(), "corrections in the journal");

    if v2 {
        // For 512 shares runc 1.1 sets the weight 20, newer versions 59. Both are right.
        let begin = just_before_now();
        for weight in ["59", "20"] {
            write(context, &path, "cpu.weight", weight)?;
            managed.wait_reconciled(&agent)?;
            ensure_eq!(read(context, &path, "cpu.weight")?, weight, "a weight by either formula");
        }
        ensure_eq!(
            corrected(&agent, &path, begin)?,
            Vec::<String>::new(),
            "corrections of either version's weight"
        );
    }
    if driver == Driver::Systemd {
        // A reload makes systemd set memory.oom.group by OOMPolicy= and round the quota.
        let output = std::process::Command::new("systemctl").arg("daemon-reload").output();
        output.map_err(Failure::file("systemctl"))?;
        managed.wait_reconciled(&agent)?;
        ensure_eq!(files(&names)?, expected, "{names:?} of the container after daemon-reload");
    }
    managed.remove("p")?;
    managed.wait_settled(&agent, 0)?;
    ensure_eq!(runtime.list_sandboxes()?.len(), 0, "sandboxes left");
    Ok(())
}

/// The corrected limits of a cgroup since `begin`, from the journal.
fn corrected(agent: &Agent, path: &str, begin: std::time::SystemTime) -> Result<Vec<String>, Failure> {
    let quiet = std::time::Duration::from_secs(1);
    let events =
        agent
            .client()?
            .watch(since(begin, &["limitCorrected"]))?
            .collect(quiet, 10 * quiet, |e| e.cgroup == path)?;
    let limits = events.into_iter().filter_map(|received| match received.event.detail {
        Some(Detail::LimitCorrected(c)) => Some(format!("{} was {}", c.limit, c.found)),
        _ => None,
    });
    Ok(limits.collect())
}

/// The path of a cgroup's file.
fn file(context: &Context, path: &str, name: &str) -> Result<std::path::PathBuf, Failure> {
    place(&context.layout, path, name).ok_or_else(|| Failure::Unexpected(format!("no controller for {name}")))
}

/// The content of a cgroup's file.
fn read(context: &Context, path: &str, name: &str) -> Result<String, Failure> {
    let place = file(context, path, name)?;
    Ok(plain(&std::fs::read_to_string(&place).map_err(Failure::file(&place))?))
}

/// Writes to a cgroup's file, and checks that it took the value.
fn write(context: &Context, path: &str, name: &str, value: &str) -> Result<(), Failure> {
    let place = file(context, path, name)?;
    std::fs::write(&place, value).map_err(Failure::file(&place))?;
    ensure!(read(context, path, name)? == value, "{} did not take {value}", place.display());
    Ok(())
}
