//! A node that a kubelet ran is taken over with its pods running.

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::ClusterFixture;
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use crate::e2e::support::eventually;
use crate::fixture::ClusterPrograms;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_take_over", take_over).timeout(300).needs(NEEDS),
    Test::new("cluster_exclusive_cpus_of_a_kubelet", exclusive_cpus).timeout(420).needs(NEEDS),
];

/// Nothing is restarted, and what the kubelet made goes on: volumes, hooks that are done, restart counts.
fn take_over(context: &Context) -> Result<(), Failure> {
    if let Err(error) = ClusterPrograms::find_node_suite() {
        return Err(Failure::Skip(format!("{error} (`cargo xtask setup conformance` builds the kubelet)")));
    }
    let options = NodeOptions { first_a_kubelet: true, ..NodeOptions::default() };
    let fixture = Prepared::new(context)?.start(options)?;
    put_color(&fixture, "blue")?;
    fixture.apply(&stays(fixture.name()))?;
    let mut ended = pod("ended", fixture.name(), "echo done");
    ended["spec"]["restartPolicy"] = "Never".into();
    fixture.apply(&ended)?;
    let before = fixture.wait_ready("stays")?;
    fixture.wait_pod("ended", "succeeded", 60, |pod| pod["status"]["phase"] == "Succeeded")?;
    let version = fixture.node()?["status"]["nodeInfo"]["kubeletVersion"].clone();

    let fixture = fixture.take_over()?;
    eventually(context.patiently(60), "the node object is not nodewarden's", || {
        Ok((fixture.node()?["status"]["nodeInfo"]["kubeletVersion"] != version).then_some(()))
    })?;
    // It answers from its own view of the pod once it runs it.
    let inside = |command: &str| fixture.run(&["exec", "stays", "--", "/bin/sh", "-c", command]);
    eventually(context.patiently(30), "the taken-over pod does not answer", || Ok(inside("true").ok()))?;
    let after = fixture.wait_ready("stays")?;
    same(&before, &after)?;
    ensure_eq!(inside("cat /scratch/begun")?, "hook\n", "what the postStart hook has written");
    put_color(&fixture, "green")?;
    eventually(context.patiently(120), "the file of the config map does not change", || {
        Ok((inside("cat /settings/color")? == "green").then_some(()))
    })?;
    same(&before, &fixture.pod("stays")?.unwrap_or_default())?;
    let ended = fixture.pod("ended")?.unwrap_or_default();
    ensure_eq!(ended["status"]["phase"], "Succeeded", "phase of the pod that had ended");
    ensure_eq!(ended["status"]["containerStatuses"][0]["restartCount"], 0, "its restarts");

    // From now on it is nodewarden's: started again, with the volumes that it had.
    let _cut = inside("kill -TERM 1");
    let again = fixture.wait_pod("stays", "started again", 60, |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"] == 1
            && pod["status"]["containerStatuses"][0]["ready"] == true
    })?;
    let container = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    ensure!(container(&again) != container(&before), "it has the container that was killed");
    ensure_eq!(inside("cat /scratch/begun")?, "hook\nhook\n", "the volume of the container before");
    fixture.finish()
}

