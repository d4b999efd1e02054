//! A guest that is a node of a cluster: what it is given, what it reports, and how an end-to-end test starts
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Environment variable of the end-to-end tests: the file with the [`BootPlan`] of guests that they may
/// start.
pub const GUESTS: &str = "NODEWARDEN_GUESTS";
/// The serial number of the disk that holds a [`NodeJob`] as JSON, followed by line feeds up to its end.
pub const NODE_DISK: &str = "nodewarden-node";
/// A line to the second serial port: shut down as `systemctl poweroff` does.
pub const POWER_OFF: &str = "poweroff";
/// The host as a guest sees it, and the guest's own address with its prefix (QEMU's user network).
pub const HOST: &str = "10.0.2.2";
/// See [`HOST`].
pub const ADDRESS: &str = "10.0.2.15/24";
/// Where a node's pods may leave notes that outlive them: a directory on the root disk, and the file in it
/// that is reported.
pub const NOTES: [&str; 2] = ["/var/lib/nodewarden-notes", "notes"];

/// How to start a guest: arguments have the placeholders [`CONSOLE`], [`ROOT`] and [`NODE`] in place of
/// paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootPlan {
    /// QEMU.
    pub program: PathBuf,
    /// What is added to its environment.
    pub environment: BTreeMap<String, String>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The image of the root disk, to be copied for each guest.
    pub root: PathBuf,
    /// The factor on every time-out in a guest.
    pub patience: u32,
}

/// Stands for the file that the guest's console is written to.
pub const CONSOLE: &str = "@console@";
/// Stands for the guest's own copy of the root disk, which keeps what is written to it.
pub const ROOT: &str = "@root@";
/// Stands for the file with the guest's [`NodeJob`].
pub const NODE: &str = "@node@";

impl BootPlan {
    /// The arguments with these paths.
    pub fn arguments(&self, console: &str, root: &str, node: &str) -> Vec<String> {
        let place = |word: &String| word.replace(CONSOLE, console).replace(ROOT, root).replace(NODE, node);
        self.arguments.iter().map(place).collect()
    }
}

/// What a guest needs to be a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeJob {
    /// The host name, which the node is registered by.
    pub name: String,
    /// The text of the agent's kubeconfig.
    pub kubeconfig: String,
    /// The certificate of the authority of clients, PEM.
    pub authority: String,
    /// The text of the agent's configuration.
    pub config: String,
}

/// What there is on a node, by its runtime and its kernel. Pods are named by their uids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeState {
    /// The state of the agent's unit, such as `active`.
    pub agent: String,
    /// Of the pods that have a sandbox.
    pub sandboxes: BTreeSet<String>,
    /// Of the pods that have a container, running or not.
    pub containers: BTreeSet<String>,
    /// Of the pods that have a cgroup.
    pub cgroups: BTreeSet<String>,
    /// Of the pods that have a directory for volumes.
    pub volumes: BTreeSet<String>,
    /// Of the pods that have a mounted volume.
    pub mounts: BTreeSet<String>,
    /// A line for each of logind's inhibitors: who, what and mode.
    pub inhibitors: Vec<String>,
    /// logind's `InhibitDelayMaxUSec`.
    pub delay_micros: Option<u64>,
    /// Lines of the file [`NOTES`].
    pub notes: Vec<String>,
}

impl NodeState {
    /// The pods of which anything is left, with what.
    pub fn pods(&self) -> BTreeMap<&str, Vec<&'static str>> {
        let mut found = BTreeMap::<&str, Vec<&'static str>>::new();
        for (what, uids) in [
            ("sandbox", &self.sandboxes),
            ("container", &self.containers),
            ("cgroup", &self.cgroups),
            ("volume directory", &self.volumes),
            ("mount", &self.mounts),
        ] {
            for uid in uids {
                found.entry(uid).or_default().push(what);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_paths() {
        let plan = BootPlan {
            program: "/q".into(),
            environment: BTreeMap::new(),
            arguments: vec![
                "-chardev".into(),
                format!("file,path={CONSOLE}"),
                format!("file={ROOT},id=x"),
                NODE.into(),
            ],
            root: "/r".into(),
            patience: 5,
        };
        assert_eq!(plan.arguments("/c", "/r", "/n"), ["-chardev", "file,path=/c", "file=/r,id=x", "/n"]);
    }

    #[test]
    fn what_is_left_of_a_pod_is_listed() {
        let uids = |uids: &[&str]| uids.iter().map(|&uid| uid.to_owned()).collect::<BTreeSet<_>>();
        let state = NodeState { sandboxes: uids(&["a"]), mounts: uids(&["a", "b"]), ..NodeState::default() };
        assert_eq!(state.pods(), BTreeMap::from([("a", vec!["sandbox", "mount"]), ("b", vec!["mount"])]));
    }
}
