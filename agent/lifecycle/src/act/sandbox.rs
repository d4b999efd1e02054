//! Making a pod's sandbox: after its cgroup and its volumes.

use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_proto::runtime::v1 as cri;

use super::counters;
use super::counters::ContainerType;
use super::{devices, look, objects};
use crate::decide::observed::SandboxSeen;
use crate::set_aside::StillRemoved;
use crate::state::PodState;
use nodewarden_cri::RuntimeError;
use nodewarden_devices::EnforceError;
use nodewarden_model::PodReason;
use nodewarden_pods::objects::ObjectError;
use nodewarden_pods::spec;
use nodewarden_pods::spec::SpecError;
use nodewarden_pods::spec::dns::ResolvError;
use nodewarden_pods::volume;
use nodewarden_pods::volume::VolumeError;
use nodewarden_tasks::blocking;

/// How long to wait for a pod's cgroup before that is an error.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait for the removal of an earlier pod's directory before that is an error, after which it is
/// tried again.
const REMOVAL: Duration = Duration::from_secs(10);

/// A file system that takes longer lets another pod start.
const SLOW: Duration = Duration::from_millis(250);

/// Why a pod has no sandbox. [`Self::reason`] is the kubelet's reason.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("the pod's cgroup does not exist after {} s", PATIENCE.as_secs())]
    NoCgroup,
    #[error("the pod's cgroup: {problem}")]
    Cgroup { problem: String },
    #[error("the pod's processes in {former}, its cgroup with other settings, have not ended")]
    Former { former: String },
    #[error(transparent)]
    StillRemoved(#[from] StillRemoved),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Guard(#[from] EnforceError),
    #[error("Failed to create pod sandbox: {0}")]
    Resolver(#[from] ResolvError),
    #[error("Failed to create pod sandbox: {0}")]
    Runtime(#[from] RuntimeError),
    /// The pod is to end.
    #[error("no longer wanted")]
    Interrupted,
}

impl SandboxError {
    /// The reason of the event and of the pod. `Interrupted` is not shown: the pod ends.
    pub fn reason(&self) -> PodReason {
        match self {
            Self::NoCgroup | Self::Cgroup { .. } | Self::Former { .. } | Self::Guard(_) => {
                PodReason::FailedToCreatePodContainer
            }
            Self::Volume(_) | Self::StillRemoved(_) => PodReason::FailedMount,
            Self::Spec(_) | Self::Object(_) | Self::Resolver(_) | Self::Runtime(_) | Self::Interrupted => {
                PodReason::FailedCreatePodSandBox
            }
        }
    }
}

/// Makes the sandbox and notes it as seen.
///
/// # Errors
/// See [`SandboxError`]; whatever was made is found again by the next look.
pub async fn create(state: &PodState, attempt: u32) -> Result<(), SandboxError> {
    let pod = state.pod();
    let env = &state.env;
    let parent = state.unless_ending(cgroup_parent(state));
    let (parent, files) = tokio::join!(parent, files(state));
    files?;
    let parent = parent.ok_or(SandboxError::Interrupted)??;
    slowly(state, devices::guard(state)).await?;
    let now = env.node_with_resolver().await?;
    let config = spec::sandbox_config(&pod, attempt, &parent, &env.host(&now))?;
    for (reason, message) in spec::warnings(&pod, &env.host(&now)) {
        env.record_event(&pod, None, &reason, message);
    }
    let handler = slowly(state, objects::runtime_handler(state)).await?;
    counters::container_started(ContainerType::Sandbox);
    let id = env.client.run_sandbox_with(config, &handler).await.inspect_err(|_| {
        counters::container_failed(ContainerType::Sandbox, "RunPodSandboxError");
        counters::pod_failed();
    })?;
    if attempt == 0 {
        counters::pod_started();
    }
    let host_network = pod.host_network;
    let ips = if host_network { Vec::new() } else { look::ips(&env.client.sandbox_status(&id).await?) };
    let seen = SandboxSeen { id: id.into(), attempt, ready: true, created: Timestamp::now(), ips };
    state.note(|inner| {
        inner.observed.sandboxes.insert(0, seen);
    });
    Ok(())
}

/// The configuration of the sandbox, which every container of it is made with; the same as when it was made,
/// since the pod is.
///
/// # Errors
/// The pod's cgroup is gone, the node's resolver configuration cannot be read, or the manifest cannot be
/// translated for the runtime.
pub async fn config(state: &PodState, attempt: u32) -> Result<cri::PodSandboxConfig, SandboxError> {
    let parent = cgroup_parent(state).await?;
    let now = state.env.node_with_resolver().await?;
    Ok(spec::sandbox_config(&state.pod(), attempt, &parent, &state.env.host(&now))?)
}

/// The pod's directories and volumes.
async fn files(state: &PodState) -> Result<(), SandboxError> {
    let (pod, env) = (state.pod(), state.env.clone());
    // A volume of many files takes long to be given to the pod's group.
    let linked = state.unless_ending(slowly(state, objects::link_claims(state))).await;
    linked.ok_or(SandboxError::Interrupted)??;
    // Before: what changes from here on is written later.
    state.set(|inner| inner.refresh = None);
    let gathered = slowly(state, objects::gather(state, None)).await;
    let unused = state.unless_ending(env.set_aside.unused(&pod.uid, REMOVAL));
    slowly(state, unused).await.ok_or(SandboxError::Interrupted)??;
    let own = pod.clone();
    let made = blocking::POD_FILES.run(move || {
        env.set_aside.reuse(&own.uid);
        volume::prepare(&own, &env.paths(&own), env.node(&env.capacity()), env.ownership.owner(), &gathered)
    });
    // A panic in there is a bug of the agent; the pod is tried again.
    made.await.unwrap_or(Ok(()))?;
    Ok(slowly(state, volume::check_host_paths(&pod)).await?)
}

/// The result of work on paths that the pod names. If their file systems are slow, other pods start
/// meanwhile.
pub async fn slowly<T>(state: &PodState, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    match tokio::time::timeout(SLOW, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            state.release_start_permit();
            work.await
        }
    }
}

/// The cgroup that the pod had with other settings (`cgroupRoot`, `cgroupDriver`) and in which it still runs.
pub fn former(state: &PodState) -> Option<String> {
    let uid = state.pod().uid.clone();
    state.env.places.borrow().get(&uid)?.former.clone()
}

/// The parent of the containers' cgroups as the runtime takes it (`cgroup_parent`), once it has been created.
async fn cgroup_parent(state: &PodState) -> Result<String, SandboxError> {
    if !state.env.settings.cgroups_per_qos {
        return Ok(state.env.settings.cgroup_root.clone());
    }
    let uid = state.pod().uid.clone();
    let mut places = state.env.places.clone();
    // Nothing of it runs in the cgroup that it had with other settings.
    let there = places.wait_for(|places| places.get(&uid).is_some_and(|place| place.former.is_none()));
    let place = match tokio::time::timeout(PATIENCE, there).await {
        Ok(Ok(places)) => places.get(&uid).cloned(),
        Ok(Err(_)) | Err(_) => {
            let former = former(state);
            return Err(former.map_or(SandboxError::NoCgroup, |former| SandboxError::Former { former }));
        }
    };
    match place {
        None => Err(SandboxError::NoCgroup),
        Some(place) => match place.problem {
            Some(problem) => Err(SandboxError::Cgroup { problem }),
            None => Ok(place.cgroup_parent().to_owned()),
        },
    }
}

#[cfg(test)]
mod tests;
