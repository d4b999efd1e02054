//! What a test may need from the machine. Each capability is probed by trying it.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fixture::{
    ClusterPrograms, Containerd, GuestPlan, Layout, PythonPlugin, probe_chromium, systemd_answers,
};

/// Environment variable set by `nodewarden-guest`: this is a virtual machine that nothing but the tests uses.
pub const OWN_MACHINE: &str = "NODEWARDEN_OWN_MACHINE";

/// A property that a machine may lack. A test that needs a missing one is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    Root,
    /// A memory controller, on v1 or v2.
    MemoryCgroup,
    /// A memory controller on v2.
    MemoryV2,
    /// CFS bandwidth of cgroups.
    CpuQuota,
    /// A cpuset controller on v1.
    CpusetV1,
    /// A cpuset controller, on v1 or v2.
    Cpuset,
    /// At least two CPUs.
    TwoCpus,
    /// At least two NUMA nodes with memory, and four CPUs on each.
    NumaNodes,
    /// A pids controller, on v1 or v2.
    PidsCgroup,
    /// `oom_score_adj` can be lowered (CAP_SYS_RESOURCE).
    LowerOomScore,
    /// A virtual machine of the tests' own, which may run out of memory and have a CPU taken offline.
    OwnMachine,
    /// Not a virtual machine of the tests' own, since those are emulated and slow. For tests that would take
    /// minutes there and do not depend on the kernel.
    FullSpeed,
    /// The kernel reports a cgroup's CPU time in a file: `cpuacct.usage` or `cpu.stat`.
    CpuCgroup,
    /// A cgroup v2 tree, with or without controllers.
    UnifiedTree,
    Btf,
    /// The kernel says which process the OOM killer kills.
    OomVictims,
    /// 127.0.0.1 can be reached.
    Loopback,
    /// The temporary directory lies on a block device.
    DiskTemp,
    /// `/proc/<pid>/schedstat` counts.
    Schedstat,
    Prometheus,
    Promtool,
    /// A Chromium, installed or unpacked by `cargo xtask setup`.
    Chromium,
    /// axe-core, which finds what keeps people from using a page, as `cargo xtask setup` unpacks it.
    Axe,
    /// Debian's package manager with the helpers of its packages' scripts, and overlay file systems.
    Dpkg,
    /// rpm, which `cargo xtask setup` unpacks, and overlay file systems.
    Rpm,
    /// systemd is process 1 and makes units.
    Systemd,
    /// A container runtime with the tests' images, or the programs to start a private one.
    Cri,
    /// The programs to start a private container runtime, even where the machine has a runtime.
    PrivateCri,
    /// The programs of a Kubernetes control plane have been built.
    ControlPlane,
    /// Guests that tests start themselves have been prepared (`cargo xtask vm cluster`).
    Guests,
    /// Pods can have network namespaces of their own.
    PodNetwork,
    /// Python with grpcio, to run the device plugin that is written in Python.
    PythonGrpc,
    /// The kubelet's recorded metric families (`shared/golden`).
    Golden,
}

