//! The hints that are printed at the start of an interactive run.

use std::path::Path;

use super::settings::Settings;
use crate::fixture::{BUSYBOX_IMAGE, Cluster};

/// The socket that the command line uses without `--socket`.
const SOCKET: &str = "/run/nodewarden/nodewarden.sock";

/// What the hints mention.
pub struct Hints<'a> {
    /// How to write the command `nodewarden`.
    pub program: &'a str,
    pub configuration: &'a Path,
    pub settings: &'a Settings,
}

impl Hints<'_> {
    /// The text to print. `no_network` says why pods share the machine's network, if they do.
    pub fn text(&self, no_network: Option<&str>) -> String {
        let Settings { manifests, logs, http, cgroup_root, .. } = self.settings;
        let socket = self.socket();
        let network = network(no_network);
        let (program, manifests) = (self.program, manifests.display());
        let line = |command: &str, what: &str| format!("  {:<52}  {what}\n", format!("{program} {command}"));
        let with = |command: &str| match command.split_once(" -- ") {
            Some((before, after)) => format!("{before}{socket} -- {after}"),
            None => format!("{command}{socket}"),
        };
        let commands: String = [
            ("pods", "what runs, and what it uses"),
            ("pods describe burstable", "one pod, container by container"),
            ("logs guaranteed", "what it logs"),
            ("exec burstable -- sh -c 'tail /dev/zero'", "runs out of memory in a child of process 1:"),
            ("pods describe burstable", "… and shows which process was killed"),
            ("events", "what happens, as it happens"),
            ("top", "usage of each pod, live"),
            (&format!("tree {cgroup_root}"), "the cgroups with limits and use"),
        ]
        .iter()
        .map(|(command, what)| line(&with(command), what))
        .collect();
        format!(
            "
nodewarden runs the pods of a directory on a containerd of its own. Ctrl-C ends it and all it runs.

  manifests       {manifests}
  configuration   {configuration}
  pods' logs      {logs}
  cgroups         {cgroup_root}
  network         {network}
  HTTP            http://{http}/pods  /metrics  /metrics/cadvisor  /healthz

In a second terminal:

{commands}
Change the manifests and look again:

  sed -i 's/cpu: 250m/cpu: 500m/' {manifests}/guaranteed.yaml      resized in place: no restart
  sed -i 's/every=2/every=1/' {manifests}/burstable.yaml           any other change replaces the pod
  rm {manifests}/besteffort.yaml                                   its pod ends

",
            configuration = self.configuration.display(),
            logs = logs.display(),
        )
    }

    /// The text for an agent that is a node of a cluster.
    pub fn in_cluster(&self, cluster: &Cluster, no_network: Option<&str>) -> String {
        let kubectl = cluster.kubectl().line();
        let (node, program, socket) = (super::run::NODE_NAME, self.program, self.socket());
        let host = match no_network {
            None => "",
            Some(_) => " --overrides='{\"spec\":{\"hostNetwork\":true}}'",
        };
        format!(
            "
nodewarden is the node `{node}` of a Kubernetes 1.20.2 of its own. Ctrl-C ends all of it.

  API server      {server}
  configuration   {configuration}
  network         {network}

In a second terminal:

  alias k='{kubectl}'
  k get nodes -o wide
  k run one --image={BUSYBOX_IMAGE}{host} -- sh -c 'while date; do sleep 2; done'
  k get pods -o wide -w
  k logs -f one
  k exec -it one -- sh
  k create deployment web --image={BUSYBOX_IMAGE} -- sleep 1000000
  k scale deployment web --replicas=3
  k describe node {node}
  k drain {node} --ignore-daemonsets --force
  {program} pods{socket}

",
            server = cluster.server(),
            configuration = self.configuration.display(),
            network = network(no_network),
        )
    }

    /// The flag of the command line, if the socket is not the usual one.
    fn socket(&self) -> String {
        match self.settings.socket.to_str() {
            Some(SOCKET) => String::new(),
            _ => format!(" --socket {}", self.settings.socket.display()),
        }
    }
}

fn network(no_network: Option<&str>) -> String {
    match no_network {
        None => "a bridge of its own, without access to other networks".to_owned(),
        Some(reason) => format!("the machine's ({reason})"),
    }
}
