//! CRI's calls for images.

use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;

use super::{Client, RuntimeError};

/// The kubelet lets a pull take any time: runtimes give up on one that makes no progress
/// (`image_pull_progress_timeout` of containerd). This only ends what they forgot.
const PULL_LIMIT: Duration = Duration::from_secs(6 * 60 * 60);

impl Client {
    /// The image that this reference names, if the runtime has it.
    pub async fn image(&self, reference: &str) -> Result<Option<cri::Image>, RuntimeError> {
        let mut images = self.images.clone();
        let request = cri::ImageStatusRequest { image: Some(spec(reference)), verbose: false };
        let answer = self.ask("ImageStatus", reference, images.image_status(request)).await;
        match answer {
            // CRI asks for an answer without an image; what says it so means the same.
            Err(e) if e.is_not_found() => Ok(None),
            answer => Ok(answer?.image),
        }
    }

    /// Fetches an image; gives the reference to make containers with. Takes as long as it takes: drop the future to
    /// give it up.
    pub async fn pull(
        &self,
        reference: &str,
        sandbox_config: cri::PodSandboxConfig,
    ) -> Result<String, RuntimeError> {
        const CALL: &str = "PullImage";
        let mut images = self.images.clone();
        let request = cri::PullImageRequest {
            image: Some(spec(reference)),
            auth: None,
            sandbox_config: Some(sandbox_config),
        };
        let answer = self.call(CALL, reference, Some(PULL_LIMIT), images.pull_image(request)).await?;
        if answer.image_ref.is_empty() {
            return Err(self.empty(CALL, reference, "image reference"));
        }
        Ok(answer.image_ref)
    }
}

fn spec(reference: &str) -> cri::ImageSpec {
    cri::ImageSpec {
        image: reference.to_owned(),
        user_specified_image: reference.to_owned(),
        ..Default::default()
    }
}
