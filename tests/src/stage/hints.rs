//! The hints that are printed at the start of an interactive run.

use std::path::Path;

use super::settings::Settings;

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
        let socket = match self.settings.socket.to_str() {
            Some(SOCKET) => String::new(),
            _ => format!(" --socket {}", self.settings.socket.display()),
        };
        let network = match no_network {
            None => "a bridge of its own, without access to other networks".to_owned(),
            Some(reason) => format!("the machine's ({reason})"),
        };
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
}
