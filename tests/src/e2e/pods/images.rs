//! Pull policies: what is there, what is pulled, what cannot be had; and that nobody waits for another's image.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::NEEDS;
use super::manifest::{STAY, pod, shell};
use super::stage::Stage;
use crate::fixture::Registry;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("pod_image_pull_policies", policies).timeout(150).needs(NEEDS)];

fn policies(context: &Context) -> Result<(), Failure> {
    let begin = SystemTime::now();
    let registry = Registry::start().map_err(Failure::file("a registry"))?;
    let say = |words: &str| ["/bin/sh".to_owned(), "-c".to_owned(), format!("echo {words}; {STAY}")];
    let put = |name: &str, words: &str| {
        let command = say(words);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        registry.put(name, &command).map_err(Failure::file("an image"))
    };
    let image = put("thing:1", "first")?;
    let mut stage = Stage::new(context)?;
    let with = |name: &str, image: &str, policy: Value| {
        let image = json!({ "name": "c", "image": image, "imagePullPolicy": policy });
        pod(name, json!({ "containers": [image] }))
    };
    let missing = registry.name("missing:1");
    let never = shell("other", STAY, json!({}));
    let mut refused = with("never", &missing, json!("Never"));
    refused["spec"]["containers"].as_array_mut().map(|all| all.push(never)).unwrap_or_default();
    stage.put([
        with("present", &image, json!("IfNotPresent")),
        refused,
        with("absent", &missing, json!("IfNotPresent")),
        with("misnamed", "Not A Name", json!("IfNotPresent")),
    ])?;
    let present = stage.up("present")?;
    ensure_eq!(stage.log_until(&present, "c", 0, "\n")?, "first\n", "the pulled image's command");
    let id = present.container("c")?.0["imageID"].as_str().unwrap_or_default().to_owned();
    ensure!(id.contains("sha256:"), "image id {id:?}");

    // One container cannot have its image: the other runs, and the pod waits.
    let never = stage.until("never", "half there", 20, |pod| {
        pod.container("c").is_ok_and(|c| c.waits() == "ErrImageNeverPull")
            && pod.container("other").is_ok_and(|c| c.is_running())
    })?;
    ensure_eq!(never.phase(), "Pending", "phase");
    stage.until("absent", "waiting before the next try", 20, |pod| {
        pod.container("c")
            .is_ok_and(|c| c.waits() == "ImagePullBackOff" && c.waits_message().contains("missing"))
    })?;
    let failed = stage.notes("absent", "Failed", begin)?;
    ensure!(failed.iter().any(|text| text.contains("ErrImagePull")), "events of a failed pull: {failed:?}");
    stage.until("misnamed", "refused its image's name", 20, |pod| {
        pod.container("c").is_ok_and(|c| c.waits() == "InvalidImageName")
    })?;

    // Another image under the same name: only who always pulls gets it.
    put("thing:1", "second")?;
    let looks = registry.tag_lookups();
    stage.put([with("content", &image, json!("IfNotPresent"))])?;
    let content = stage.up("content")?;
    ensure_eq!(stage.log_until(&content, "c", 0, "\n")?, "first\n", "the image that was there");
    ensure_eq!(registry.tag_lookups(), looks, "questions to the registry about an image that is there");
    stage.put([with("always", &image, json!("Always"))])?;
    let always = stage.up("always")?;
    ensure_eq!(stage.log_until(&always, "c", 0, "\n")?, "second\n", "the image that was pulled anew");
    ensure!(registry.tag_lookups() > looks, "the registry was not asked");

    // As soon as it can be had, the pod runs.
    put("missing:1", "late")?;
    let absent = stage.until("absent", "up once its image is there", 60, super::seen::Seen::is_up)?;
    ensure_eq!(stage.log_until(&absent, "c", 0, "\n")?, "late\n", "the late image");
    stage.finish()
}
