//! The cgroups of the kubelet (or the agent), of the container runtime and of other processes of the machine:
//! those that the configuration names, else those that the processes are in. Never a guess by the name of a
//! unit.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;
use nodewarden_model::SystemCgroups;

use super::daemons::find_runtime;
use crate::cgroup::{Controller, Layout, Membership, Version, parse_memberships};

/// Name of the kubelet's executable.
const KUBELET: &str = "kubelet";

/// Where to look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemCgroupSources {
    /// The agent does a kubelet's work: without `kubelet_cgroups` its own cgroup is shown as the kubelet's.
    pub manages: bool,
    /// `kubeletCgroups`.
    pub kubelet_cgroups: Option<String>,
    /// `nodewarden.runtimeCgroups`.
    pub runtime_cgroups: Option<String>,
    /// `systemCgroups`.
    pub system_cgroups: Option<String>,
    /// The container runtime's socket.
    pub runtime_socket: Option<PathBuf>,
}

impl SystemCgroupSources {
    /// Looks for the processes. Blocks, also while the runtime's socket is connected.
    pub fn find(&self, layout: &Layout) -> SystemCgroups {
        let of = |pids: Vec<Pid>| the_only(pids.into_iter().filter_map(|pid| cgroup_of(pid, layout)));
        let kubelet = || match self.manages {
            true => of(vec![Pid::this()]),
            false => {
                the_only(executing(Path::new("/proc"), KUBELET).into_iter()).and_then(|pid| of(vec![pid]))
            }
        };
        let runtime = || of(find_runtime(self.runtime_socket.as_deref()?).ok()?);
        SystemCgroups {
            kubelet: self.kubelet_cgroups.clone().or_else(kubelet),
            runtime: self.runtime_cgroups.clone().or_else(runtime),
            misc: self.system_cgroups.clone(),
        }
    }
}

/// The value, if there is one and no other.
fn the_only<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|other| other == first).then_some(first)
}

/// The processes whose executable has this name.
fn executing(proc: &Path, name: &str) -> Vec<Pid> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let runs = |pid: &i32| {
        let executable = fs::read_link(proc.join(format!("{pid}/exe"))).ok();
        executable.is_some_and(|path| path.file_name().is_some_and(|own| own == name))
    };
    pids.filter(runs).map(Pid::from_raw).collect()
}

fn cgroup_of(pid: Pid, layout: &Layout) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    path_of(&parse_memberships(&text), layout)
}

/// The path of a process's cgroup below the mount of the memory hierarchy, else of the CPU's, else of cgroup
/// v2. `None` if it is the root, which is no cgroup of its own, or is not seen from here.
fn path_of(memberships: &[Membership], layout: &Layout) -> Option<String> {
    let hierarchies =
        [layout.hierarchy(Controller::Memory), layout.hierarchy(Controller::Cpu), layout.unified()];
    let paths = hierarchies.into_iter().flatten().filter_map(|hierarchy| {
        let own = memberships.iter().find(|own| match hierarchy.version {
            Version::V1 => own.id == hierarchy.id && own.id != 0,
            Version::V2 => own.controllers.is_empty() && own.id == 0,
        })?;
        // What the kernel shows begins at the root of the hierarchy, the mount may begin further down.
        let below = match hierarchy.mount_root.as_str() {
            "/" => own.path.as_str(),
            root => own.path.strip_prefix(root)?,
        };
        let is_seen = below.starts_with('/') && !below.split('/').any(|part| part == "..");
        (is_seen && below != "/").then(|| below.to_owned())
    });
    paths.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{Facts, MountFact};

    fn layout(mounts: Vec<(Version, &str, &[&str])>, memberships: &str) -> Layout {
        let mount = |(version, root, controllers): (Version, &str, &[&str])| MountFact {
            root: root.to_owned(),
            mount_point: PathBuf::from(format!("/sys/fs/cgroup/{}", controllers.join(","))),
            version,
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            visible: true,
        };
        let mounts = mounts.into_iter().map(mount).collect();
        Layout::decide(&Facts { mounts, memberships: parse_memberships(memberships) }).unwrap()
    }

    #[test]
    fn the_path_is_that_of_the_memory_hierarchy() {
        let own = "4:memory:/\n3:cpu,cpuacct:/\n0::/\n";
        let v1 = layout(
            vec![
                (Version::V1, "/", &["memory"]),
                (Version::V1, "/", &["cpu", "cpuacct"]),
                (Version::V2, "/", &[]),
            ],
            own,
        );
        let v2 = layout(vec![(Version::V2, "/", &["memory", "cpu"])], "0::/\n");
        let part = layout(vec![(Version::V2, "/docker/x", &["memory", "cpu"])], "0::/docker/x\n");
        for (layout, text, expected) in [
            (&v2, "0::/system.slice/kubelet.service\n", Some("/system.slice/kubelet.service")),
            (&v2, "0::/\n", None),
            (&v2, "0::/../other\n", None),
            (&v2, "", None),
            (&v1, "4:memory:/a\n3:cpu,cpuacct:/b\n0::/c\n", Some("/a")),
            // Most daemons without a unit of their own for memory have one for the CPU.
            (&v1, "4:memory:/\n3:cpu,cpuacct:/b\n0::/c\n", Some("/b")),
            (&v1, "4:memory:/\n3:cpu,cpuacct:/\n0::/c\n", Some("/c")),
            (&part, "0::/docker/x/init\n", Some("/init")),
            (&part, "0::/docker/xy\n", None),
            (&part, "0::/system.slice\n", None),
        ] {
            assert_eq!(path_of(&parse_memberships(text), layout).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn one_process_of_the_name_counts_and_several_are_no_answer() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: u32, executable: &str| {
            let dir = proc.path().join(pid.to_string());
            fs::create_dir(&dir).unwrap();
            std::os::unix::fs::symlink(executable, dir.join("exe")).unwrap();
        };
        process(10, "/usr/bin/kubelet");
        process(11, "/usr/bin/kubelet-wrapper");
        process(12, "/usr/bin/bash");
        fs::create_dir(proc.path().join("self")).unwrap();
        assert_eq!(executing(proc.path(), KUBELET), [Pid::from_raw(10)]);
        assert_eq!(the_only([1].into_iter()), Some(1));
        assert_eq!(the_only([1, 1].into_iter()), Some(1), "processes of one cgroup");
        assert_eq!(the_only([1, 2].into_iter()), None);
        assert_eq!(the_only([0; 0].into_iter()), None);
    }

    #[test]
    fn what_is_configured_is_not_looked_for() {
        let Ok(layout) = Layout::detect() else {
            nodewarden_testing::skip("no cgroups");
            return;
        };
        let sources = SystemCgroupSources {
            manages: true,
            kubelet_cgroups: Some("/k".into()),
            runtime_cgroups: Some("/r".into()),
            system_cgroups: Some("/s".into()),
            runtime_socket: Some("/nonexistent/r.sock".into()),
        };
        let found = sources.find(&layout);
        let text = |path: &str| Some(path.to_owned());
        assert_eq!(found, SystemCgroups { kubelet: text("/k"), runtime: text("/r"), misc: text("/s") });
        // In mode manage the agent itself.
        let own = SystemCgroupSources { manages: true, ..SystemCgroupSources::default() }.find(&layout);
        assert_eq!(own.kubelet, cgroup_of(Pid::this(), &layout));
        assert_eq!((own.runtime, own.misc), (None, None));
    }
}
