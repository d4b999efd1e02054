//! Starts the lifecycle: first the pods of an earlier agent, then those that the sources want.

mod addresses;
mod admission;
mod directory;
mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::warn;

use crate::act::housekeeping::Housekeeping;
use crate::act::{cpusets, devices};
use crate::decide::identity;
use crate::environment::{Environment, Places, ownership};
use crate::faults::Faults;
use crate::manager::{FIRST_LOOK, Input, Manager};
use crate::pulls::Pulls;
use crate::pulls::verified::Verifier;
use crate::record::Record;
use crate::record::manifest::Manifest;
use crate::record::store::{Store, StoreError};
use crate::set_aside::SetAside;
use crate::stop_signals::StopSignals;
use nodewarden_admission::{Admission, Explain};
use nodewarden_config::{Config, Endpoint, PodSettings};
use nodewarden_cri::{Client, SharedList};
use nodewarden_devices::{Devices, Guards};
use nodewarden_eviction::Eviction;
use nodewarden_eviction::Pressure;
use nodewarden_gc::Holds;
use nodewarden_hierarchy::{DesiredCgroup, DesiredCgroups, HierarchyHandle, node_name};
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::cgroup::control::GroupFiles;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::{Pod, PodKind};
use nodewarden_model::Origin;
use nodewarden_pods::objects::Objects;
use nodewarden_pods::probes::Probes;
use nodewarden_pods::registry::Providers;
use nodewarden_pods::source::{Desired, PodOrigins};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_qos::HierarchyFacts;
use nodewarden_resource_managers::ResourceManagers;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::faults::on_panic;
use nodewarden_tasks::{blocking, parts};

/// Pods that start at a time, for each CPU; more make the runtime slower, not the pods faster.
const STARTS: usize = 2;
/// At least so many.
const LEAST_STARTS: usize = 4;
/// One more than these: as a rule the agent works for one of the pods, and the runtime does not.
const PREPARED: usize = 1;
/// Calls that end something of a pod at a time, for each CPU.
const ENDS: usize = 8;

/// Records of an earlier agent, and what the manifests say.
#[derive(Debug)]
pub struct Recovered {
    records: Vec<(Record, Arc<Pod>)>,
    store: Arc<Store>,
    desired: Desired,
}

/// Reads what an earlier agent left. Also returns what of it is damaged, as messages for people.
///
/// # Errors
/// The directory of the records cannot be created or listed.
pub fn find(config: &Config) -> Result<(Recovered, Vec<String>), StoreError> {
    let (store, records, damaged) = Store::open(&config.records_dir())?;
    let mut problems: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    let mut read = Vec::new();
    for mut record in records {
        match record.manifest.pod(kind(&record.origin)) {
            Ok(pod) => {
                let pod = Arc::new(pod);
                record.manifest = Manifest::of(&pod);
                problems.extend(directory::bring(config, &pod.uid).err().map(|error| error.to_string()));
                read.push((record, pod));
            }
            Err(reasons) => {
                let name = record.manifest.name();
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                problems.push(format!("the record of pod {name} is no pod any more: {}", reasons.join("; ")));
            }
        }
    }
    Ok((Recovered { records: read, store: Arc::new(store), desired: Desired::default() }, problems))
}

/// The rules by which a pod of this origin is validated.
fn kind(origin: &Origin) -> PodKind {
    if origin.is_api() { PodKind::Api } else { PodKind::Static }
}

impl Recovered {
    /// Uids of the pods that an earlier agent ran and that may still run.
    pub fn uids(&self) -> BTreeSet<String> {
        let here = self.records.iter().filter(|(record, _)| record.admitted && !record.is_evicted());
        here.map(|(_, pod)| pod.uid.clone()).collect()
    }

    /// The origins of the pods that run.
    pub fn origins(&self) -> PodOrigins {
        let mut origins = PodOrigins::default();
        for (record, pod) in &self.records {
            origins.set(&pod.namespace, &pod.name, record.origin.clone());
        }
        origins
    }

    /// With what the sources want.
    #[must_use]
    pub fn with(mut self, desired: Desired) -> Self {
        share(&mut self.records, &desired);
        Self { desired, ..self }
    }

