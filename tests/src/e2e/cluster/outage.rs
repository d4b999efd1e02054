//! The API server is away, and the agent ends meanwhile: what happened is reported afterwards, and nothing is
//! restarted.

use std::time::Duration;

use super::NEEDS;
use super::fixture::{ClusterFixture, ensure_no_restart};
use super::manifest::{WAIT, pod};
use crate::ensure_eq;
use crate::harness::{Context, Failure, Test};

pub const TESTS: &[Test] = &[Test::new("cluster_outage", outage).timeout(300).needs(NEEDS)];

fn outage(context: &Context) -> Result<(), Failure> {
    let mut fixture = ClusterFixture::start_alone(context)?;
    let node = fixture.name().to_owned();
    fixture.apply(&pod("stays", &node, WAIT))?;
    // Ends by itself while the API server is away.
    let mut ends = pod("ends", &node, "sleep 8; exit 3");
    ends["spec"]["restartPolicy"] = "Never".into();
    fixture.apply(&ends)?;
    let before = fixture.wait_ready("stays")?;
    fixture.wait_ready("ends")?;

    fixture.control_plane()?.api_server().kill();
    fixture.restart_agent(|| {
        std::thread::sleep(Duration::from_secs(10));
        Ok(())
    })?;
    std::thread::sleep(Duration::from_secs(2));
    let control_plane = fixture.control_plane()?;
    control_plane.api_server().start()?;
    control_plane.wait_ready()?;

    let ended = fixture.wait_pod("ends", "failed", 60, |pod| pod["status"]["phase"] == "Failed")?;
    let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
    ensure_eq!(state["exitCode"], 3, "exit code of a container that ended during the outage");
    let after = fixture.wait_ready("stays")?;
    ensure_no_restart(&after)?;
    let container = |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    ensure_eq!(container(&after), container(&before), "the container that ran all the time");
    fixture.finish()
}
