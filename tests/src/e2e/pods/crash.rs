//! Back-off of a container that fails again and again.

use std::fs;

use serde_json::json;

use super::NEEDS;
use super::fixture::PodFixture;
use super::manifest::{pod, shell};
use crate::e2e::support::eventually;
use crate::ensure;
use crate::harness::{Context, Failure, Test};

pub const TESTS: &[Test] = &[Test::new("pod_crash_loop_back_off", crash).timeout(120).needs(NEEDS)];

/// Seconds that a container may start late, on an ordinary and on a loaded emulated machine, where its start
/// alone takes seconds.
const LATE_S: [f64; 2] = [1.5, 60.0];

/// A crashing container waits twice as long before each restart, up to the maximum; a run longer than the
/// reset time starts over.
fn crash(context: &Context) -> Result<(), Failure> {
    let kubelet = "featureGates: {KubeletCrashLoopBackOffMax: true}\n\
                   crashLoopBackOff: {maxContainerRestartPeriod: 4s}\n";
    let section = "crashLoopBackOffInitialSeconds: 1\ncrashLoopBackOffResetSeconds: 10";
    let mut fixture = PodFixture::with_config(context, kubelet, section)?;
    let notes = context.temp.join("notes");
    fs::create_dir(&notes).map_err(Failure::file(&notes))?;
    let mount = json!({ "volumeMounts": [{ "name": "notes", "mountPath": "/notes" }] });
    // Its sixth run lasts longer than the reset time.
    let script = "cut -d ' ' -f 1 /proc/uptime >> /notes/starts; test `wc -l < /notes/starts` -eq 6 && sleep 11; \
                  cut -d ' ' -f 1 /proc/uptime >> /notes/ends; exit 1";
    let volumes = json!([{ "name": "notes", "hostPath": { "path": notes } }]);
    fixture.put([pod("crash", json!({ "volumes": volumes, "containers": [shell("c", script, mount)] }))])?;
    let waiting = fixture.wait_until("crash", "in its back-off", 30, |pod| {
        pod.container("c").is_ok_and(|c| c.waiting_reason() == "CrashLoopBackOff" && c.restarts() >= 1)
    })?;
    let message = waiting.container("c")?.waiting_message().to_owned();
    ensure!(message.contains("back-off") && message.contains("restarting failed container=c"), "{message:?}");
    let times = |name: &str| -> Result<Vec<f64>, Failure> {
        let path = notes.join(name);
        let text = fs::read_to_string(&path).map_err(Failure::file(&path))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    };
    eventually(context.patiently(60), "the container was not started for the 8th time", || {
        Ok((times("starts")?.len() >= 8).then_some(()))
    })?;
    let (starts, ends) = (times("starts")?, times("ends")?);
    let waits: Vec<f64> = ends.iter().zip(starts.iter().skip(1)).map(|(end, start)| start - end).collect();
    // The first restart is immediate, as in the kubelet; after the long run the waits start over.
    let expected = [0.0, 1.0, 2.0, 4.0, 4.0, 0.0, 1.0];
    let late = context.scaled(LATE_S);
    ensure!(waits.len() >= expected.len(), "waits {waits:?}");
    for (wait, expected) in waits.iter().zip(expected) {
        ensure!(
            (expected - 0.05..expected + late).contains(wait),
            "waits are {waits:?}, not {expected:?} s and at most {late} s more each"
        );
    }
    fixture.finish()
}