impl Capability {
    /// Checks whether the machine has this capability. The error says why it is missing.
    pub fn probe(self, layout: &Layout, temp: &Path) -> Result<(), String> {
        match self {
            Self::Root => {
                if nix::unistd::geteuid().is_root() {
                    Ok(())
                } else {
                    Err("not root".into())
                }
            }
            Self::MemoryCgroup => controller(layout, "memory"),
            Self::MemoryV2 => match layout.controller("memory") {
                Some(hierarchy) if hierarchy.v2 => Ok(()),
                Some(_) => Err("the memory controller is on cgroup v1".into()),
                None => Err("no memory controller".into()),
            },
            Self::CpuQuota => cpu_quota(layout),
            Self::CpusetV1 => match layout.controller("cpuset") {
                Some(hierarchy) if !hierarchy.v2 => Ok(()),
                _ => Err("no cpuset controller on cgroup v1".into()),
            },
            Self::Cpuset => controller(layout, "cpuset"),
            Self::TwoCpus => match std::thread::available_parallelism() {
                Ok(cpus) if cpus.get() >= 2 => Ok(()),
                _ => Err("there is only one CPU".into()),
            },
            Self::NumaNodes => numa_nodes(),
            Self::PidsCgroup => controller(layout, "pids"),
            Self::LowerOomScore => lower_own_oom_score(),
            Self::OwnMachine => match std::env::var_os(OWN_MACHINE) {
                Some(_) => Ok(()),
                None => Err("not a virtual machine of the tests: tests may not use up its memory".into()),
            },
            Self::FullSpeed => match std::env::var_os(OWN_MACHINE) {
                None => Ok(()),
                Some(_) => Err(
                    "an emulated machine: the test would take minutes here and does not depend on the kernel"
                        .into(),
                ),
            },
            Self::CpuCgroup => controller(layout, "cpuacct").or_else(|_| controller(layout, "cpu")),
            Self::UnifiedTree => {
                layout.unified().map(drop).ok_or_else(|| "no cgroup v2 tree is mounted".into())
            }
            Self::Btf => readable("/sys/kernel/btf/vmlinux"),
            Self::OomVictims => match nodewarden_machine::ebpf::names_oom_victims() {
                Ok(true) => Ok(()),
                Ok(false) => Err("the tracepoint oom:mark_victim gives no task (Linux 6.9)".into()),
                Err(error) => Err(error.to_string()),
            },
            Self::Loopback => loopback().map_err(|e| format!("127.0.0.1: {e}")),
            Self::DiskTemp => on_disk(temp),
            Self::Schedstat => {
                // The kernel accounts the time on the CPU when the task leaves it.
                std::thread::sleep(std::time::Duration::from_millis(1));
                let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
                let counts = text.split_whitespace().next().is_some_and(|run| run != "0");
                if counts { Ok(()) } else { Err("/proc/self/schedstat does not count".into()) }
            }
            Self::Systemd => systemd_answers(),
            Self::Cri => Containerd::probe(),
            Self::PrivateCri => Containerd::probe_private(),
            Self::ControlPlane => ClusterPrograms::find().map(drop).map_err(|error| error.to_string()),
            Self::Guests => GuestPlan::find().map(drop).map_err(|error| error.to_string()),
            Self::PodNetwork => Containerd::probe_network(),
            Self::Prometheus => tool("prometheus").map(drop).ok_or_else(|| "prometheus not found".into()),
            Self::Dpkg => overlay().and_then(|()| {
                let programs = ["/usr/bin/dpkg", "/usr/bin/deb-systemd-helper", "/usr/bin/systemctl"];
                match programs.into_iter().find(|program| !Path::new(program).exists()) {
                    Some(missing) => Err(format!("no {missing}")),
                    None => Ok(()),
                }
            }),
            Self::Rpm => overlay().and_then(|()| {
                if !Path::new("/usr/bin/systemctl").exists() {
                    return Err("no systemctl".into());
                }
                rpm_folder().map(drop).ok_or_else(|| "no rpm (`cargo xtask setup`)".into())
            }),
            Self::Promtool => tool("promtool").map(drop).ok_or_else(|| "promtool not found".into()),
            Self::Chromium => probe_chromium(),
            Self::Axe => axe().map(drop).ok_or_else(|| "no axe-core (`cargo xtask setup`)".into()),
            Self::PythonGrpc => PythonPlugin::probe(),
            Self::Golden => golden("metric-families.json").map(drop).ok_or_else(|| "no golden values".into()),
        }
    }
}

fn numa_nodes() -> Result<(), String> {
    let machine =
        nodewarden_topology::read(Path::new("/sys/devices/system")).map_err(|error| error.to_string())?;
    let cpus = machine.cpus.nodes().iter().filter(|node| node.cpus.len() >= 4).count();
    let memory = machine.nodes.iter().filter(|node| node.memory_bytes > 0).count();
    match cpus.min(memory) {
        0 | 1 => Err("there are not two NUMA nodes with memory and four CPUs on each".into()),
        _ => Ok(()),
    }
}

fn controller(layout: &Layout, name: &str) -> Result<(), String> {
    layout.controller(name).map(drop).ok_or_else(|| format!("no {name} controller"))
}

