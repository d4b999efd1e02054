//! CRI calls for images.

use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;

use super::client::gone_is_well;
use super::{Client, ListedSandbox, RuntimeError};

/// Time limit of a pull. The kubelet has none, because runtimes give up a pull without progress
/// (`image_pull_progress_timeout` of containerd). This one is a safeguard.
const PULL_LIMIT: Duration = Duration::from_secs(6 * 60 * 60);

impl Client {
    /// All images of the runtime.
    pub async fn list_images(&self) -> Result<Vec<cri::Image>, RuntimeError> {
        let mut images = self.images.clone();
        let request = cri::ListImagesRequest::default();
        Ok(self.of_images().ask("ListImages", "", images.list_images(request)).await?.images)
    }

    /// Removes an image with all its names; `reference` is its id or one of them. Succeeds if the image does
    /// not exist.
    pub async fn remove_image(&self, reference: &str) -> Result<(), RuntimeError> {
        let mut images = self.images.clone();
        let request = cri::RemoveImageRequest { image: Some(spec(reference)) };
        let answer = images.remove_image(request);
        gone_is_well(self.of_images().call("RemoveImage", reference, Some(self.request_limit), answer).await)
    }

    /// File systems of images and of containers, and the space used. The part about containers is empty if
    /// the runtime does not report it (containerd before 2.0).
    pub async fn image_fs_info(&self) -> Result<cri::ImageFsInfoResponse, RuntimeError> {
        let mut images = self.images.clone();
        self.of_images().ask("ImageFsInfo", "", images.image_fs_info(cri::ImageFsInfoRequest {})).await
    }

    /// The image of sandboxes: from the runtime's configuration, or from one of these sandboxes, in the
    /// format of containerd. `None` if the runtime reports neither (CRI-O, containerd 2.0): those pin the
    /// image.
    pub async fn sandbox_image(&self, sandboxes: &[ListedSandbox]) -> Result<Option<String>, RuntimeError> {
        let mut service = self.service.clone();
        let request = cri::StatusRequest { verbose: true };
        let answer = self.ask("Status", "", service.status(request)).await?;
        if let Some(image) = answer.info.get("config").and_then(|config| text_of(config, "sandboxImage")) {
            return Ok(Some(image));
        }
        let Some(newest) = sandboxes.iter().max_by_key(|sandbox| sandbox.created_at) else { return Ok(None) };
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: newest.id.clone(), verbose: true };
        match self.ask("PodSandboxStatus", &newest.id, service.pod_sandbox_status(request)).await {
            // The sandbox was removed meanwhile.
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(answer?.info.get("info").and_then(|info| text_of(info, "image"))),
        }
    }

    /// The image of this reference; `None` if the runtime does not have it.
    pub async fn image(&self, reference: &str) -> Result<Option<cri::Image>, RuntimeError> {
        let mut images = self.images.clone();
        let request = cri::ImageStatusRequest { image: Some(spec(reference)), verbose: false };
        let answer = self.of_images().ask("ImageStatus", reference, images.image_status(request)).await;
        match answer {
            // CRI specifies an empty response; this error has the same meaning.
            Err(e) if e.is_not_found() => Ok(None),
            answer => Ok(answer?.image),
        }
    }

    /// The signal with which an image asks to be stopped (`STOPSIGNAL`), empty if it asks for none; `None` if
    /// the runtime does not have the image or does not show its configuration.
    pub async fn image_stop_signal(&self, reference: &str) -> Result<Option<String>, RuntimeError> {
        let mut images = self.images.clone();
        let request = cri::ImageStatusRequest { image: Some(spec(reference)), verbose: true };
        let answer = self.of_images().ask("ImageStatus", reference, images.image_status(request)).await;
        match answer {
            Err(e) if e.is_not_found() => Ok(None),
            answer => Ok(answer?.info.get("info").and_then(|info| stop_signal(info))),
        }
    }

    /// Pulls an image, as this user of the registry or without a user; returns the reference with which
    /// containers are created. May take hours; dropping the future cancels the pull.
    pub async fn pull_as(
        &self,
        reference: &str,
        sandbox_config: cri::PodSandboxConfig,
        auth: Option<cri::AuthConfig>,
    ) -> Result<String, RuntimeError> {
        const CALL: &str = "PullImage";
        let mut images = self.images.clone();
        let request = cri::PullImageRequest {
            image: Some(spec(reference)),
            auth,
            sandbox_config: Some(sandbox_config),
        };
        let answer =
            self.of_images().call(CALL, reference, Some(PULL_LIMIT), images.pull_image(request)).await?;
        if answer.image_ref.is_empty() {
            return Err(self.of_images().empty(CALL, reference, "image reference"));
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

/// The stop signal in what containerd shows of an image: its configuration as OCI defines it is `imageSpec`.
fn stop_signal(info: &str) -> Option<String> {
    let info: serde_json::Value = serde_json::from_str(info).ok()?;
    let config = info.get("imageSpec")?.as_object()?.get("config")?.as_object()?;
    match config.get("StopSignal") {
        None => Some(String::new()),
        Some(signal) => signal.as_str().map(str::to_owned),
    }
}

/// A non-empty string field of a JSON object.
fn text_of(json: &str, key: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    value[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{stop_signal, text_of};

    #[test]
    fn stop_signals_in_what_containerd_shows_of_images() {
        for (info, signal) in [
            (r#"{"chainID": "x", "imageSpec": {"config": {"StopSignal": "SIGQUIT"}}}"#, Some("SIGQUIT")),
            (r#"{"imageSpec": {"config": {"Cmd": ["sh"]}}}"#, Some("")),
            // Not an image's configuration as it is known: the runtime sends the signal.
            (r#"{"imageSpec": {}}"#, None),
            (r#"{"imageSpec": {"config": {"StopSignal": 3}}}"#, None),
            ("{}", None),
            ("", None),
        ] {
            assert_eq!(stop_signal(info).as_deref(), signal, "{info}");
        }
    }

    #[test]
    fn texts_of_the_runtimes_verbose_status() {
        let config = r#"{"sandboxImage": "registry.k8s.io/pause:3.8", "empty": "", "number": 3}"#;
        assert_eq!(text_of(config, "sandboxImage").as_deref(), Some("registry.k8s.io/pause:3.8"));
        for (json, key) in [(config, "empty"), (config, "number"), (config, "none"), ("", "x"), ("[]", "x")] {
            assert_eq!(text_of(json, key), None, "{json} {key}");
        }
    }
}
