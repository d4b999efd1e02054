//! Images of registries that only their users may read: users of secrets, and of the node's credential
//! provider plugins.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::ClusterFixture;
use super::manifest::{ENDS_AT_ONCE, WAIT, pod};
use super::options::{NodeOptions, Prepared};
use crate::ensure;
use crate::fixture::{Registry, credential_provider};
use crate::harness::{Context, Failure, Test};

pub const TESTS: &[Test] =
    &[Test::new("cluster_images_of_private_registries", private).timeout(300).needs(NEEDS)];

/// A registry with one image, which only this user may have.
struct Private {
    registry: Registry,
    image: String,
    user: &'static str,
}

impl Private {
    const PASSWORD: &'static str = "a password with spaces";

    fn start(user: &'static str) -> Result<Self, Failure> {
        let registry = Registry::start().map_err(Failure::file("a registry"))?;
        let command = format!("{ENDS_AT_ONCE}{WAIT}");
        let image = registry.put("private:1", &["/bin/sh", "-c", &command]);
        let image = image.map_err(Failure::file("an image"))?;
        registry.require(user, Self::PASSWORD);
        Ok(Self { registry, image, user })
    }

    /// Its address, as images have it.
    fn address(&self) -> String {
        self.registry.name("").trim_end_matches('/').to_owned()
    }

    /// A pod of its image.
    fn pod(&self, name: &str, node: &str) -> Value {
        let mut own = pod(name, node, "");
        let container = &mut own["spec"]["containers"][0];
        container["image"] = json!(self.image);
        container["imagePullPolicy"] = json!("Always");
        if let Some(fields) = container.as_object_mut() {
            fields.remove("command");
        }
        own
    }
}

/// Without a user the image is refused, and the pod says so. A secret of the pod has one, and for another
/// registry a plugin of the node.
fn private(context: &Context) -> Result<(), Failure> {
    let (of_secret, of_plugin) = (Private::start("ann")?, Private::start("bob")?);
    let (config, programs) = write_plugin(context, &of_plugin)?;
    let options = NodeOptions {
        arguments: vec![
            "--image-credential-provider-config".to_owned(),
            config.display().to_string(),
            "--image-credential-provider-bin-dir".to_owned(),
            programs.display().to_string(),
        ],
        ..NodeOptions::default()
    };
    let fixture = Prepared::new(context)?.start(options)?;
    fixture.apply(&of_secret.pod("refused", fixture.name()))?;
    let waiting = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let refused = fixture.wait_pod("refused", "waiting for its image", 60, |pod| {
        let reason = waiting(pod)["reason"].as_str().unwrap_or_default().to_owned();
        reason == "ErrImagePull" || reason == "ImagePullBackOff"
    })?;
    ensure!(of_secret.registry.authorized() == 0, "the image was had without a user: {}", refused["status"]);

    put_secret(&fixture, &of_secret)?;
    let mut with_secret = of_secret.pod("of-secret", fixture.name());
    with_secret["spec"]["imagePullSecrets"] = json!([{ "name": "users" }]);
    fixture.apply(&with_secret)?;
    fixture.apply(&of_plugin.pod("of-plugin", fixture.name()))?;
    for (name, of) in [("of-secret", &of_secret), ("of-plugin", &of_plugin)] {
        fixture.wait_ready(name)?;
        ensure!(of.registry.authorized() > 0, "no client asked the registry of {name} as {}", of.user);
    }
    fixture.finish()
}

/// The secret `users`, as `kubectl` makes it.
fn put_secret(fixture: &ClusterFixture<'_>, of: &Private) -> Result<(), Failure> {
    let server = format!("--docker-server={}", of.address());
    let user = format!("--docker-username={}", of.user);
    let password = format!("--docker-password={}", Private::PASSWORD);
    fixture.run(&["create", "secret", "docker-registry", "users", &server, &user, &password]).map(drop)
}

/// A plugin that has the user of this registry, its configuration, and the directory that it is in.
fn write_plugin(context: &Context, of: &Private) -> Result<(PathBuf, PathBuf), Failure> {
    let programs = context.temp.join("providers");
    fs::create_dir_all(&programs).map_err(Failure::file(&programs))?;
    let response = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "auth": { of.address(): { "username": of.user, "password": Private::PASSWORD } },
    });
    // It answers only if it is asked for this image.
    let script = format!("#!/bin/sh\ngrep -q '\"{}/private\"' || exit 1\necho '{response}'\n", of.address());
    let config =
        credential_provider(context.temp.path(), &programs, "test-provider", &of.address(), &script)?;
    Ok((config, programs))
}
