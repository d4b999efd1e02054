//! What a guest boots into: the kernel's modules, our programs, and its job, one archive after the other.

use std::fs;
use std::path::{Path, PathBuf};

use super::assets::archive::concatenate;
use super::assets::{Archive, Kernel};
use super::error::VmError;
use nodewarden_guest_job::{JOB_FILE, Job, PROGRAMS};
use xtask_common::layout::{Layout, Profile};

/// How tests and what they test are built.
pub const TESTED: Profile = Profile::Dev;

/// The programs of a guest, in addition to its init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// For the tests.
    Tests,
    /// For a bench.
    Bench,
    /// For a soak test.
    Soak,
    /// For a soak test with a control plane and the real kubelet.
    ClusterSoak,
    /// For a node of a cluster.
    Node,
}

impl Programs {
    /// How they are built.
    fn profile(self) -> Profile {
        match self {
            Self::Bench | Self::Soak | Self::ClusterSoak => Profile::Release,
            Self::Tests | Self::Node => TESTED,
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Tests => &["nodewarden", "nodewarden-e2e"],
            Self::Bench => &["nodewarden", "nodewarden-bench"],
            Self::Soak | Self::ClusterSoak => &["nodewarden", "nodewarden-stage"],
            Self::Node => &["nodewarden"],
        }
    }
}

/// Kubernetes' programs, which `cargo xtask setup conformance` builds.
const KUBERNETES: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"];
/// Where they are below the target directory, and below [`PROGRAMS`] in a guest.
const KUBERNETES_FOLDER: &str = "tools/kubernetes/bin";
/// Where a test looks for network plugins in a guest, below [`PROGRAMS`].
const PLUGINS_FOLDER: &str = "tools/containers/usr/lib/cni";
/// The network plugins of a node's pods.
const NETWORK_PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];
/// Process 1.
const INIT: &str = "nodewarden-guest";

/// Writes the archive of what all guests of a run share into `folder`. `busybox` is for guests with a shell.
///
/// # Errors
/// When a program is not built or can't be packed.
pub fn programs(
    layout: &Layout,
    programs: Programs,
    busybox: Option<&Path>,
    folder: &Path,
) -> Result<PathBuf, VmError> {
    let mut archive = Archive::new(layout);
    for name in programs.names() {
        archive.program(&layout.program(programs.profile(), name), &format!("{PROGRAMS}/bin/{name}"))?;
    }
    let init = format!("{PROGRAMS}/bin/{INIT}");
    archive.program(&layout.program(programs.profile(), INIT), &init)?;
    archive.symlink(&init, "/init");
    archive.directory(&format!("{PROGRAMS}/work"));
    archive.directory("/root");
    archive.file("root:x:0:0::/root:/bin/sh\n", "/etc/passwd", 0o644);
    archive.file("root:x:0:\n", "/etc/group", 0o644);
    archive.file("127.0.0.1 localhost\n", "/etc/hosts", 0o644);
    // Without a name server; no pod starts without the file.
    archive.file("", "/etc/resolv.conf", 0o644);
    if let Some(golden) = layout.golden() {
        recorded_values(&mut archive, &golden)?;
    }
    if let Some(busybox) = busybox {
        archive.program(busybox, "/bin/busybox")?;
    }
    if programs == Programs::Node {
        let plugins = network_plugins(layout)?;
        for name in NETWORK_PLUGINS {
            archive.program(&plugins.join(name), &format!("{PROGRAMS}/cni/{name}"))?;
        }
    }
    if programs == Programs::ClusterSoak {
        let built = layout.target.join(KUBERNETES_FOLDER);
        for name in KUBERNETES {
            archive.program(&built.join(name), &format!("{PROGRAMS}/{KUBERNETES_FOLDER}/{name}"))?;
        }
        let plugins = network_plugins(layout)?;
        for name in NETWORK_PLUGINS {
            archive.program(&plugins.join(name), &format!("{PROGRAMS}/{PLUGINS_FOLDER}/{name}"))?;
        }
    }
    let path = folder.join("programs.cpio");
    archive.write_to(&path)?;
    Ok(path)
}

/// Where the network plugins are: unpacked by `cargo xtask setup`, or installed.
fn network_plugins(layout: &Layout) -> Result<PathBuf, VmError> {
    let installed = ["/usr/lib/cni", "/opt/cni/bin"].map(PathBuf::from);
    let folders = layout.container_programs().into_iter().chain(installed);
    let found =
        folders.into_iter().find(|folder| NETWORK_PLUGINS.iter().all(|name| folder.join(name).is_file()));
    found.ok_or(VmError::NoNetworkPlugins)
}

/// Packs the files of `golden` where the tests find them from their working directory.
fn recorded_values(archive: &mut Archive, golden: &Path) -> Result<(), VmError> {
    for entry in fs::read_dir(golden).map_err(VmError::file("read", golden))? {
        let path = entry.map_err(VmError::file("read", golden))?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            archive.host_file(&path, &format!("{PROGRAMS}/shared/golden/{}", name.to_string_lossy()), 0o644);
        }
    }
    Ok(())
}

/// Writes the initramfs of one guest into `folder`. `agent` replaces the one in `programs`.
///
/// # Errors
/// When it can't be written.
pub fn initramfs(
    layout: &Layout,
    kernel: &Kernel,
    programs: &Path,
    job: &Job,
    agent: Option<&Path>,
    folder: &Path,
) -> Result<PathBuf, VmError> {
    let mut archive = Archive::new(layout);
    let text = serde_json::to_vec(job).map_err(|error| VmError::file("write", JOB_FILE)(error.into()))?;
    archive.file(text, JOB_FILE, 0o644);
    if let Some(agent) = agent {
        archive.program_alone(agent, &format!("{PROGRAMS}/bin/nodewarden"))?;
    }
    let own = folder.join("job.cpio");
    archive.write_to(&own)?;
    let path = folder.join("initramfs");
    concatenate(&[&kernel.modules, programs, &own], &path)?;
    Ok(path)
}
