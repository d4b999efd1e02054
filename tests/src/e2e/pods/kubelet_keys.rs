//! Keys of the kubelet's configuration that bound what pods may do on the node.

use std::time::SystemTime;

use serde_json::json;

use super::NEEDS;
use super::fixture::PodFixture;
use super::manifest::{STAY, one, pod};
use crate::e2e::support::eventually;
use crate::fixture::{Registry, parse_samples};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("pod_image_pull_rate", pull_rate).timeout(180).needs(NEEDS),
    Test::new("pod_image_verification", verification).timeout(180).needs(NEEDS),
    Test::new("pods_per_core_in_capacity", pods_per_core).timeout(120).needs(NEEDS),
];

/// Of four pulls at once two may begin (`registryBurst`); the others fail with the kubelet's words and are
/// tried again after the back-off.
fn pull_rate(context: &Context) -> Result<(), Failure> {
    let begin = SystemTime::now();
    let registry = Registry::start().map_err(Failure::file("a registry"))?;
    let lines = "registryPullQPS: 1\nregistryBurst: 2\nserializeImagePulls: false\n";
    let mut fixture = PodFixture::with_config(context, lines, "")?;
    let pulling = |name: &str| {
        let image = registry
            .put(&format!("{name}:1"), &["/bin/sh", "-c", STAY])
            .map_err(Failure::file("an image"))?;
        let own = json!({ "name": "c", "image": image, "imagePullPolicy": "IfNotPresent" });
        Ok::<_, Failure>(pod(name, json!({ "containers": [own] })))
    };
    let names = ["one", "two", "three", "four"];
    let pods = [pulling("one")?, pulling("two")?, pulling("three")?, pulling("four")?];
    fixture.put(pods)?;
    for name in names {
        fixture.wait_until(name, "up after its pull", 90, super::listed::ListedPod::is_up)?;
    }
    let mut refused = 0;
    for name in names {
        let failed = fixture.notes(name, "Failed", begin)?;
        refused += usize::from(failed.iter().any(|text| text.contains("pull QPS exceeded")));
    }
    // One token a second may have come meanwhile.
    ensure!((1..=2).contains(&refused), "{refused} of the pods had to wait for the rate");
    fixture.finish()
}

/// With `imagePullCredentialsVerificationPolicy: AlwaysVerify` an image that is on the node is used only
/// after a pull that the agent has recorded, also one of an earlier agent.
fn verification(context: &Context) -> Result<(), Failure> {
    let registry = Registry::start().map_err(Failure::file("a registry"))?;
    let image = registry.put("app:1", &["/bin/sh", "-c", STAY]).map_err(Failure::file("an image"))?;
    let with = |name: &str, policy: &str| {
        let own = json!({ "name": "c", "image": image, "imagePullPolicy": policy });
        pod(name, json!({ "containers": [own] }))
    };
    let lines = "imagePullCredentialsVerificationPolicy: AlwaysVerify\n";
    let mut fixture = PodFixture::with_config(context, lines, "")?;
    fixture.put([with("pulls", "IfNotPresent")])?;
    fixture.wait_up("pulls")?;
    let records = fixture.agent()?.state().join("pulled.json");
    fixture.stop_agent();
    fixture.start_agent()?;
    let lookups = registry.tag_lookups();
    fixture.put([with("uses", "IfNotPresent"), with("never", "Never")])?;
    fixture.wait_up("uses")?;
    fixture.wait_up("never")?;
    ensure_eq!(
        registry.tag_lookups(),
        lookups,
        "requests to the registry for an image that was pulled for all"
    );

    // An image of which nothing is recorded is as good as preloaded.
    fixture.stop_agent();
    std::fs::remove_file(&records).map_err(Failure::file(&records))?;
    fixture.start_agent()?;
    fixture.put([with("refused", "Never")])?;
    fixture.wait_until("refused", "refused an image that is not verified", 30, |pod| {
        pod.container("c").is_ok_and(|c| {
            c.waiting_reason() == "ErrImageNeverPull"
                && c.waiting_message().contains("not pulled with credentials")
        })
    })?;
    ensure_eq!(registry.tag_lookups(), lookups, "requests to the registry by a policy of Never");
    fixture.put([with("verifies", "IfNotPresent")])?;
    fixture.wait_up("verifies")?;
    ensure!(registry.tag_lookups() > lookups, "the image was not pulled again");
    fixture.wait_until("refused", "up once the image is verified", 60, super::listed::ListedPod::is_up)?;
    fixture.finish()
}

/// `podsPerCore` bounds the number of pods that the node has room for.
fn pods_per_core(context: &Context) -> Result<(), Failure> {
    let pods_with = |lines: &str| {
        let mut fixture = PodFixture::with_config(context, lines, "")?;
        fixture.put([one("one", STAY, json!({}))])?;
        fixture.wait_up("one")?;
        let value = eventually(context.patiently(20), "the node's capacity is not reported", || {
            let samples = parse_samples(&fixture.agent()?.get("/metrics")?.text());
            let of = |resource: &str| {
                let own = samples.iter().find(|sample| {
                    let name = sample.labels.get("resource").map(String::as_str);
                    sample.name == "nodewarden_node_capacity" && name == Some(resource)
                });
                own.map(|sample| sample.value)
            };
            Ok(of("pods").zip(of("cpu")))
        })?;
        fixture.finish()?;
        Ok::<_, Failure>(value)
    };
    let (pods, cpus) = pods_with("podsPerCore: 3\nmaxPods: 100\n")?;
    ensure_eq!(pods, (3.0 * cpus).min(100.0), "pods on {cpus} CPUs");
    let (pods, _) = pods_with("podsPerCore: 1000000\nmaxPods: 7\n")?;
    ensure_eq!(pods, 7.0, "pods bounded by maxPods");
    Ok(())
}
