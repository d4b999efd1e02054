//! What a pod needs of the API server's objects: gathered before its sandbox and its containers are made, and
//! written into its volumes again whenever one of them has changed.

use std::time::Duration;

use nodewarden_pods::objects::{self, ObjectError, PodObjects};
use nodewarden_pods::source::is_api;
use nodewarden_pods::volume::{self, VolumeError};
use nodewarden_tasks::blocking;

use crate::state::PodState;

/// How long to wait before volumes that could not be written are written again.
const AGAIN: Duration = Duration::from_secs(10);

/// The reason of the event about a volume that does not get what it should have.
const FAILED_MOUNT: &str = "FailedMount";

/// What the pod's volumes need, and the environment of `container`. Nothing for a pod of a manifest, which names
/// no objects.
pub async fn gather(state: &PodState, container: Option<&str>) -> PodObjects {
    match &state.env.objects {
        Some(known) if is_api(&state.read().record.origin) => {
            objects::gather(known.as_ref(), &state.pod(), container).await
        }
        _ => PodObjects::default(),
    }
}

/// Resolves the pod's claims that have not been before.
///
/// # Errors
/// A claim is not bound, or to nothing that this node provides; the error names the volume.
pub async fn link_claims(state: &PodState) -> Result<(), VolumeError> {
    let (pod, env) = (state.pod(), state.env.clone());
    let own = pod.clone();
    let paths = env.paths(&pod);
    let of = paths.clone();
    // A panic in there is a bug of the agent; the pod is tried again.
    let unlinked = blocking::POD_FILES.run(move || volume::unlinked_claims(&own, &of)).await;
    for (name, claim) in unlinked.unwrap_or_default() {
        let bound = bound(state, &name, &claim).await.map_err(|error| VolumeError::claim(&name, error))?;
        volume::link_claim(&pod, &paths, &name, bound).await?;
    }
    Ok(())
}

async fn bound(state: &PodState, volume: &str, claim: &str) -> Result<objects::BoundVolume, ObjectError> {
    let kind = objects::ObjectKind::PersistentVolumeClaim;
    let Some(known) = &state.env.objects else {
        return Err(ObjectError::NoApiServer { kind, name: claim.to_owned() });
    };
    let pod = state.pod();
    // A generic ephemeral volume's claim has the pod's uid as its owner.
    let is_own = pod.spec.volumes.iter().flatten().any(|own| own.name == volume && own.ephemeral.is_some());
    let owner = is_own.then_some(pod.uid.as_str());
    let bound = known.bound_volume(&pod.namespace, claim, owner).await?;
    if !bound.node_terms.is_empty() && !bound.is_on(&state.env.node_name, &known.node_labels().await?) {
        let reason =
            format!("node affinity check of volume {:?} failed: no matching NodeSelectorTerms", bound.name);
        return Err(ObjectError::Claim { name: claim.to_owned(), reason });
    }
    Ok(bound)
}

/// The runtime's handler for the pod; empty for its default.
///
/// # Errors
/// The pod's runtime class cannot be had.
pub async fn runtime_handler(state: &PodState) -> Result<String, ObjectError> {
    let pod = state.pod();
    let Some(class) = pod.spec.runtime_class_name.as_deref().filter(|class| !class.is_empty()) else {
        return Ok(String::new());
    };
    match &state.env.objects {
        Some(known) => known.runtime_handler(class).await,
        None => {
            let kind = objects::ObjectKind::RuntimeClass;
            Err(ObjectError::NoApiServer { kind, name: class.to_owned() })
        }
    }
}

/// Writes the volumes of a running pod again if something that they show has changed. The time until the next try
/// where that failed.
pub async fn refresh(state: &PodState) -> Option<Duration> {
    let is_due = state.set(|inner| {
        let runs = inner.observed.sandbox().is_some_and(|sandbox| sandbox.ready);
        runs && std::mem::take(&mut inner.refresh)
    });
    if !is_due {
        return None;
    }
    let gathered = gather(state, None).await;
    let (pod, env) = (state.pod(), state.env.clone());
    let written = blocking::POD_FILES
        .run(move || volume::write_files(&pod, &env.paths(&pod), env.node(&env.capacity()), &gathered));
    match written.await {
        Ok(Ok(written)) => {
            show_kept(state, &written.kept);
            None
        }
        Ok(Err(error)) => {
            show_kept(state, &[error]);
            state.set(|inner| inner.refresh = true);
            Some(AGAIN)
        }
        // A panic in there is a bug of the agent, which the log has.
        Err(_) => None,
    }
}

/// Reports volumes that keep what they have, once for each reason.
pub fn show_kept(state: &PodState, kept: &[VolumeError]) {
    let messages: Vec<String> = kept.iter().map(ToString::to_string).collect();
    let before = state.set(|inner| std::mem::replace(&mut inner.kept_volumes, messages.clone()));
    for message in messages.into_iter().filter(|message| !before.contains(message)) {
        state.env.record_event(&state.pod(), None, FAILED_MOUNT, message);
    }
}
