//! A hierarchy manager on this machine's kernel, below a root cgroup of its own.

use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

use super::desired::{DesiredCgroup, DesiredCgroups};
use super::machine::facts;
use super::manager::HierarchyManager;
use super::own_levels::OwnLevels;
use super::owned::{Entry, Owned};
use super::reconciler::{Reconciler, Setup};
use super::sweeper::InUse;
use nodewarden_config::NodeSettings;
use nodewarden_machine::cgroup::control::{Cgroupfs, Limits, Manager};
use nodewarden_machine::cgroup::fixture::TestTree;
use nodewarden_machine::node::daemons::Daemons;
use nodewarden_machine::node::gather::Sources;
use nodewarden_manifest::{Pod, manifest};
use nodewarden_model::Event;
use nodewarden_qos::Levels;
use nodewarden_storage::journal::Journal;

/// What a manager works with; removes the cgroups when dropped.
pub struct Fixture {
    pub tree: TestTree,
    pub state: tempfile::TempDir,
    pub journal: Journal,
    pub manager: Arc<Manager>,
    pub runtime: tokio::runtime::Runtime,
    /// Uids of pods that still have volumes.
    pub volumes: Arc<Mutex<BTreeSet<String>>>,
    /// Uids of pods of which the runtime has something; `None` without a runtime.
    pub in_use: Mutex<Option<BTreeSet<String>>>,
    /// Where the capacity is read.
    pub sources: Sources,
    /// Between two full reconciles.
    pub period: Duration,
    pub settings: NodeSettings,
    levels: Levels,
}

impl Fixture {
    /// `None` where cgroups cannot be created.
    pub fn make(name: &str) -> Option<Self> {
        let tree = TestTree::make(name)?;
        let state = tempfile::tempdir().unwrap();
        let journal =
            Journal::open(&state.path().join("journal"), nodewarden_storage::journal::Limits::default())
                .unwrap();
        let manager =
            Arc::new(Manager::new(Arc::new(Cgroupfs::new(tree.layout.clone())), tree.layout.clone()));
        let settings = NodeSettings { cgroup_root: tree.path(""), ..NodeSettings::default() };
        let levels = Levels::below(&settings.cgroup_root).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Some(Self {
            tree,
            state,
            journal,
            manager,
            runtime,
            volumes: Arc::default(),
            in_use: Mutex::default(),
            sources: Sources::default(),
            period: Duration::from_secs(600),
            settings,
            levels,
        })
    }

    /// A manager that compares all cgroups only after a failure and every [`Self::period`].
    pub fn start(&self, first: DesiredCgroups) -> HierarchyManager {
        let mut reconciler = self.reconciler();
        reconciler.begin(first);
        HierarchyManager::start(reconciler, self.period).unwrap()
    }

    pub fn reconciler(&self) -> Reconciler {
        let kubepods = self.manager.path(&self.levels.kubepods);
        let (mut own_levels, _) = OwnLevels::open(self.state.path());
        own_levels.record_missing(&self.manager, &self.levels).unwrap();
        self.manager.create(&kubepods, &Limits::default()).unwrap();
        let volumes = self.volumes.clone();
        let mut reconciler = Reconciler::new(Setup {
            settings: self.settings.clone(),
            facts: facts(&self.tree.layout, &kubepods),
            levels: self.levels.clone(),
            manager: self.manager.clone(),
            files: Arc::new(Cgroupfs::new(self.tree.layout.clone())),
            namer: Box::new(Arc::clone),
            daemons: Daemons { agent_score: 0, agent: None, runtime: None, system: None },
            reconcile: self.period,
            owned: Owned::open(self.state.path()).unwrap().0,
            own_levels,
            journal: self.journal.clone(),
            has_volumes: Box::new(move |uid| volumes.lock().contains(uid)),
            in_use: self.in_use.lock().clone().map(|used| -> InUse { Box::new(move || Some(used.clone())) }),
            sources: self.sources.clone(),
            capacity: watch::Sender::new(Arc::new(self.sources.capacity(Some(self.state.path())).unwrap())),
            driver_from: "configuration",
            state_dir: self.state.path().to_owned(),
        });
        reconciler.made(&kubepods);
        reconciler
    }

    /// Every event of the journal.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        self.runtime.block_on(async {
            let mut journal = self.journal.subscribe(Some(Timestamp::UNIX_EPOCH));
            let quiet = Duration::from_millis(200);
            while let Ok(Some(event)) = tokio::time::timeout(quiet, journal.next()).await {
                events.push((*event).clone());
            }
        });
        events
    }

    /// Agents started from now on take the cgroup for one that they have created for the pod.
    pub fn record(&self, path: &str, pod: &Pod) {
        let entry = Entry { uid: pod.uid.as_str().into(), origin: "/manifests/p.yaml".into() };
        Owned::open(self.state.path()).unwrap().0.add([(path.into(), entry)]).unwrap();
    }

    /// Agents started from now on have their pods below another root.
    pub fn move_root(&mut self, below: &str) {
        self.settings.cgroup_root = self.tree.group(below);
        self.levels = Levels::below(&self.settings.cgroup_root).unwrap();
    }

    /// Path of the pod's cgroup.
    pub fn path(&self, pod: &Pod) -> String {
        self.manager.path(&self.levels.pod(pod.qos, &pod.uid).unwrap())
    }

    pub fn level(&self, class: nodewarden_manifest::QosClass) -> String {
        self.manager.path(self.levels.of(class))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let kubepods = self.manager.path(&self.levels.kubepods);
        if let Err(error) = self.manager.destroy(&kubepods, Duration::from_secs(20)) {
            eprintln!("{kubepods} is left: {error}");
        }
    }
}

/// How long [`eventually`] waits.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Does it on another thread, as the runtime or an operator would: what the reconciler's own thread writes is
/// not reported to it.
pub fn elsewhere<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(act).join()).unwrap()
}

/// Waits until it is so; panics with `never <what>` if it is not within [`PATIENCE`].
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "never {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A Burstable pod that requests this much CPU.
pub fn pod(uid: &str, cpu: &str) -> Arc<Pod> {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: \"{uid}\", uid: \"{uid}\"}}\nspec: {{containers: [{{name: c, image: i, \
         resources: {{requests: {{cpu: {cpu}}}}}}}]}}"
    );
    Arc::new(manifest::parse(&text).remove(0).unwrap())
}

/// Desired cgroups for these pods, without problems.
pub fn keep<'a>(pods: impl IntoIterator<Item = &'a Arc<Pod>>) -> DesiredCgroups {
    let desired = |pod: &Arc<Pod>| DesiredCgroup {
        pod: pod.clone(),
        applied: pod.clone(),
        version: 0,
        origin: format!("/m/{}", pod.uid).into(),
    };
    DesiredCgroups { pods: pods.into_iter().map(desired).collect(), ..DesiredCgroups::default() }
}