/// On v1 the root cgroup has `cpu.cfs_quota_us`. On v2 it does not, but `cpu.stat` counts periods only where
/// quotas are supported.
fn cpu_quota(layout: &Layout) -> Result<(), String> {
    let hierarchy = layout.controller("cpu").ok_or("no cpu controller")?;
    if !hierarchy.v2 {
        return readable(&hierarchy.mount.join("cpu.cfs_quota_us").display().to_string());
    }
    let path = hierarchy.mount.join("cpu.stat");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let counts = text.lines().any(|line| line.starts_with("nr_periods "));
    if counts { Ok(()) } else { Err(format!("{} has no nr_periods", path.display())) }
}

fn readable(path: &str) -> Result<(), String> {
    std::fs::File::open(path).map(drop).map_err(|e| format!("{path}: {e}"))
}

fn loopback() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    TcpStream::connect_timeout(&listener.local_addr()?, std::time::Duration::from_secs(1)).map(drop)
}

fn on_disk(path: &Path) -> Result<(), String> {
    let device = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    if Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists() {
        Ok(())
    } else {
        Err(format!("{} is not on a block device ({major}:{minor})", path.display()))
    }
}

/// Lowers this process's own `oom_score_adj` by one and sets it back.
///
/// # Errors
/// The reason why it cannot be lowered: without CAP_SYS_RESOURCE the value can only be raised
/// (fs/proc/base.c, `__set_oom_adj`).
pub fn lower_own_oom_score() -> Result<(), String> {
    const PATH: &str = "/proc/self/oom_score_adj";
    let text = std::fs::read_to_string(PATH).map_err(|e| format!("{PATH}: {e}"))?;
    let now: i32 = text.trim().parse().map_err(|_| format!("{PATH}: {text:?}"))?;
    if now <= -1000 {
        return Err(format!("{PATH} is {now}, which is the lowest value"));
    }
    std::fs::write(PATH, (now - 1).to_string()).map_err(|e| format!("write {} to {PATH}: {e}", now - 1))?;
    std::fs::write(PATH, now.to_string()).map_err(|e| format!("write {now} to {PATH}: {e}"))
}

/// Whether overlay file systems are known to the kernel.
fn overlay() -> Result<(), String> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.ends_with("\toverlay")) {
        Ok(())
    } else {
        Err("the kernel has no overlay file system".into())
    }
}

/// Where `cargo xtask setup` unpacked rpm. `None` if it did not.
pub fn rpm_folder() -> Option<PathBuf> {
    in_tools("rpm", "usr/bin/rpm")
}

/// The script of axe-core that `cargo xtask setup` unpacked. `None` if it did not.
pub fn axe() -> Option<PathBuf> {
    in_tools("axe-core", "axe.min.js").map(|folder| folder.join("axe.min.js"))
}

/// The folder of this name below `tools`, next to the build or below the working directory, if it has this
/// file.
pub fn in_tools(name: &str, file: &str) -> Option<PathBuf> {
    let tools = Path::new("tools").join(name);
    let next_to_build =
        std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.join(&tools)));
    let here = std::env::current_dir().ok().map(|folder| folder.join("target").join(&tools));
    [here, next_to_build].into_iter().flatten().find(|folder| folder.join(file).is_file())
}

/// Path of a program of Debian's prometheus package: the one that `cargo xtask setup` unpacked next to the
/// build, or the installed one. `None` if there is neither.
pub fn tool(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new("tools/prometheus/usr/bin").join(name);
    let next_to_build =
        std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.join(&unpacked)));
    let installed = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path).map(|directory| directory.join(name)).collect::<Vec<_>>()
    });
    [Some(Path::new("target").join(&unpacked)), next_to_build]
        .into_iter()
        .flatten()
        .chain(installed)
        .find(|path| path.is_file())
}

/// Environment variable with the directory of recorded kubelet values. `cargo xtask` and `nodewarden-guest`
/// set it.
pub const GOLDEN: &str = "NODEWARDEN_GOLDEN";

/// Path of a file of recorded kubelet values: in the directory that [`GOLDEN`] names, else in `shared/golden`
/// below the working directory or its parent. `None` if the file does not exist.
pub fn golden(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(GOLDEN).map(PathBuf::from);
    let usual = ["../shared/golden", "shared/golden"].map(PathBuf::from);
    named.into_iter().chain(usual).map(|folder| folder.join(name)).find(|path| path.is_file())
}
