//! A Deployment: pods that controllers make and the scheduler places.

use serde_json::Value;

use super::NEEDS;
use super::fixture::{ClusterFixture, condition};
use super::manifest::{WAIT, deployment};
use crate::e2e::support::eventually;
use crate::ensure_eq;
use crate::harness::{Context, Failure, Test};

pub const TESTS: &[Test] = &[Test::new("cluster_deployment", scaled).timeout(240).needs(NEEDS)];

/// Three replicas, then one: two pods go, and the third stays as it is.
fn scaled(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    fixture.apply(&deployment("web", fixture.name(), 3, WAIT))?;
    let three = wait_ready(&fixture, 3)?;
    fixture.run(&["scale", "deployment", "web", "--replicas=1"])?;
    let one = wait_ready(&fixture, 1)?;
    let uid = &one[0]["metadata"]["uid"];
    let before = three.iter().find(|pod| &pod["metadata"]["uid"] == uid);
    let id =
        |pod: Option<&Value>| pod.map(|pod| pod["status"]["containerStatuses"][0]["containerID"].clone());
    ensure_eq!(id(before), id(one.first()), "the container of the pod that stays");
    fixture.finish()
}

/// Waits until there are exactly so many pods, all ready.
fn wait_ready(fixture: &ClusterFixture<'_>, count: usize) -> Result<Vec<Value>, Failure> {
    let mut last = Vec::new();
    let found = eventually(fixture.context().patiently(90), "", || {
        let list = fixture.get(&["pods", "--selector", "app=web"])?;
        last = list["items"].as_array().cloned().unwrap_or_default();
        let ready = last.iter().filter(|pod| condition(pod, "Ready") == Some("True")).count();
        Ok((last.len() == count && ready == count).then(|| last.clone()))
    });
    found.map_err(|_| {
        let seen: Vec<_> = last.iter().map(|pod| format!("{}", pod["status"])).collect();
        Failure::Unexpected(format!("not {count} ready pods: {seen:#?}"))
    })
}