    /// Every pod that has a cgroup or gets one.
    pub fn keep(&self) -> DesiredCgroups {
        let kept = |pod: &Arc<Pod>, origin: &Origin| DesiredCgroup {
            pod: pod.clone(),
            applied: pod.clone(),
            version: 0,
            origin: origin.clone(),
        };
        let running = self.records.iter().map(|(record, pod)| {
            let ending = record.ending.is_some();
            (pod.uid.clone(), identity::Running { pod: pod.clone(), origin: record.origin.clone(), ending })
        });
        let starting = identity::assign(&self.desired, &running.collect(), &BTreeSet::new()).start;
        DesiredCgroups {
            pods: self
                .records
                .iter()
                .filter(|(record, _)| !record.is_evicted())
                .map(|(record, pod)| kept(pod, &record.origin))
                .chain(starting.iter().map(|sourced| kept(&sourced.pod, &sourced.origin)))
                .collect(),
            problems: self.desired.problems.iter().map(ToString::to_string).collect(),
            unread: self.desired.unread.clone(),
        }
    }
}

/// Lets records and sources share the pods that are the same in both, so that each is in memory once.
fn share(records: &mut [(Record, Arc<Pod>)], desired: &Desired) {
    let wanted: BTreeMap<&str, &Arc<Pod>> =
        desired.pods.iter().map(|sourced| (sourced.pod.uid.as_str(), &sourced.pod)).collect();
    for (record, pod) in records {
        if let Some(same) = wanted.get(pod.uid.as_str()).filter(|wanted| **wanted == pod) {
            *pod = Arc::clone(same);
            record.manifest = Manifest::of(pod);
        }
    }
}

/// What the lifecycle needs of other parts of the agent.
#[derive(Debug)]
pub struct Deps {
    /// Lists of the runtime that other parts read too.
    pub list: SharedList,
    /// What limits the hierarchy has on this machine.
    pub facts: HierarchyFacts,
    /// The capacity of the node, with every change of it.
    pub capacity: watch::Receiver<Arc<Capacity>>,
    /// Where cgroups are mounted.
    pub layout: Layout,
    /// Receives the events of pods.
    pub journal: Journal,
    /// The cgroups of pods.
    pub places: Places,
    /// Receives which pods have a cgroup.
    pub sink: HierarchyHandle,
    /// Where the pods' status is published.
    pub status: PodStatusCache,
    /// The device manager.
    pub devices: Devices,
    /// The managers of CPUs, memory and topology.
    pub managers: ResourceManagers,
    /// Restricts pods to their devices; `None` where nothing is enforced.
    pub guards: Option<Guards>,
    /// Runs probes.
    pub probes: Probes,
    /// Shared with the garbage collector of images.
    pub holds: Holds,
    /// Conditions of the node that are true now.
    pub pressure: watch::Receiver<Pressure>,
    /// Objects of the API server that pods name, and the uids of the pods of which one has changed; `None`
    /// without an API server.
    pub objects: Option<(Arc<dyn Objects>, mpsc::UnboundedReceiver<String>)>,
    /// Plugins that have credentials for images.
    pub credential_providers: Option<Providers>,
    /// Pods by uid whose devices have turned healthy or unhealthy.
    pub health: mpsc::UnboundedReceiver<String>,
    /// Takes what admission decides.
    pub explain: Explain,
    /// The kernel reports every process that ends.
    pub ends_reported: bool,
    /// The kernel reports every cgroup that is removed.
    pub removals_reported: bool,
}

/// Sends orders to the lifecycle. Its tasks end with the tokio runtime that they run in. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Lifecycle(mpsc::UnboundedSender<Input>, Admission, SetAside);

impl Lifecycle {
    /// Takes over what the sources want from now on.
    pub fn desire(&self, desired: Desired) {
        // The receiver is gone when the agent ends.
        let _ = self.0.send(Input::Desired(desired));
    }

    /// The admission of pods: which hold resources of the node, and which wait for them.
    pub fn admission(&self) -> &Admission {
        &self.1
    }

