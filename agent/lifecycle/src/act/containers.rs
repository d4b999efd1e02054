//! Starting one container: image, create, start, postStart (kubelet: startContainer).

use jiff::Timestamp;
use nodewarden_proto::runtime::v1 as cri;

use super::images;
use super::images::{ImageError, Present};
use super::sandbox;
use super::sandbox::SandboxError;
use super::{cpusets, devices, exits, kill, objects, probing};
use crate::decide::observed::{ContainerSeen, ContainerStage};
use crate::decide::{policy, pull_policy};
use crate::state::PodState;
use nodewarden_cri::RuntimeError;
use nodewarden_devices::AdmissionError;
use nodewarden_gc::Hold;
use nodewarden_manifest::ContainerKind;
use nodewarden_model::WaitingReason;
use nodewarden_pods::log_links;
use nodewarden_pods::paths::PodPaths;
use nodewarden_pods::spec;
use nodewarden_pods::spec::{Beginning, HookError, SpecError, run_hook};
use nodewarden_tasks::blocking;

/// Why a container does not run. [`Self::reason`] is the kubelet's reason.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Devices(#[from] AdmissionError),
    #[error("{0}")]
    Create(RuntimeError),
    #[error("{0}")]
    Run(RuntimeError),
    /// The container is there and has to be ended.
    #[error("PostStartHook failed: {source}")]
    PostStart { id: String, source: HookError },
    /// Its files could not be made for a fault of the agent, which the log has.
    #[error("a fault in the agent")]
    Fault,
    /// There is no sandbox to start it in.
    #[error("the pod has no sandbox")]
    NoSandbox,
}

impl StartError {
    pub fn reason(&self) -> WaitingReason {
        match self {
            Self::Image(error) => error.reason(),
            Self::Spec(error) => error.reason(),
            Self::Create(_) | Self::NoSandbox => WaitingReason::CreateContainerError,
            Self::Sandbox(_) | Self::Devices(_) | Self::Fault => WaitingReason::CreateContainerConfigError,
            Self::Run(_) => WaitingReason::RunContainerError,
            Self::PostStart { .. } => WaitingReason::PostStartHookError,
        }
    }

    /// The runtime does not answer: nothing of the container is wrong.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Create(error) | Self::Run(error) | Self::Sandbox(SandboxError::Runtime(error)) => {
                error.is_unavailable()
            }
            Self::Image(
                ImageError::ImageInspectError { source, .. } | ImageError::ErrImagePull { source, .. },
            ) => source.is_unavailable(),
            _ => false,
        }
    }
}

