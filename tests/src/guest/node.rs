//! A node of a cluster: the network, the pods' network, and the agent under its shipped unit with what is on
//! the node's disk. Then the machine's state is reported until it is shut down or killed.

mod state;

use std::convert::Infallible;
use std::fs;
use std::io::BufRead;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::devices;
use super::serial::{self, report};
use super::{GuestError, error};
use crate::fixture::systemctl;
use nodewarden_guest_job::{ADDRESS, HOST, Mark, NODE_DISK, NodeJob, POWER_OFF};

const UNIT: &str = include_str!("../../../deploy/nodewarden.service");
const MANAGE: &str = include_str!("../../../deploy/nodewarden-manage.conf");
/// The guest's programs are in the unit's runtime directory, /run/nodewarden, so the unit gets another one.
const GUEST: &str = "[Service]\nRuntimeDirectory=\nRuntimeDirectory=nodewarden-agent\n";
pub(super) const AGENT: &str = "nodewarden.service";
/// Where containerd looks for network plugins: Debian's place and upstream's.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
/// The pods' network. Nothing outside the guest is reached from there.
const NETWORK: &str = r#"{"cniVersion": "0.4.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]]}
}]}
"#;
/// Between two reports.
const PACE: Duration = Duration::from_secs(1);

/// Starts the agent, and reports until the machine ends.
///
/// # Errors
/// When the node's disk makes no sense, or something can't be set up or started.
pub fn run(programs: &Path) -> Result<Infallible, GuestError> {
    let job = read_job()?;
    error::write("/proc/sys/kernel/hostname", &job.name)?;
    network()?;
    pod_network(programs)?;
    files(&job, programs)?;
    started("daemon-reload", systemctl(&["daemon-reload"]))?;
    // What an earlier boot left, before the agent has looked at it.
    report_state();
    started("start", systemctl(&["start", "--no-block", AGENT]))?;
    std::thread::spawn(obey);
    loop {
        report_state();
        std::thread::sleep(PACE);
    }
}

fn report_state() {
    let state = serde_json::to_string(&state::read()).unwrap_or_else(|error| error.to_string());
    report(&Mark::Node(state));
}

fn started(what: &str, done: Result<String, impl ToString>) -> Result<(), GuestError> {
    let failed = |why: String| GuestError::Command { command: format!("systemctl {what}"), why };
    done.map(drop).map_err(|error| failed(error.to_string()))
}

fn read_job() -> Result<NodeJob, GuestError> {
    let device = devices::wait_for_disk(NODE_DISK)?;
    let text = fs::read(&device).map_err(GuestError::read(&device))?;
    serde_json::from_slice(&text).map_err(|source| GuestError::Job { path: device, source })
}

/// The only network device but `lo`, by the kernel's name: there is no udev.
fn network() -> Result<(), GuestError> {
    ip(&["address", "add", ADDRESS, "dev", "eth0"])?;
    ip(&["link", "set", "eth0", "up"])?;
    ip(&["route", "add", "default", "via", HOST])
}

fn ip(arguments: &[&str]) -> Result<(), GuestError> {
    let mut command = Command::new("ip");
    let output = command.args(arguments).output();
    let output = output.map_err(|source| GuestError::Start { path: "ip".into(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(GuestError::Command { command: format!("ip {}", arguments.join(" ")), why })
}

fn pod_network(programs: &Path) -> Result<(), GuestError> {
    for folder in PLUGINS.map(Path::new) {
        for plugin in ["bridge", "host-local", "loopback"] {
            link(&programs.join("cni").join(plugin), &folder.join(plugin))?;
        }
    }
    put("/etc/cni/net.d/10-pods.conflist", NETWORK)
}

fn files(job: &NodeJob, programs: &Path) -> Result<(), GuestError> {
    link(&programs.join("bin/nodewarden"), Path::new("/usr/local/bin/nodewarden"))?;
    put("/etc/nodewarden/kubeconfig", &job.kubeconfig)?;
    put("/etc/nodewarden/ca.crt", &job.authority)?;
    put("/etc/nodewarden/config.yaml", &job.config)?;
    put(&format!("/etc/systemd/system/{AGENT}"), UNIT)?;
    put(&format!("/etc/systemd/system/{AGENT}.d/manage.conf"), MANAGE)?;
    put(&format!("/etc/systemd/system/{AGENT}.d/zz-guest.conf"), GUEST)
}

fn put(path: &str, text: &str) -> Result<(), GuestError> {
    if let Some(folder) = Path::new(path).parent() {
        fs::create_dir_all(folder).map_err(GuestError::make(folder))?;
    }
    fs::write(path, text).map_err(GuestError::make(path))
}

/// A link that may be there from an earlier boot.
fn link(target: &Path, path: &Path) -> Result<(), GuestError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(GuestError::make(folder))?;
    }
    match std::os::unix::fs::symlink(target, path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(GuestError::make(path)(error)),
        _ => Ok(()),
    }
}

/// Shuts the machine down when the test asks for it on the second serial port.
fn obey() {
    let lines = match serial::open_for_lines() {
        Ok(port) => port.lines(),
        Err(error) => return eprintln!("{}: {error}", serial::RESULTS),
    };
    for line in lines.map_while(Result::ok) {
        if line.trim() == POWER_OFF
            && let Err(error) = systemctl(&["poweroff"])
        {
            eprintln!("{error}");
        }
    }
}