    /// Directories of ended pods that cannot be removed.
    pub fn set_aside(&self) -> &SetAside {
        &self.2
    }

    /// Evicts or preempts the pod with this uid; one that is not there is ignored. One that is being ended
    /// already only gets less time.
    pub fn evict(&self, uid: &str, eviction: Eviction) {
        let _ = self.0.send(Input::Evict { uid: uid.to_owned(), eviction });
    }
}

/// Pods of an earlier agent that the runtime has not been asked about yet.
#[derive(Debug)]
pub struct Adoption {
    unseen: mpsc::Receiver<Infallible>,
    is_over: Arc<AtomicBool>,
}

impl Adoption {
    /// Waits until the runtime was asked about each of them or did not answer, at most for `longest`.
    pub async fn done(mut self, longest: Duration) {
        // Nothing is ever sent: it ends when every worker has dropped its sender.
        let _ = tokio::time::timeout(longest, self.unseen.recv()).await;
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether [`Adoption::done`] has returned.
    pub fn is_over(&self) -> Arc<AtomicBool> {
        self.is_over.clone()
    }
}

/// The records of pulls; what is wrong with them goes to the log.
fn verifier(config: &Config) -> Verifier {
    let (verifier, problem) = Verifier::open(&config.state_dir, config.pods.image_verification.clone());
    if let Some(problem) = problem.filter(|_| verifier.is_on()) {
        warn!("{problem}: credentials are verified for every image");
    }
    verifier
}

/// Forgets with which credentials images were pulled that the runtime no longer has.
async fn forget_removed_images(env: &Environment) {
    if !env.verifier.is_on() {
        return;
    }
    let Ok(images) = env.client.list_images().await else { return };
    let (verifier, on_node) = (env.verifier.clone(), images.into_iter().map(|image| image.id).collect());
    if let Ok(Err(error)) = blocking::STATE_FILES.run(move || verifier.keep(&on_node)).await {
        warn!("pulls of removed images are not forgotten: {error}");
    }
}

/// Starts the workers. Must be called inside a tokio runtime.
pub fn start(config: &Config, endpoint: &Endpoint, found: Recovered, needs: Deps) -> (Lifecycle, Adoption) {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let (inputs, incoming) = mpsc::unbounded_channel();
    let admission = admission::start(config, &needs, &inputs);
    // Read here, before the first worker makes a container's configuration.
    nodewarden_pods::spec::masked_paths();
    let (objects, changes) = needs.objects.unzip();
    let set_aside = SetAside::open(&config.pods_dir(), &needs.journal);
    let faults = Arc::new(Faults::open(&config.faults_dir(), Timestamp::now()));
    if cfg!(panic = "abort") {
        let faults = faults.clone();
        // If it cannot be written, the next agent does not know of it.
        on_panic(move |uid, text| drop(faults.record(uid, text, Timestamp::now())));
    }
    let env = Arc::new(Environment {
        client: Client::new(endpoint)
            .with_image_service(config.image_endpoint.as_ref())
            .with_request_limit(config.pods.runtime_request_timeout),
        list: needs.list,
        settings: config.node.clone(),
        pods: PodSettings {
            dead_kept: config.gc.max_per_pod_container,
            dead_min_age: config.gc.min_container_age,
            ..config.pods.clone()
        },
        eviction: config.eviction.clone(),
        facts: needs.facts,
        capacity: needs.capacity,
        cgroups: Arc::new(GroupFiles::new(Arc::new(needs.layout))),
        node_name: node_name(config),
        addresses: addresses::follow(inputs.downgrade()),
        ownership: ownership(config),
        store: found.store,
        faults,
        pods_dir: config.pods_dir(),
        set_aside: set_aside.clone(),
        seccomp_root: config.seccomp_dir(),
        recursive_read_only: AtomicBool::new(false),
        admission: admission.clone(),
        devices: needs.devices,
        managers: needs.managers,
        guards: needs.guards,
        probes: needs.probes,
        journal: needs.journal,
        objects,
        credential_providers: needs.credential_providers,
        status: needs.status,
        places: needs.places,
        holds: needs.holds,
        pressure: needs.pressure,
        pulls: Pulls::new(config.pods.parallel_image_pulls, config.pods.pull_rate),
        verifier: Arc::new(verifier(config)),
        stop_signals: StopSignals::default(),
        starts: Arc::new(Semaphore::new((cpus * STARTS).max(LEAST_STARTS) + PREPARED)),
        ends: Semaphore::new(cpus * ENDS),
        ends_reported: needs.ends_reported,
        removals_reported: needs.removals_reported,
    });
    let hear = inputs.downgrade();
    let part = |name| parts::register(name, TASK_LIMIT);
    tokio::spawn(part("runtime events").task(events::listen(env.client.clone(), hear.clone())));
    tokio::spawn(part("device health").task(follow_device_health(env.clone(), needs.health, hear)));
    let period = config.node.managers.cpu_reconcile;
    if env.managers.is_active() {
        tokio::spawn(part("cpusets").task(cpusets::follow(env.clone(), period)));
    }
    if let Some(changes) = changes {
        tokio::spawn(part("changed objects").task(follow_objects(changes, inputs.downgrade())));
    }
    for (_, pod) in &found.records {
        env.devices.claim(&pod.uid);
        env.managers.claim(&pod.uid);
    }
    for sourced in &*found.desired.pods {
        env.devices.claim(&sourced.pod.uid);
        env.managers.claim(&sourced.pod.uid);
    }
    tokio::spawn(part("volumes set aside").task(set_aside.clone().run()));
    let (unseen, adoption) = mpsc::channel(1);
    tokio::spawn(part("pods").task(async move {
        // Before the first pull.
        let _ = tokio::time::timeout(FIRST_LOOK, forget_removed_images(&env)).await;
        let mut housekeeping = Housekeeping::default();
        // With an answer, new pods need not be asked for one by one. Without one, they are.
        let _ = tokio::time::timeout(FIRST_LOOK, housekeeping.first(&env)).await;
        let mut manager = Manager::new(env, needs.sink, housekeeping);
        manager.adopt(found.records, unseen);
        manager.desire(found.desired);
        manager.run(incoming).await;
    }));
    (Lifecycle(inputs, admission, set_aside), Adoption { unseen: adoption, is_over: Arc::default() })
}

/// How long a task may work without giving its thread back.
const TASK_LIMIT: Duration = Duration::from_secs(60);

/// Closes devices that have turned unhealthy to their pods and opens healthy ones again, and has the pods'
/// status updated.
async fn follow_device_health(
    env: Arc<Environment>,
    mut health: mpsc::UnboundedReceiver<String>,
    inputs: mpsc::WeakUnboundedSender<Input>,
) {
    while let Some(uid) = health.recv().await {
        if let Err(error) = devices::health_changed(&env, &uid).await {
            warn!(uid, "{error}: its devices stay as they were");
        }
        let Some(inputs) = inputs.upgrade() else { return };
        let _ = inputs.send(Input::Runtime { uid });
    }
}

/// Has the volumes of pods written again of which an object has changed.
async fn follow_objects(
    mut changes: mpsc::UnboundedReceiver<String>,
    inputs: mpsc::WeakUnboundedSender<Input>,
) {
    while let Some(uid) = changes.recv().await {
        let Some(inputs) = inputs.upgrade() else { return };
        let _ = inputs.send(Input::Object { uid });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{pod, record};
    use nodewarden_pods::source::SourcedPod;

    #[test]
    fn a_record_shares_the_pod_of_its_source_if_they_are_the_same() {
        let spec = |image: &str| json!({"containers": [{"name": "c", "image": image}]});
        for (wanted, shared) in [("i", true), ("j", false)] {
            let runs = pod(spec("i"));
            let mut records = vec![(record(&runs), runs.clone())];
            let before = records.clone();
            let wanted = pod(spec(wanted));
            let sourced = SourcedPod::new(wanted.clone(), "/manifests/p.yaml");
            share(&mut records, &Desired { pods: [sourced].into(), ..Desired::default() });
            assert_eq!(records, before);
            assert_eq!(Arc::ptr_eq(&records[0].1, &wanted), shared);
        }
    }
}
