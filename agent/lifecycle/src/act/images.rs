//! Images: there already, pulled, or refused, by the container's pull policy (kubelet: pkg/kubelet/images).

use std::time::Instant;

use nodewarden_proto::runtime::v1 as cri;

use super::objects::{self, Offered};
use crate::pulls::verified::{Required, Verifier};
use crate::state::PodState;
use nodewarden_cri::{RuntimeError, image_reference};
use nodewarden_model::WaitingReason;
use nodewarden_pods::registry::Credential;
use nodewarden_storage::state_file::StateFileError;
use nodewarden_tasks::blocking;
use tracing::warn;

/// Why a container's image cannot be had; the variants' names are the kubelet's reasons.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("failed to apply default image tag {image:?}: couldn't parse image name {image:?}")]
    InvalidImageName { image: String },
    #[error("container image {image:?} is not present with pull policy of Never")]
    ErrImageNeverPull { image: String },
    #[error("failed to inspect image {image:?}: {source}")]
    ImageInspectError { image: String, source: RuntimeError },
    #[error("failed to pull image {image:?}: {source}")]
    ErrImagePull { image: String, source: RuntimeError },
    /// `imagePullCredentialsVerificationPolicy` wants other credentials than the pod has.
    #[error(
        "container image {image:?} is present with pull policy of Never, and was not pulled with credentials of this pod"
    )]
    NotVerified { image: String },
    /// A pull that cannot be recorded is not made.
    #[error("failed to pull image {image:?}: {reason}")]
    NotRecorded { image: String, reason: String },
    /// `registryPullQPS` is used up; the kubelet's words.
    #[error("failed to pull image {image:?}: pull QPS exceeded")]
    PullRateExceeded { image: String },
    /// The pod is to end.
    #[error("no longer wanted")]
    Interrupted,
}

impl ImageError {
    /// As in `state.waiting.reason`. `Interrupted` is not shown: the pod ends.
    pub fn reason(&self) -> WaitingReason {
        match self {
            Self::InvalidImageName { .. } => WaitingReason::InvalidImageName,
            Self::ErrImageNeverPull { .. } | Self::NotVerified { .. } => WaitingReason::ErrImageNeverPull,
            Self::ImageInspectError { .. } => WaitingReason::ImageInspectError,
            Self::ErrImagePull { .. }
            | Self::NotRecorded { .. }
            | Self::PullRateExceeded { .. }
            | Self::Interrupted => WaitingReason::ErrImagePull,
        }
    }
}

/// An image that is there.
pub struct Present {
    pub image: cri::Image,
    /// What the container is made of: the image's id, so that a tag that moves meanwhile changes nothing.
    pub reference: String,
}

/// Gets a container's image.
///
/// # Errors
/// See [`ImageError`]. Nothing is retried here.
pub async fn ensure(
    state: &PodState,
    container: &str,
    image: &str,
    policy: &str,
    sandbox: &cri::PodSandboxConfig,
) -> Result<Present, ImageError> {
    if !image_reference::is_valid(image) {
        return Err(ImageError::InvalidImageName { image: image.to_owned() });
    }
    let env = &state.env;
    let inspect = |source| ImageError::ImageInspectError { image: image.to_owned(), source };
    if policy != "Always" {
        let found = env.client.image(image).await.map_err(inspect)?;
        let is_there = found.is_some();
        if let Some(found) = found
            && may_use(state, image, &found.id).await
        {
            let message = format!("Container image {image:?} already present on machine");
            env.record_event(&state.pod(), Some((container, "")), "Pulled", message);
            return Ok(present(found, image));
        }
        if policy == "Never" {
            let image = image.to_owned();
            return Err(match is_there {
                true => ImageError::NotVerified { image },
                false => ImageError::ErrImageNeverPull { image },
            });
        }
    }
    let pod = state.pod();
    env.record_event(&pod, Some((container, "")), "Pulling", format!("Pulling image {image:?}"));
    let begun = Instant::now();
    state.release_start_permit();
    let pull = async {
        let credentials = objects::credentials(state, image).await;
        // Closed never.
        let _turn = env.pulls.turn().await;
        pull_as(state, image, sandbox, credentials).await
    };
    begin(state, image).await?;
    let with = match state.unless_ending(pull).await.unwrap_or(Err(ImageError::Interrupted)) {
        Ok(with) => with,
        Err(error) => {
            match error {
                ImageError::Interrupted => env.verifier.given_up(image),
                _ => record(state, image, |verifier, image| verifier.failed(image)).await,
            }
            return Err(error);
        }
    };
    let took = begun.elapsed();
    let message = format!("Successfully pulled image {image:?} in {:.3}s", took.as_secs_f64());
    env.record_event(&pod, Some((container, "")), "Pulled", message);
    // Without an answer the pull stays one whose end is not known.
    match env.client.image(image).await.map_err(inspect)? {
        Some(found) => {
            let id = found.id.clone();
            record(state, image, move |verifier, image| verifier.succeeded(image, &id, with.as_ref())).await;
            Ok(present(found, image))
        }
        None => {
            record(state, image, |verifier, image| verifier.failed(image)).await;
            Err(ImageError::ErrImageNeverPull { image: image.to_owned() })
        }
    }
}

