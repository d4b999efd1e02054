//! Image pull policies.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::PodFixture;
use super::manifest::{STAY, pod, shell};
use crate::fixture::Registry;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_image_pull_policies", policies).timeout(150).needs(NEEDS)];

/// Images are pulled as `imagePullPolicy` says; a missing image keeps only its own container waiting, with
/// the kubelet's reason, until it exists.
fn policies(context: &Context) -> Result<(), Failure> {
    let begin = SystemTime::now();
    let registry = Registry::start().map_err(Failure::file("a registry"))?;
    let command_printing =
        |words: &str| ["/bin/sh".to_owned(), "-c".to_owned(), format!("echo {words}; {STAY}")];
    let put = |name: &str, words: &str| {
        let command = command_printing(words);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        registry.put(name, &command).map_err(Failure::file("an image"))
    };
    let image = put("thing:1", "first")?;
    let mut fixture = PodFixture::new(context)?;
    let with = |name: &str, image: &str, policy: Value| {
        let image = json!({ "name": "c", "image": image, "imagePullPolicy": policy });
        pod(name, json!({ "containers": [image] }))
    };
    let missing = registry.name("missing:1");
    let never = shell("other", STAY, json!({}));
    let mut refused = with("never", &missing, json!("Never"));
    refused["spec"]["containers"].as_array_mut().map(|all| all.push(never)).unwrap_or_default();
    fixture.put([
        with("present", &image, json!("IfNotPresent")),
        refused,
        with("absent", &missing, json!("IfNotPresent")),
        with("misnamed", "Not A Name", json!("IfNotPresent")),
    ])?;
    let present = fixture.wait_up("present")?;
    ensure_eq!(fixture.log_until(&present, "c", 0, "\n")?, "first\n", "the pulled image's command");
    let id = present.container("c")?.0["imageID"].as_str().unwrap_or_default().to_owned();
    ensure!(id.contains("sha256:"), "image id {id:?}");

    // One container's image is missing: the other container runs, and the pod stays pending.
    let never = fixture.wait_until(
        "never",
        "running one container and waiting for the image of the other",
        20,
        |pod| {
            pod.container("c").is_ok_and(|c| c.waiting_reason() == "ErrImageNeverPull")
                && pod.container("other").is_ok_and(|c| c.is_running())
        },
    )?;
    ensure_eq!(never.phase(), "Pending", "phase");
    fixture.wait_until("absent", "waiting before the next pull", 20, |pod| {
        pod.container("c").is_ok_and(|c| {
            c.waiting_reason() == "ImagePullBackOff" && c.waiting_message().contains("missing")
        })
    })?;
    let failed = fixture.notes("absent", "Failed", begin)?;
    ensure!(failed.iter().any(|text| text.contains("ErrImagePull")), "events of a failed pull: {failed:?}");
    fixture.wait_until("misnamed", "refused for its image's name", 20, |pod| {
        pod.container("c").is_ok_and(|c| c.waiting_reason() == "InvalidImageName")
    })?;

    // Another image under the same name: only `Always` gets it.
    put("thing:1", "second")?;
    let requests = registry.tag_lookups();
    fixture.put([with("content", &image, json!("IfNotPresent"))])?;
    let content = fixture.wait_up("content")?;
    ensure_eq!(fixture.log_until(&content, "c", 0, "\n")?, "first\n", "the image that was there already");
    ensure_eq!(registry.tag_lookups(), requests, "requests to the registry for an image that is there");
    fixture.put([with("always", &image, json!("Always"))])?;
    let always = fixture.wait_up("always")?;
    ensure_eq!(fixture.log_until(&always, "c", 0, "\n")?, "second\n", "the image that was pulled again");
    ensure!(registry.tag_lookups() > requests, "the registry was not asked");

    // Once the image exists, the pod runs.
    put("missing:1", "late")?;
    let absent =
        fixture.wait_until("absent", "up once its image exists", 60, super::listed::ListedPod::is_up)?;
    ensure_eq!(fixture.log_until(&absent, "c", 0, "\n")?, "late\n", "output of the image that came late");
    fixture.finish()
}
