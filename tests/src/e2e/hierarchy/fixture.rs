//! The fixture for tests in mode manage: a manifest directory, and a part of the cgroup tree for the agent.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use nodewarden_proto::nodewarden::v1::HierarchyStatus;
use serde_json::Value;

use crate::e2e::support::eventually;
use crate::fixture::{Agent, AgentOptions, Manage, TestRoot, slice_path};
use crate::harness::{Context, Failure};
use crate::{ensure, ensure_eq};

/// The driver that creates the cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    Cgroupfs,
    /// Only on a machine of the tests' own: its slices are at the top of the tree.
    Systemd,
}

/// What the agents that a test starts one after the other work on.
pub struct HierarchyFixture<'c> {
    context: &'c Context,
    options: AgentOptions,
    manifests: PathBuf,
    root: Option<TestRoot>,
    /// The root before [`HierarchyFixture::use_systemd`]; it is removed at the end.
    left: Option<TestRoot>,
}

impl<'c> HierarchyFixture<'c> {
    /// With an empty manifest directory; `kubelet` are further lines of the kubelet's configuration.
    pub fn new(
        context: &'c Context,
        driver: Driver,
        reconcile_seconds: u64,
        kubelet: &str,
    ) -> Result<Self, Failure> {
        let manifests = context.temp.join("manifests");
        std::fs::create_dir_all(&manifests).map_err(Failure::file(&manifests))?;
        let root = match driver {
            Driver::Cgroupfs => Some(TestRoot::new(context)?),
            Driver::Systemd => None,
        };
        let manage = Manage {
            manifests: manifests.clone(),
            root: root.as_ref().map_or("/", |r| r.group().path()).to_owned(),
            driver: match driver {
                Driver::Cgroupfs => "cgroupfs",
                Driver::Systemd => "systemd",
            },
            reconcile_seconds,
            kubelet: kubelet.to_owned(),
            section: String::new(),
        };
        let state = Some(context.temp.join("managed-state"));
        let options = AgentOptions { manage: Some(manage), state, ..AgentOptions::default() };
        Ok(Self { context, options, manifests, root, left: None })
    }

    /// Agents started from now on use this runtime.
    pub fn with_runtime(mut self, socket: &Path) -> Self {
        self.options.runtime = Some(socket.to_owned());
        self
    }

