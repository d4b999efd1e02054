//! Images: there already, pulled, or refused, by the container's pull policy (kubelet: pkg/kubelet/images).

use std::time::Instant;

use nodewarden_proto::runtime::v1 as cri;

use super::objects;
use crate::state::PodState;
use nodewarden_cri::{RuntimeError, image_reference};
use nodewarden_model::WaitingReason;
use nodewarden_pods::registry::Credential;

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
            Self::ErrImageNeverPull { .. } => WaitingReason::ErrImageNeverPull,
            Self::ImageInspectError { .. } => WaitingReason::ImageInspectError,
            Self::ErrImagePull { .. } | Self::PullRateExceeded { .. } | Self::Interrupted => {
                WaitingReason::ErrImagePull
            }
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
        if let Some(found) = env.client.image(image).await.map_err(inspect)? {
            let message = format!("Container image {image:?} already present on machine");
            env.record_event(&state.pod(), Some((container, "")), "Pulled", message);
            return Ok(present(found, image));
        }
        if policy == "Never" {
            return Err(ImageError::ErrImageNeverPull { image: image.to_owned() });
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
    let pulled = state.unless_ending(pull).await.ok_or(ImageError::Interrupted)?;
    pulled?;
    let took = begun.elapsed();
    let message = format!("Successfully pulled image {image:?} in {:.3}s", took.as_secs_f64());
    env.record_event(&pod, Some((container, "")), "Pulled", message);
    match env.client.image(image).await.map_err(inspect)? {
        Some(found) => Ok(present(found, image)),
        None => Err(ImageError::ErrImageNeverPull { image: image.to_owned() }),
    }
}

/// Pulls with each of the credentials until one is accepted; without any, as nobody.
async fn pull_as(
    state: &PodState,
    image: &str,
    sandbox: &cri::PodSandboxConfig,
    credentials: Vec<Credential>,
) -> Result<String, ImageError> {
    let pull = async |auth| {
        if !state.env.pulls.may_begin() {
            return Err(ImageError::PullRateExceeded { image: image.to_owned() });
        }
        let pulled = state.env.client.pull_as(image, sandbox.clone(), auth).await;
        pulled.map_err(|source| ImageError::ErrImagePull { image: image.to_owned(), source })
    };
    let mut failed = None;
    for Credential { username, password } in credentials {
        match pull(Some(cri::AuthConfig { username, password, ..Default::default() })).await {
            Ok(reference) => return Ok(reference),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => pull(None).await,
    }
}

fn present(image: cri::Image, name: &str) -> Present {
    let reference = if image.id.is_empty() { name.to_owned() } else { image.id.clone() };
    Present { image, reference }
}
