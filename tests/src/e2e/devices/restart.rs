//! The agent ends and another begins: every pod has its devices, and no container notices.

use super::NEEDS;
use super::site::{Site, identity, wants};
use crate::e2e::pods::seen::Seen;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_agent_restarts", restarts).timeout(150).needs(NEEDS),
    Test::new("devices_plugin_not_back", not_back).timeout(150).needs(NEEDS),
];

fn identities(pods: &[Seen]) -> Result<Vec<(String, String, u64)>, Failure> {
    pods.iter().map(identity).collect()
}

fn restarts(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let ids = ["t0", "t1", "t2", "t3", "t4"];
    let plugin = site.plugin(&site.behaviour("thing", &ids))?;
    site.stage.put([wants("two", &[("thing", 2)]), wants("one", &[("thing", 1)])])?;
    let up = |site: &Site<'_>| -> Result<Vec<Seen>, Failure> {
        ["two", "one"].into_iter().map(|name| site.stage.up(name)).collect()
    };
    let before = identities(&up(&site)?)?;
    let given = site.given()?;
    let allocated = plugin.calls("Allocate").len();
    for killed in [false, true, true] {
        if killed {
            site.stage.kill_agent()?;
        } else {
            site.stage.stop_agent();
        }
        site.stage.start_agent()?;
        ensure_eq!(site.given()?, given, "what pods have as soon as the agent is ready (killed: {killed})");
        site.until_allocatable("thing", &ids)?;
        ensure_eq!(site.given()?, given, "what pods have with the plugin back");
        ensure_eq!(identities(&up(&site)?)?, before, "the pods");
    }
    ensure_eq!(plugin.calls("Allocate").len(), allocated, "calls of Allocate: nobody new wants devices");
    // What is free is known too.
    site.stage.put([wants("rest", &[("thing", 2)])])?;
    let rest = site.stage.up("rest")?;
    let rest = site.told(&rest, "c")?;
    let taken: Vec<_> = given.values().flat_map(|pod| pod.values()).flatten().collect();
    ensure!(rest.len() == 2 && !taken.iter().any(|id| rest.contains(*id)), "{rest:?} beside {taken:?}");
    site.stage.finish()
}

fn not_back(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let behaviour = site.behaviour("thing", &["t0", "t1"]);
    let plugin = site.plugin(&behaviour)?;
    site.stage.put([wants("has", &[("thing", 1)])])?;
    let before = site.stage.up("has")?;
    let ids = site.told(&before, "c")?;
    site.stage.kill_agent()?;
    drop(plugin);
    site.stage.put([wants("new", &[("thing", 1)])])?;
    site.stage.start_agent()?;
    let message = site.waits("new", "DevicePluginNotReady")?;
    ensure!(message.contains("nodewarden.test/thing"), "{message:?}");
    let running = site.stage.up("has")?;
    ensure_eq!(identity(&running)?, identity(&before)?, "the pod that runs without its plugin");
    ensure_eq!(site.given_to("has", "thing")?, ids, "its devices");
    let _plugin = site.plugin(&behaviour)?;
    let new = site.stage.up("new")?;
    let of_new = site.told(&new, "c")?;
    ensure!(of_new.len() == 1 && of_new.is_disjoint(&ids), "{of_new:?} beside {ids:?}");
    ensure_eq!(identity(&site.stage.up("has")?)?, identity(&before)?, "the pod with its plugin back");
    site.stage.finish()
}