    /// Agents started from now on have these further arguments.
    pub fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.options.arguments = arguments.iter().map(|&one| one.to_owned()).collect();
        self
    }

    /// Agents started from now on have an HTTP of their own that other machines reach, if `remote`.
    pub fn with_remote_http(mut self, remote: bool) -> Self {
        self.options.remote_http = remote;
        self
    }

    /// Agents started from now on have these lines in nodewarden's own section of the configuration.
    pub fn with_section(mut self, lines: &str) -> Self {
        if let Some(manage) = &mut self.options.manage {
            manage.section = lines.to_owned();
        }
        self
    }

    /// Agents started from now on have these lines of the kubelet's configuration in place of the previous
    /// ones.
    pub fn set_kubelet(&mut self, lines: &str) {
        if let Some(manage) = &mut self.options.manage {
            manage.kubelet = lines.to_owned();
        }
    }

    /// Agents started from now on compare all cgroups every so many seconds.
    pub fn set_reconcile(&mut self, seconds: u64) {
        if let Some(manage) = &mut self.options.manage {
            manage.reconcile_seconds = seconds;
        }
    }

    /// Agents started from now on have their pods below a new cgroup in the root. Returns the root before.
    pub fn move_root(&mut self, below: &str) -> Result<String, Failure> {
        let Some(root) = &self.root else {
            return Err(Failure::Skip("with systemd the slices are at the top".into()));
        };
        let path = root.child(below)?.path().to_owned();
        let Some(manage) = &mut self.options.manage else { unreachable!("new sets it") };
        Ok(std::mem::replace(&mut manage.root, path))
    }

    /// Agents started from now on have their pods in systemd's slices at the top.
    pub fn use_systemd(&mut self) {
        if let Some(manage) = &mut self.options.manage {
            (manage.driver, manage.root) = ("systemd", "/".to_owned());
        }
        self.left = self.root.take();
    }

    pub fn options(&self) -> &AgentOptions {
        &self.options
    }

    /// Starts an agent, and waits until it is ready.
    pub fn start(&self) -> Result<Agent, Failure> {
        Ok(Agent::start(self.context, &self.options)?)
    }

    pub fn manifests(&self) -> &Path {
        &self.manifests
    }

    /// Writes or replaces a manifest, atomically.
    pub fn write(&self, name: &str, pod: &Value) -> Result<(), Failure> {
        self.write_text(name, &pod.to_string())
    }

    /// The same with any text.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), Failure> {
        let temporary = self.manifests.join(format!(".{name}"));
        std::fs::write(&temporary, text).map_err(Failure::file(&temporary))?;
        std::fs::rename(&temporary, self.manifest(name)).map_err(Failure::file(&temporary))
    }

    /// Removes a manifest.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        let path = self.manifest(name);
        std::fs::remove_file(&path).map_err(Failure::file(&path))
    }

    fn manifest(&self, name: &str) -> PathBuf {
        self.manifests.join(format!("{name}.json"))
    }

    /// The output of `nodewarden plan` for the manifests.
    pub fn plan(&self) -> Result<Value, Failure> {
        let config = self.context.temp.join("plan.yaml");
        let manage = self.options.manage.clone().unwrap_or_else(|| unreachable!("Managed sets it"));
        std::fs::write(
            &config,
            format!(
                "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: {}\n{}",
                manage.driver, manage.kubelet
            ),
        )
        .map_err(Failure::file(&config))?;
        let mut command = Command::new(&self.context.agent);
        command.args(["plan", "--output", "json", "--config"]).arg(&config).arg(&self.manifests);
        let output = command.output().map_err(Failure::file(&self.context.agent))?;
        ensure!(output.status.success(), "nodewarden plan: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).map_err(|e| Failure::Unexpected(format!("plan: {e}")))
    }

    /// The path of a level by its name in the recordings, such as `kubepods/burstable`.
    pub fn level(&self, name: &str) -> String {
        match &self.root {
            Some(root) => format!("{}/{name}", root.group().path()),
            None => slice_path(&format!("{}.slice", name.replace('/', "-"))),
        }
    }

    /// The path of a pod's cgroup, from its path below `/` in a kubelet's hierarchy.
    pub fn below_root(&self, path: &str) -> String {
        match &self.root {
            Some(root) => format!("{}{path}", root.group().path()),
            None => path.to_owned(),
        }
    }

    /// Waits until exactly `pods` pods exist, none is being removed and there is no problem. Returns the
    /// status.
    pub fn wait_settled(&self, agent: &Agent, pods: usize) -> Result<HierarchyStatus, Failure> {
        let mut last = HierarchyStatus::default();
        let settled = eventually(self.context.patiently(30), "the hierarchy does not settle", || {
            last = status(agent)?;
            // It cannot be lowered without CAP_SYS_RESOURCE.
            last.problems.retain(|p| !p.contains("oom_score_adj"));
            let healthy = last.pods.iter().all(|p| p.problem.is_empty()) && last.problems.is_empty();
            Ok((healthy && last.pods.len() == pods && last.removing.is_empty()).then(|| last.clone()))
        });
        settled.map_err(|failure| {
            let wrong: Vec<_> =
                last.pods.iter().chain(&last.removing).filter(|p| !p.problem.is_empty()).take(3).collect();
            Failure::Unexpected(format!(
                "{failure}: {} pods of {pods}, {} being removed, wrong: {wrong:?} {:?}",
                last.pods.len(),
                last.removing.len(),
                last.problems.iter().take(3).collect::<Vec<_>>()
            ))
        })
    }

    /// Waits for the end of a reconcile that starts after this call. Returns the status.
    pub fn wait_reconciled(&self, agent: &Agent) -> Result<HierarchyStatus, Failure> {
        let seen = |s: &HierarchyStatus| s.last_reconcile.map(|t| (t.seconds, t.nanos));
        let before = seen(&status(agent)?);
        // The first one to end may have started before this call.
        let mut ends = 0;
        let mut last = before;
        eventually(self.context.patiently(30), "no reconcile", || {
            let status = status(agent)?;
            if seen(&status) != last {
                last = seen(&status);
                ends += 1;
            }
            Ok((ends >= 2).then_some(status))
        })
    }
}

/// The hierarchy's part of the agent's status.
pub fn status(agent: &Agent) -> Result<HierarchyStatus, Failure> {
    let status = agent.client()?.status()?;
    ensure_eq!(status.mode, "manage", "mode");
    ensure!(status.hierarchy.is_some(), "the status has no hierarchy");
    Ok(status.hierarchy.unwrap_or_default())
}

/// The present time for a query of the journal, less a millisecond for differences between clocks.
pub fn just_before_now() -> SystemTime {
    SystemTime::now() - std::time::Duration::from_millis(1)
}

impl Drop for HierarchyFixture<'_> {
    /// Stops the slices at the top, however the test ends. Fails, without harm, if they are gone already.
    fn drop(&mut self) {
        if self.root.is_none() {
            let _ = Command::new("systemctl").args(["stop", "kubepods.slice"]).output();
        }
    }
}
