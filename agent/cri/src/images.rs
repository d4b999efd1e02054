//! CRI's calls for images.

use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;

use super::client::gone_is_well;
use super::{Client, RuntimeError};

/// The kubelet lets a pull take any time: runtimes give up on one that makes no progress
/// (`image_pull_progress_timeout` of containerd). This only ends what they forgot.
const PULL_LIMIT: Duration = Duration::from_secs(6 * 60 * 60);

impl Client {
    /// Every image that the runtime has.
    pub async fn list_images(&self) -> Result<Vec<cri::Image>, RuntimeError> {
        let mut images = self.images.clone();
        let request = cri::ListImagesRequest::default();
        Ok(self.ask("ListImages", "", images.list_images(request)).await?.images)
    }

    /// Removes an image with all its names; `reference` is its id or one of them. One that is gone is removed.
    pub async fn remove_image(&self, reference: &str) -> Result<(), RuntimeError> {
        let mut images = self.images.clone();
        let request = cri::RemoveImageRequest { image: Some(spec(reference)) };
        let answer = images.remove_image(request);
        gone_is_well(self.call("RemoveImage", reference, Some(self.request_limit), answer).await)
    }

    /// What images are on and take, and what containers do: the latter empty from runtimes that do not tell (containerd
    /// before 2.0).
    pub async fn image_fs_info(&self) -> Result<cri::ImageFsInfoResponse, RuntimeError> {
        let mut images = self.images.clone();
        self.ask("ImageFsInfo", "", images.image_fs_info(cri::ImageFsInfoRequest {})).await
    }

    /// The image that sandboxes are made of: by the runtime's configuration, or by one of these sandboxes, in the words
    /// of containerd. None from a runtime that tells neither (CRI-O, containerd 2.0): those pin it.
    pub async fn sandbox_image(&self, sandboxes: &[cri::PodSandbox]) -> Result<Option<String>, RuntimeError> {
        let mut service = self.service.clone();
        let request = cri::StatusRequest { verbose: true };
        let answer = self.ask("Status", "", service.status(request)).await?;
        if let Some(image) = answer.info.get("config").and_then(|config| text_of(config, "sandboxImage")) {
            return Ok(Some(image));
        }
        let Some(newest) = sandboxes.iter().max_by_key(|sandbox| sandbox.created_at) else { return Ok(None) };
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: newest.id.clone(), verbose: true };
        match self.ask("PodSandboxStatus", &newest.id, service.pod_sandbox_status(request)).await {
            // Removed meanwhile.
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(answer?.info.get("info").and_then(|info| text_of(info, "image"))),
        }
    }

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

/// A text that is not empty, of a JSON object.
fn text_of(json: &str, key: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    value[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn texts_of_the_runtimes_own_words() {
        let config = r#"{"sandboxImage": "registry.k8s.io/pause:3.8", "empty": "", "number": 3}"#;
        assert_eq!(text_of(config, "sandboxImage").as_deref(), Some("registry.k8s.io/pause:3.8"));
        for (json, key) in [(config, "empty"), (config, "number"), (config, "none"), ("", "x"), ("[]", "x")] {
            assert_eq!(text_of(json, key), None, "{json} {key}");
        }
    }
}
