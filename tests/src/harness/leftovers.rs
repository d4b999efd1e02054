//! Finds and removes what a test left behind: cgroups, directories, mounts, network links and processes with
//! our name prefix.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{NAME_PREFIX, command_line_contains};
use crate::fixture::{
    LINK_PREFIX, Layout, end_leftover_containerd, link_name, mount_points, remove_link, remove_tree,
};

/// How often to look for more.
const PASSES: u32 = 4;

/// Something that a test should have removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leftover {
    Cgroup(PathBuf),
    /// A network link, by name.
    Link(String),
    Directory(PathBuf),
    Mount(PathBuf),
    Process(u32, String),
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Self::Link(name) => write!(f, "network link {name}"),
            Self::Directory(path) => write!(f, "directory {}", path.display()),
            Self::Mount(path) => write!(f, "mount {}", path.display()),
            Self::Process(pid, line) => write!(f, "process {pid}: {line}"),
        }
    }
}

/// Looks for the leftovers of one runner's tests.
pub struct Sweep<'a> {
    layout: &'a Layout,
    /// Leftovers of runners that died before this one began. They do not fail this run.
    before: Vec<Leftover>,
    runner: u32,
}

impl<'a> Sweep<'a> {
    /// Records the leftovers that exist now.
    pub fn new(layout: &'a Layout, runner: u32) -> Self {
        let before = all(layout, NAME_PREFIX);
        Self { layout, before, runner }
    }

    /// Leftovers of this runner, and leftovers that appeared since [`Sweep::new`] and belong to no living
    /// process. Those of other living runners are not included.
    pub fn find(&self) -> Vec<Leftover> {
        let own = format!("{NAME_PREFIX}{}-", self.runner);
        let link = Leftover::Link(link_name(self.runner));
        all(self.layout, NAME_PREFIX)
            .into_iter()
            .filter(|found| {
                let text = found.to_string();
                text.contains(&own) || *found == link || (!self.before.contains(found) && !owner_lives(&text))
            })
            .collect()
    }

    /// Kills and removes everything of this runner. Returns what was found.
    pub fn clean(&self) -> Vec<Leftover> {
        let found = self.clean_once();
        // Until the agent was killed it went on: what it made meanwhile was not found.
        for _ in 1..PASSES {
            if self.clean_once().is_empty() {
                break;
            }
        }
        found
    }

    fn clean_once(&self) -> Vec<Leftover> {
        let prefix = format!("{NAME_PREFIX}{}-", self.runner);
        let mut found = all(self.layout, &prefix);
        found.retain(|found| !matches!(found, Leftover::Link(name) if *name != link_name(self.runner)));
        // The files that name a killed runtime's containers and sockets are still needed here.
        for leftover in &found {
            if let Leftover::Directory(path) = leftover {
                end_leftover_containerd(&path.join("containerd"));
            }
        }
        // `found` is sorted by kind, so the reverse order is processes, mounts, directories, links, cgroups.
        // Errors are ignored: something may be gone already, and what stays is reported by `find`.
        for leftover in found.iter().rev() {
            match leftover {
                Leftover::Process(pid, _) => drop(kill(Pid::from_raw(*pid as i32), Signal::SIGKILL)),
                Leftover::Mount(path) => drop(umount2(path, MntFlags::MNT_DETACH)),
                Leftover::Link(name) => drop(remove_link(name)),
                Leftover::Directory(path) => drop(std::fs::remove_dir_all(path)),
                Leftover::Cgroup(path) => drop(remove_tree(path, Instant::now() + Duration::from_secs(5))),
            }
        }
        found
    }
}

fn all(layout: &Layout, prefix: &str) -> Vec<Leftover> {
    let cgroups = layout
        .hierarchies()
        .iter()
        .flat_map(|hierarchy| named(&hierarchy.mount, prefix))
        .map(Leftover::Cgroup);
    let directories = named(&std::env::temp_dir(), prefix).map(Leftover::Directory);
    let mounts = mount_points().into_iter().filter(|path| path.to_string_lossy().contains(prefix));
    let mounts = mounts.map(Leftover::Mount);
    let links = named(Path::new("/sys/class/net"), LINK_PREFIX);
    let links = links.filter_map(|path| Some(Leftover::Link(path.file_name()?.to_str()?.to_owned())));
    let processes = command_line_contains(prefix).into_iter().map(|(pid, line)| Leftover::Process(pid, line));
    let mut found: Vec<_> = mounts.chain(processes).chain(directories).chain(links).chain(cgroups).collect();
    found.sort();
    found
}

fn named(directory: &Path, prefix: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let prefix = prefix.to_owned();
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(move |entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
}

/// Whether the process is alive whose pid follows the name prefix in `text`.
fn owner_lives(text: &str) -> bool {
    let prefix = if text.contains(NAME_PREFIX) { NAME_PREFIX } else { LINK_PREFIX };
    text.split(prefix)
        .nth(1)
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
        .and_then(|pid| pid.parse::<u32>().ok())
        .is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_the_pid_after_the_prefix() {
        assert!(owner_lives(&format!("cgroup /x/{NAME_PREFIX}{}-storm/c1", std::process::id())));
        assert!(!owner_lives("cgroup /x/nodewarden-test-4294967294-storm"));
        assert!(!owner_lives("cgroup /x/nodewarden-test-golden"));
        assert!(owner_lives(&Leftover::Link(link_name(std::process::id())).to_string()));
        assert!(!owner_lives(&Leftover::Link(link_name(4_294_967_294)).to_string()));
    }
}
