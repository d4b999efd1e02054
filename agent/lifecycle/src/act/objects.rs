//! What a pod needs of the API server's objects: gathered before its sandbox and its containers are made, and
//! written into its volumes again whenever one of them has changed.

use std::time::{Duration, Instant};

use nodewarden_cri::image_reference;
use nodewarden_pods::objects::{self, ObjectError, PodObjects};
use nodewarden_pods::registry::{Credential, Keyring};
use nodewarden_pods::volume::{self, VolumeError};
use nodewarden_tasks::blocking;

use crate::state::{Failed, PodState};
use nodewarden_model::WaitingReason;

/// How long to wait before volumes that could not be written are written again.
const AGAIN: Duration = Duration::from_secs(20);

/// The reason of the event about a volume that does not get what it should have.
const FAILED_MOUNT: &str = "FailedMount";

/// What the pod's volumes need, and the environment of `container`. Nothing for a pod of a manifest, which
/// names no objects.
pub async fn gather(state: &PodState, container: Option<&str>) -> PodObjects {
    match &state.env.objects {
        Some(known) if state.read().record.origin.is_api() => {
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
        if let Some(shared) = volume::link_claim(&pod, &paths, &name, bound).await? {
            state.env.record_event(&pod, None, "AlreadyMountedVolume", shared.to_string());
        }
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
    let is_own = pod.spec().volumes.iter().flatten().any(|own| own.name == volume && own.ephemeral.is_some());
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
    let spec = pod.spec();
    let Some(class) = spec.runtime_class_name.as_deref().filter(|class| !class.is_empty()) else {
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

/// A user of a registry, and where it comes from.
pub struct Offered {
    pub credential: Credential,
    /// From a secret of the pod, not from a plugin of the node.
    pub of_pod: bool,
}

/// Users of the image's registry, from the pod's secrets first and then from the node's plugins.
pub async fn credentials(state: &PodState, image: &str) -> Vec<Offered> {
    let (pod, env) = (state.pod(), &state.env);
    let secrets = match &env.objects {
        Some(known) => objects::pull_secrets(known.as_ref(), &pod).await,
        None => Vec::new(),
    };
    let repository = image_reference::repository(image);
    let (keyring, problems) = Keyring::of_secrets(secrets.iter().map(AsRef::as_ref));
    for problem in problems {
        let message = format!("a secret for pulling images: {problem}");
        env.record_event(&pod, None, "FailedToRetrieveImagePullSecret", message);
    }
    let offered = |of_pod| move |credential| Offered { credential, of_pod };
    let mut found: Vec<Offered> = keyring.find(&repository).into_iter().map(offered(true)).collect();
    if let Some(providers) = &env.credential_providers {
        let mut of_node = Keyring::default();
        providers.add_to(&mut of_node, &repository).await;
        found.extend(of_node.find(&repository).into_iter().map(offered(false)));
    }
    found
}

/// An object that the pod names has changed: its volumes are due, and so are containers that could not be
/// made for want of it.
pub fn changed(state: &PodState) {
    let now = Instant::now();
    state.set(|inner| {
        inner.refresh = Some(now);
        let unmade =
            |failed: &&mut Failed| failed.waiting.reason == WaitingReason::CreateContainerConfigError;
        inner.failed.values_mut().filter(unmade).for_each(|failed| failed.again = now);
    });
}

/// Writes the volumes of a running pod again if something that they show may have changed. The time until the
/// next try where something could not be found out or written.
pub async fn refresh(state: &PodState) -> Option<Duration> {
    let due = {
        let inner = state.read();
        let runs = inner.observed.sandbox().is_some_and(|sandbox| sandbox.ready);
        inner.refresh.filter(|_| runs && volume::has_files(&inner.pod))?
    };
    let wait = due.saturating_duration_since(Instant::now());
    if !wait.is_zero() {
        return Some(wait);
    }
    // Before: what changes from here on is written later.
    state.set(|inner| inner.refresh = None);
    let gathered = gather(state, None).await;
    let (pod, env) = (state.pod(), state.env.clone());
    let written = blocking::POD_FILES
        .run(move || volume::write_files(&pod, &env.paths(&pod), env.node(&env.capacity()), &gathered));
    let kept = match written.await {
        Ok(Ok(written)) => written.kept,
        Ok(Err(error)) => vec![error],
        // A panic in there is a bug of the agent, which the log has.
        Err(_) => Vec::new(),
    };
    show_kept(state, &kept);
    // What does not exist is reported when it does.
    let again = kept.iter().any(|error| !error.is_not_found()).then_some(AGAIN)?;
    state.set(|inner| {
        inner.refresh.get_or_insert_with(|| Instant::now() + again);
    });
    Some(again)
}

/// Reports volumes that keep what they have because something does not exist or cannot be written, once for
/// each reason. That the API server cannot be asked is no fault of the pod; and the objects of a pod that
/// ends are often deleted before it.
pub fn show_kept(state: &PodState, kept: &[VolumeError]) {
    if state.is_ending() {
        return;
    }
    let (unasked, kept): (Vec<_>, Vec<_>) = kept.iter().partition(|error| error.is_unasked());
    for error in unasked {
        let pod = state.pod();
        tracing::debug!(pod = %format_args!("{}/{}", pod.namespace, pod.name), "{error}");
    }
    let messages: Vec<String> = kept.into_iter().map(ToString::to_string).collect();
    let before = state.set(|inner| std::mem::replace(&mut inner.kept_volumes, messages.clone()));
    for message in messages.into_iter().filter(|message| !before.contains(message)) {
        state.env.record_event(&state.pod(), None, FAILED_MOUNT, message);
    }
}