/// The real kubelet and nodewarden give the same manifests the same CPUs, and what the kubelet has given is
/// taken over with its state file: nothing is restarted or moved, also when the kubelet comes back.
fn exclusive_cpus(context: &Context) -> Result<(), Failure> {
    if let Err(error) = ClusterPrograms::find_node_suite() {
        return Err(Failure::Skip(format!("{error} (`cargo xtask setup conformance` builds the kubelet)")));
    }
    if std::thread::available_parallelism().map_or(1, |cpus| cpus.get()) != 2 {
        return Err(Failure::Skip("the expected CPUs are those of a machine with two".into()));
    }
    let lines =
        "cpuManagerPolicy: static\ncpuManagerReconcilePeriod: 1s\nreservedSystemCPUs: \"0\"\n".to_owned();
    let options = NodeOptions { first_a_kubelet: true, lines, ..NodeOptions::default() };
    let fixture = Prepared::new(context)?.start(options)?;
    fixture.apply(&pod("shares", fixture.name(), WAIT))?;
    fixture.wait_ready("shares")?;
    fixture.apply(&exclusive("own", fixture.name()))?;
    let own = fixture.wait_ready("own")?;
    let both = |fixture: &ClusterFixture<'_>, own: &str, shares: &str| {
        wait_cpus(fixture, "own", own)?;
        wait_cpus(fixture, "shares", shares)
    };
    both(&fixture, "1", "0")?;

    let fixture = fixture.take_over()?;
    eventually(context.patiently(60), "the taken-over pod does not answer", || {
        Ok(fixture.run(&["exec", "own", "--", "true"]).ok())
    })?;
    both(&fixture, "1", "0")?;
    same(&own, &fixture.wait_ready("own")?)?;
    fixture.apply(&pod("later", fixture.name(), WAIT))?;
    fixture.wait_ready("later")?;
    wait_cpus(&fixture, "later", "0")?;

    // Back to the kubelet, with the state file that nodewarden has written, and to nodewarden again.
    let agents = fixture.node()?["status"]["nodeInfo"]["kubeletVersion"].clone();
    let fixture = fixture.give_back()?;
    eventually(context.patiently(90), "the node object is not the kubelet's", || {
        Ok((fixture.node()?["status"]["nodeInfo"]["kubeletVersion"] != agents).then_some(()))
    })?;
    eventually(context.patiently(60), "the pod does not answer through the kubelet", || {
        Ok(fixture.run(&["exec", "own", "--", "true"]).ok())
    })?;
    both(&fixture, "1", "0")?;
    same(&own, &fixture.wait_ready("own")?)?;
    let fixture = fixture.take_over()?;
    eventually(context.patiently(60), "the pod that was taken over again does not answer", || {
        Ok(fixture.run(&["exec", "own", "--", "true"]).ok())
    })?;
    both(&fixture, "1", "0")?;
    same(&own, &fixture.wait_ready("own")?)?;

    // The same manifest from the beginning, by nodewarden.
    fixture.run(&["delete", "pod", "own", "--wait=false"])?;
    fixture.wait_gone("own", 60)?;
    wait_cpus(&fixture, "shares", "0-1")?;
    fixture.apply(&exclusive("own", fixture.name()))?;
    fixture.wait_ready("own")?;
    both(&fixture, "1", "0")?;
    fixture.finish()
}

/// A Guaranteed pod that asks for one CPU.
fn exclusive(name: &str, node: &str) -> Value {
    let mut own = pod(name, node, WAIT);
    let amounts = json!({ "cpu": "1", "memory": "32Mi" });
    own["spec"]["containers"][0]["resources"] = json!({ "requests": amounts, "limits": amounts });
    own
}

/// Waits until processes of a pod may run on these CPUs.
fn wait_cpus(fixture: &ClusterFixture<'_>, name: &str, cpus: &str) -> Result<(), Failure> {
    let mut last = String::new();
    let seen = eventually(fixture.context().patiently(30), "", || {
        last = fixture.run(&["exec", name, "--", "grep", "Cpus_allowed_list", "/proc/self/status"])?;
        Ok((last.split_whitespace().nth(1) == Some(cpus)).then_some(()))
    });
    seen.map_err(|_| Failure::Unexpected(format!("pod {name} may run on {last:?}, not on {cpus}")))
}

/// A pod whose hook writes into its volume each time that it runs.
fn stays(node: &str) -> Value {
    let mut stays = pod("stays", node, WAIT);
    stays["spec"]["volumes"] = json!([{ "name": "settings", "configMap": { "name": "settings" } }, { "name": "scratch", "emptyDir": {} }]);
    let container = &mut stays["spec"]["containers"][0];
    container["volumeMounts"] = json!([
        { "name": "settings", "mountPath": "/settings" },
        { "name": "scratch", "mountPath": "/scratch" },
    ]);
    let hook = ["/bin/sh", "-c", "echo hook >> /scratch/begun"];
    container["lifecycle"] = json!({ "postStart": { "exec": { "command": hook } } });
    container["resources"] = json!({ "requests": { "cpu": "50m", "memory": "32Mi" } });
    stays
}

fn put_color(fixture: &ClusterFixture<'_>, value: &str) -> Result<(), Failure> {
    fixture.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" },
        "data": { "color": value },
    }))
}

/// The same container runs, and the status tells of no other begin.
fn same(before: &Value, after: &Value) -> Result<(), Failure> {
    let of = |pod: &Value| {
        let container = &pod["status"]["containerStatuses"][0];
        let times = [&pod["status"]["startTime"], &container["state"]["running"]["startedAt"]];
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.filter(|one| one["type"] == "Ready").map(|one| &one["lastTransitionTime"]);
        let ready: Vec<_> = ready.collect();
        json!([container["containerID"], container["restartCount"], times, pod["status"]["podIP"], ready])
    };
    ensure_eq!(of(after), of(before), "container, restarts, times, address and since when it is ready");
    Ok(())
}