/// Whether the pod may use an image that is there, by `imagePullCredentialsVerificationPolicy`.
async fn may_use(state: &PodState, image: &str, id: &str) -> bool {
    match state.env.verifier.required(image, id) {
        Required::Nothing => true,
        required => {
            let offered = objects::credentials(state, image).await;
            required.is_met(offered.iter().filter(|own| own.of_pod).map(|own| &own.credential))
        }
    }
}

/// Records that a pull begins.
///
/// # Errors
/// It cannot be recorded: then the image must not be pulled.
async fn begin(state: &PodState, image: &str) -> Result<(), ImageError> {
    let (verifier, name) = (state.env.verifier.clone(), image.to_owned());
    if !verifier.is_on() {
        return Ok(());
    }
    let begun = blocking::STATE_FILES.run(move || verifier.begin(&name)).await;
    let reason = match begun {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Err(ImageError::NotRecorded { image: image.to_owned(), reason })
}

/// Records how a pull ended. If that fails, the image counts as one whose pull is not known.
async fn record(
    state: &PodState,
    image: &str,
    change: impl FnOnce(&Verifier, &str) -> Result<(), StateFileError> + Send + 'static,
) {
    let (verifier, name) = (state.env.verifier.clone(), image.to_owned());
    if !verifier.is_on() {
        return;
    }
    match blocking::STATE_FILES.run(move || change(&verifier, &name)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(image, "a pull is not recorded: {error}"),
        Err(error) => warn!(image, "a pull is not recorded: {error}"),
    }
}

/// Pulls with each of the credentials until one is accepted; without any, without a user. Returns the
/// credentials that were accepted, if they are the pod's own.
async fn pull_as(
    state: &PodState,
    image: &str,
    sandbox: &cri::PodSandboxConfig,
    offered: Vec<Offered>,
) -> Result<Option<Credential>, ImageError> {
    let pull = async |auth| {
        if !state.env.pulls.may_begin() {
            return Err(ImageError::PullRateExceeded { image: image.to_owned() });
        }
        let pulled = state.env.client.pull_as(image, sandbox.clone(), auth).await;
        pulled.map_err(|source| ImageError::ErrImagePull { image: image.to_owned(), source })
    };
    let mut failed = None;
    for Offered { credential, of_pod } in offered {
        let Credential { username, password } = credential.clone();
        match pull(Some(cri::AuthConfig { username, password, ..Default::default() })).await {
            Ok(_) => return Ok(of_pod.then_some(credential)),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => pull(None).await.map(|_| None),
    }
}

fn present(image: cri::Image, name: &str) -> Present {
    let reference = if image.id.is_empty() { name.to_owned() } else { image.id.clone() };
    Present { image, reference }
}
