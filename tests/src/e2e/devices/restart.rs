//! Devices over restarts of the agent.

use super::NEEDS;
use super::fixture::{DeviceFixture, identity, requesting};
use crate::e2e::pods::listed::ListedPod;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_agent_restarts", restarts).timeout(150).needs(NEEDS),
    Test::new("devices_plugin_missing", without_plugin).timeout(150).needs(NEEDS),
];

/// What must not change of each pod.
fn identities(pods: &[ListedPod]) -> Result<Vec<(String, String, u64)>, Failure> {
    pods.iter().map(identity).collect()
}

/// After SIGTERM and kill -9 the next agent knows every pod's devices at once, allocates none again, and
/// knows which are free.
fn restarts(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let ids = ["t0", "t1", "t2", "t3", "t4"];
    let plugin = fixture.start_plugin(&fixture.behaviour("thing", &ids))?;
    fixture.pods.put([requesting("two", &[("thing", 2)]), requesting("one", &[("thing", 1)])])?;
    let up = |fixture: &DeviceFixture<'_>| -> Result<Vec<ListedPod>, Failure> {
        ["two", "one"].into_iter().map(|name| fixture.pods.wait_up(name)).collect()
    };
    let before = identities(&up(&fixture)?)?;
    let given = fixture.allocated()?;
    let allocated = plugin.calls("Allocate").len();
    for killed in [false, true, true] {
        if killed {
            fixture.pods.kill_agent()?;
        } else {
            fixture.pods.stop_agent();
        }
        fixture.pods.start_agent()?;
        ensure_eq!(
            fixture.allocated()?,
            given,
            "devices of the pods as soon as the agent is ready (killed: {killed})"
        );
        fixture.wait_allocatable("thing", &ids)?;
        ensure_eq!(fixture.allocated()?, given, "devices of the pods once the plugin is back");
        ensure_eq!(identities(&up(&fixture)?)?, before, "the pods");
    }
    ensure_eq!(
        plugin.calls("Allocate").len(),
        allocated,
        "calls of Allocate, though no new pod wants devices"
    );
    // The agent also knows which devices are free.
    fixture.pods.put([requesting("rest", &[("thing", 2)])])?;
    let rest = fixture.pods.wait_up("rest")?;
    let rest = fixture.printed_devices(&rest, "c")?;
    let taken: Vec<_> = given.values().flat_map(|pod| pod.values()).flatten().collect();
    ensure!(
        rest.len() == 2 && !taken.iter().any(|id| rest.contains(*id)),
        "{rest:?} allocated, though {taken:?} are taken"
    );
    fixture.pods.finish()
}

/// When a plugin does not come back after a restart, running pods keep its devices and new pods wait for it.
fn without_plugin(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let behaviour = fixture.behaviour("thing", &["t0", "t1"]);
    let plugin = fixture.start_plugin(&behaviour)?;
    fixture.pods.put([requesting("has", &[("thing", 1)])])?;
    let before = fixture.pods.wait_up("has")?;
    let ids = fixture.printed_devices(&before, "c")?;
    fixture.pods.kill_agent()?;
    drop(plugin);
    fixture.pods.put([requesting("new", &[("thing", 1)])])?;
    fixture.pods.start_agent()?;
    let message = fixture.wait_pending("new", "DevicePluginNotReady")?;
    ensure!(message.contains("nodewarden.test/thing"), "{message:?}");
    let running = fixture.pods.wait_up("has")?;
    ensure_eq!(identity(&running)?, identity(&before)?, "the pod that runs without its plugin");
    ensure_eq!(fixture.allocated_to("has", "thing")?, ids, "its devices");
    let _plugin = fixture.start_plugin(&behaviour)?;
    let new = fixture.pods.wait_up("new")?;
    let of_new = fixture.printed_devices(&new, "c")?;
    ensure!(of_new.len() == 1 && of_new.is_disjoint(&ids), "{of_new:?} allocated, though {ids:?} are taken");
    ensure_eq!(identity(&fixture.pods.wait_up("has")?)?, identity(&before)?, "the pod with its plugin back");
    fixture.pods.finish()
}
