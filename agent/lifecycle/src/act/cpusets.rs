//! On which CPUs and NUMA nodes containers run, as the CPU manager and the memory manager have decided: set
//! when a container is created, and changed while it runs when the shared CPUs become fewer or more.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::Pod;
use nodewarden_proto::runtime::v1 as cri;
use nodewarden_resource_managers::CpusetUpdate;
use nodewarden_tasks::blocking;
use tracing::warn;

use crate::decide::observed::ContainerStage;
use crate::environment::Environment;
use crate::state::PodState;

/// How long a container waits until others have left its CPUs. The runtime needs milliseconds for each.
const CLEARED: Duration = Duration::from_secs(10);
/// How many containers are moved at a time.
const AT_ONCE: usize = 8;
/// Where the kernel shows CPUs and NUMA nodes.
const SYSTEM: &str = "/sys/devices/system";

/// Writes CPUs and NUMA nodes into a container's configuration (kubelet `PreCreateContainer`). Before a
/// container with CPUs of its own, others have left them. Returns the CPUs.
pub async fn place(state: &PodState, name: &str, config: &mut cri::ContainerConfig) -> Option<CpuSet> {
    let managers = &state.env.managers;
    if !managers.is_active() {
        return None;
    }
    let uid = state.pod().uid.clone();
    let placement = managers.placement(&uid, name);
    if placement.exclusive && !managers.cleared(&uid, name, CLEARED).await {
        let message = format!(
            "other containers are still on CPUs of container {name}: the runtime has not moved them in {CLEARED:?}"
        );
        state.env.record_event(&state.pod(), Some((name, "")), "CPUsNotCleared", message);
    }
    if let Some(resources) = config.linux.as_mut().and_then(|linux| linux.resources.as_mut()) {
        resources.cpuset_cpus = placement.cpus.as_ref().map(ToString::to_string).unwrap_or_default();
        resources.cpuset_mems = placement.memory_nodes.unwrap_or_default();
    }
    placement.cpus
}

/// Takes over which containers of the pod run.
pub fn saw(state: &PodState) {
    let inner = state.read();
    let here = |stage| matches!(stage, ContainerStage::Created | ContainerStage::Running);
    let newest = |name: &str| inner.observed.newest(name);
    let all = inner.observed.containers.iter().filter(|seen| here(seen.stage));
    let running = all.filter(|seen| newest(&seen.name).is_some_and(|newest| newest.id == seen.id));
    state.env.managers.saw(&inner.pod.uid, running.map(|seen| (seen.name.as_str(), seen.id.as_str())));
}

/// A pod of an earlier agent gets what it should have by the present policies, if it can. Its containers run
/// on in any case.
pub fn adopt(env: &Environment, pod: &Pod, found: &BTreeMap<String, CpuSet>) {
    let missing = env.managers.adopt(pod, found);
    if !missing.is_empty() {
        let message =
            format!("it runs on, and cannot have CPUs or memory for itself: {}", missing.join("; "));
        env.record_event(pod, None, "ResourcesNotExclusive", message);
    }
}

/// After the loss of the state file: the same with the CPUs that the runtime says each container is on.
pub async fn recover(state: &PodState) {
    let (pod, env) = (state.pod(), &state.env);
    if !env.managers.is_unreported(&pod.uid) {
        return;
    }
    let containers = env.client.list_pod(&pod.uid).await.map(|own| own.containers).unwrap_or_default();
    let mut found = BTreeMap::new();
    for container in containers.iter().filter(|own| own.state == cri::ContainerState::ContainerRunning as i32)
    {
        let Ok(status) = env.client.container_status(&container.id).await else { continue };
        let linux = status.resources.and_then(|resources| resources.linux);
        let cpus = linux.and_then(|linux| CpuSet::parse(&linux.cpuset_cpus).ok());
        if let Some((cpus, metadata)) = cpus.filter(|cpus| !cpus.is_empty()).zip(container.metadata.as_ref())
        {
            found.insert(metadata.name.clone(), cpus);
        }
    }
    adopt(env, &pod, &found);
}

/// Moves running containers to the CPUs that they should be on, whenever these change, and looks again every
/// `period` (`cpuManagerReconcilePeriod`), also at which CPUs are online.
pub async fn follow(env: Arc<Environment>, period: Duration) {
    let mut changes = env.managers.changes();
    let mut online = read_online().await;
    let mut reported = BTreeMap::new();
    loop {
        changes.mark_unchanged();
        let due = env.managers.due();
        futures_util::stream::iter(due)
            .map(|update| {
                let env = &env;
                async move { (env.client.update_resources(&update.id, only_cpus(&update.cpus)).await, update) }
            })
            .buffer_unordered(AT_ONCE)
            .for_each(|(result, update)| {
                match result {
                    Ok(()) => {
                        reported.remove(&update.id);
                        let CpusetUpdate { uid, container, id, cpus } = update;
                        env.managers.is_on(&uid, &container, &id, cpus);
                    }
                    Err(error) if error.is_not_found() => env.managers.ended(&update),
                    Err(error) => {
                        let message = error.to_string();
                        if reported.insert(update.id.clone(), message.clone()).as_ref() != Some(&message) {
                            let CpusetUpdate { uid, container, cpus, .. } = &update;
                            warn!(uid, container, "{message}: it is not moved to CPUs {cpus}; tried again");
                        }
                    }
                }
                std::future::ready(())
            })
            .await;
        // Changes by this round wait for the next one only if something is still due that could be moved.
        let again = tokio::time::timeout(period, changes.changed()).await;
        if matches!(again, Ok(Err(_))) {
            return;
        }
        if again.is_err() {
            let now = read_online().await;
            if now != online {
                online = now;
                read_machine(&env).await;
            }
        }
    }
}

/// Nothing but CPUs: the runtime changes no field that is not set.
fn only_cpus(cpus: &CpuSet) -> cri::LinuxContainerResources {
    cri::LinuxContainerResources { cpuset_cpus: cpus.to_string(), ..Default::default() }
}

/// The CPUs and NUMA nodes that are online, as the kernel writes them; `None` if they cannot be read.
async fn read_online() -> Option<(String, String)> {
    let read = || {
        let of = |file: &str| std::fs::read_to_string(Path::new(SYSTEM).join(file));
        Some((of("cpu/online").ok()?, of("node/online").unwrap_or_default()))
    };
    blocking::POD_FILES.run(read).await.ok().flatten()
}

async fn read_machine(env: &Environment) {
    match blocking::POD_FILES.run(|| nodewarden_topology::read(Path::new(SYSTEM))).await {
        Ok(Ok(machine)) => env.managers.set_machine(machine),
        Ok(Err(error)) => warn!("{error}: the CPUs of containers stay as they were"),
        Err(error) => warn!("{error}"),
    }
}
