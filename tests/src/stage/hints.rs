//! What a person can try.

use std::path::Path;

use super::settings::Settings;

/// Where the command line looks without `--socket`.
const SOCKET: &str = "/run/nodewarden/nodewarden.sock";

/// What the hints are made of.
pub struct Words<'a> {
    /// How the command is written.
    pub program: &'a str,
    pub configuration: &'a Path,
    pub settings: &'a Settings,
}

impl Words<'_> {
    /// The hints; `no_network` says why pods are on the machine's own.
    pub fn to_try(&self, no_network: Option<&str>) -> String {
        let Settings { manifests, logs, http, cgroup_root, .. } = self.settings;
        let socket = match self.settings.socket.to_str() {
            Some(SOCKET) => String::new(),
            _ => format!(" --socket {}", self.settings.socket.display()),
        };
        let network = match no_network {
            None => "a bridge of its own, without a way out".to_owned(),
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
            ("logs guaranteed", "what it says"),
            ("exec burstable -- sh -c 'tail /dev/zero'", "runs out of memory in a child of process 1:"),
            ("pods describe burstable", "… and shows who was killed"),
            ("events", "what happens, as it happens"),
            ("top", "who uses what, live"),
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