/// Makes and starts the container, and runs its postStart hook.
///
/// # Errors
/// See [`StartError`].
pub async fn start(state: &PodState, name: &str, attempt: u32) -> Result<(), StartError> {
    let pod = state.pod();
    let env = &state.env;
    let Some((spec, own)) = policy::spec_of(&pod, name).zip(pod.container(name)) else { return Ok(()) };
    let sandbox = state.read().observed.sandbox().cloned().ok_or(StartError::NoSandbox)?;
    // On the node's network they are the node's.
    let ips = kill::ips(state);
    let sandbox_config = sandbox::config(state, sandbox.attempt).await?;
    let image = spec.image.clone().unwrap_or_default();
    let policy = pull_policy::pull_policy(spec.image_pull_policy.as_deref(), &image);
    // Until the container exists the image is not removed.
    let (present, hold) = held(state, name, &image, policy, &sandbox_config).await?;
    let injection = devices::for_container(state, name).await?;
    let gathered = sandbox::slowly(state, objects::gather(state, Some(name))).await;
    let beginning = Beginning {
        attempt,
        ips: &ips,
        image: &present.image,
        image_ref: &present.reference,
        injection: &injection,
        objects: &gathered,
    };
    let now = env.node_now();
    let (mut config, mut files) = spec::plan_container(&pod, name, &beginning, &env.host(&now))?;
    share_processes(state, name, &mut config);
    let cpus = cpusets::place(state, name, &mut config).await;
    for message in spec::skipped_variables(&pod, name, &gathered) {
        env.record_event(&pod, Some((name, "")), "InvalidEnvironmentVariableNames", message);
    }
    sandbox::slowly(state, files.hold_host_paths()).await?;
    let (of, on) = (pod.clone(), env.clone());
    let made = blocking::POD_FILES.run(move || files.make(&of, &on.host(&now), &gathered)).await;
    objects::show_kept(state, &made.map_err(|_| StartError::Fault)??);
    state.update(|inner| {
        inner.record.note_start(own, attempt);
        if inner.record.origin.is_api() {
            inner.record.note_image(name, &image);
        }
    });
    let id =
        env.client.create_container(&sandbox.id, config, sandbox_config).await.map_err(StartError::Create)?;
    drop(hold);
    if let Some(cpus) = cpus {
        env.managers.is_on(&pod.uid, name, &id, cpus);
    }
    env.record_event(&pod, Some((name, &id)), "Created", format!("Created container {name}"));
    let seen = ContainerSeen {
        id: (&id).into(),
        sandbox: sandbox.id.clone(),
        name: name.to_owned(),
        attempt,
        stage: ContainerStage::Created,
        created: Timestamp::now(),
        started: None,
        finished: None,
        exit_code: 0,
        reason: String::new(),
        message: String::new(),
        image_id: present.image.id.as_str().into(),
        reported: false,
    };
    devices::added(state, name, &id, &injection).await;
    // On disk with the next change: until then the runtime knows it.
    state.note(|inner| {
        inner.record.note_created(name);
        inner.observed.containers.insert(0, seen);
        exits::place_early_ooms(inner);
    });
    run(state, &id, name).await
}

/// An ephemeral container sees the processes of its target (kubelet `generateContainerConfig`), where each
/// container of the pod has its own.
fn share_processes(state: &PodState, name: &str, config: &mut cri::ContainerConfig) {
    let inner = state.read();
    let own = inner.pod.ephemeral_containers.iter().find(|own| own.container.name == *name);
    let Some(target) = own.and_then(|own| inner.observed.newest(own.target.as_deref()?)) else { return };
    let context = config.linux.as_mut().and_then(|linux| linux.security_context.as_mut());
    let options = context.and_then(|context| context.namespace_options.as_mut());
    if let Some(options) = options.filter(|options| options.pid() == cri::NamespaceMode::Container) {
        options.set_pid(cri::NamespaceMode::Target);
        options.target_id = target.id.to_string();
    }
}

/// The container's image, held by what the manifest calls it and by its id.
async fn held(
    state: &PodState,
    container: &str,
    image: &str,
    policy: &str,
    sandbox: &cri::PodSandboxConfig,
) -> Result<(Present, Hold), ImageError> {
    let hold = state.unless_ending(state.env.holds.hold(image)).await;
    let mut hold = hold.ok_or(ImageError::Interrupted)?;
    loop {
        let present = images::ensure(state, container, image, policy, sandbox).await?;
        let waited = state.unless_ending(hold.also(&present.reference)).await;
        // Having waited means that the image was being removed under another name: it may be gone, so it is
        // looked for again. Now that it is held it is not removed any more.
        if !waited.ok_or(ImageError::Interrupted)? {
            return Ok((present, hold));
        }
    }
}

/// Finishes a start that an agent that died began: a container that is only created is started; a hook that
/// is not known to be done runs (again: hooks run at least once).
///
/// # Errors
/// The runtime refuses, or the hook fails.
pub async fn finish(state: &PodState, id: &str, name: &str) -> Result<(), StartError> {
    let created = {
        let inner = state.read();
        inner.observed.containers.iter().any(|seen| seen.id == id && seen.stage == ContainerStage::Created)
    };
    if !created {
        return hook(state, id, name).await;
    }
    // It may have run before: this event explains why it is seen to start twice.
    let message =
        format!("the start of container {name} was cut off with an earlier agent or runtime: started again");
    state.env.record_event(&state.pod(), Some((name, id)), "StartResumed", message);
    match run(state, id, name).await {
        Err(StartError::Run(error)) if !error.is_unavailable() => replace(state, id, name, error).await,
        ended => ended,
    }
}

/// Removes a container that was created but never started, and that the runtime refuses to start, then
/// creates and starts a new one with the same attempt number. containerd refuses with "already exists" when
/// it was killed during the first start. The restart policy does not matter, since the container has not run
/// (kubelet: ShouldContainerBeRestarted is true for every container in the created state). `refused` is the
/// runtime's answer.
///
/// # Errors
/// The old container cannot be removed, or the new one does not start.
async fn replace(state: &PodState, id: &str, name: &str, refused: RuntimeError) -> Result<(), StartError> {
    let attempt = {
        let inner = state.read();
        inner.observed.containers.iter().find(|seen| seen.id == id).map(|seen| seen.attempt)
    };
    let Some(attempt) = attempt else { return Err(StartError::Run(refused)) };
    tracing::info!(
        container = name,
        id,
        "the runtime refuses to start a container whose first start was interrupted; it is replaced: {refused}"
    );
    state.env.client.remove_container(id).await.map_err(StartError::Run)?;
    state.note(|inner| inner.observed.containers.retain(|seen| seen.id != id));
    start(state, name, attempt).await
}

/// Starts a container that is there, and runs its postStart hook.
///
/// # Errors
/// The runtime refuses, or the hook fails.
pub async fn run(state: &PodState, id: &str, name: &str) -> Result<(), StartError> {
    let pod = state.pod();
    let env = &state.env;
    if let Err(error) = env.client.start_container(id).await {
        return Err(StartError::Run(error));
    }
    env.record_event(&pod, Some((name, id)), "Started", format!("Started container {name}"));
    state.note(|inner| {
        if let Some(seen) = inner.observed.containers.iter_mut().find(|seen| seen.id == id) {
            seen.stage = ContainerStage::Running;
            seen.reported = false;
            seen.started = Some(Timestamp::now());
        }
    });
    link_log(state, id, name).await;
    if pod.container(name).is_some_and(|own| own.kind == ContainerKind::Regular) {
        devices::initialised(state).await;
    }
    hook(state, id, name).await
}

/// Makes the link by which collectors of logs find the container's log. As for the kubelet, its failure is no
/// failure of the start.
async fn link_log(state: &PodState, id: &str, name: &str) {
    let (pod, env) = (state.pod(), &state.env);
    let attempt = {
        let inner = state.read();
        inner.observed.containers.iter().find(|seen| seen.id == id).map(|seen| seen.attempt)
    };
    let Some(attempt) = attempt else { return };
    let log = env.paths(&pod).logs.join(PodPaths::log_name(name, attempt));
    let link = log_links::name(&pod.name, &pod.namespace, name, id);
    let directory = log_links::directory(&env.pods.logs_dir);
    let shown = directory.join(&link);
    let linked = blocking::POD_FILES.run(move || log_links::link(&directory, &link, &log)).await;
    // A panic in there is a bug of the agent, which the log has.
    if let Ok(Err(error)) = linked {
        tracing::warn!(path = %shown.display(), "the link to a container's log cannot be made: {error}");
    }
}

/// Runs the postStart hook of a running container, once.
///
/// # Errors
/// The hook fails.
pub async fn hook(state: &PodState, id: &str, name: &str) -> Result<(), StartError> {
    let pod = state.pod();
    if let Some(hook) = spec::post_start(&pod, name) {
        state.release_start_permit();
        let ips = kill::ips(state);
        let done = state.unless_ending(run_hook(&hook, &state.env.client, id, &ips, None)).await;
        if let Some(Err(source)) = done {
            state.env.record_event(&pod, Some((name, id)), "FailedPostStartHook", source.to_string());
            return Err(StartError::PostStart { id: id.to_owned(), source });
        }
    }
    state.update(|inner| {
        let seen = inner.observed.containers.iter().find(|seen| seen.id == id);
        let begun = seen.and_then(|seen| seen.started);
        let own = inner.record.containers.get_or_default(name);
        (own.hooked, own.begun) = (seen.map_or_else(|| id.into(), |seen| seen.id.clone()), begun);
    });
    probing::follow(state);
    Ok(())
}
