//! `nodewarden images`, `gc --dry-run` and `gc`, as a person uses them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::NEEDS;
use super::site::{Site, image, words};
use crate::fixture::{Agent, AgentOptions, PAUSE_IMAGE, RemovalAction};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("gc_command_line", commands).timeout(120).needs(NEEDS)];

const HIGH: u64 = 60;
const LOW: u64 = 50;

fn commands(context: &Context) -> Result<(), Failure> {
    // Nothing is collected but on demand.
    let mut site = Site::new(context, [HIGH, LOW], "", "gc: {periodSeconds: 3600}")?;
    let next = site.import_to(0, 52.0)?;
    let pods = site.pods(&[1])?;
    // A start looks at the images; they are to be older than the minimum age.
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    std::thread::sleep(Duration::from_secs(2) * context.patience);

    let listed = site.printed(&["images"])?;
    for n in 0..next {
        ensure!(listed.contains(&image(n)), "{} is not listed in\n{listed}", image(n));
    }
    ensure!(listed.contains("pod1"), "nothing says that pod1 uses its image:\n{listed}");
    let states = states(&site)?;
    for n in 0..next {
        let expected = if n == 1 { "container" } else { "not_needed" };
        ensure_eq!(states.get(&image(n)).map(String::as_str), Some(expected), "state of {}", image(n));
    }
    ensure_eq!(states.get(PAUSE_IMAGE).map(String::as_str), Some("sandbox"), "state of the sandboxes' image");

    // Below the threshold nothing is due.
    site.printed(&["gc"])?;
    ensure_eq!(site.ground.proxy.removals().len(), 0, "removals below the threshold");
    let filled = site.ground.disk.fill_to("filler", 66);
    filled.map_err(Failure::file(site.ground.disk.path()))?;

    ensure!(self::states(&site)?.values().any(|state| state == "removable"), "nothing would go");
    let planned = site.printed(&["gc", "--dry-run"])?;
    let plan = planned_names(&planned);
    ensure!(plan.len() >= 2 && !plan.contains(&image(1)), "{} images in the plan:\n{planned}", plan.len());
    ensure_eq!(site.ground.proxy.removals().len(), 0, "removals by a dry run");
    site.ground.proxy.rule(|_, _| RemovalAction::Fail);
    let output = site.stage.command(&["gc"])?;
    ensure!(!output.status.success(), "gc could remove nothing and succeeded: {}", words(&output));
    ensure!(words(&output).contains("the test says so"), "why is not in: {}", words(&output));

    site.ground.proxy.rule(|_, _| RemovalAction::Pass);
    let tried = site.ground.proxy.removals().len();
    let done = site.printed(&["gc"])?;
    ensure!(
        site.ground.space()?.above(LOW) <= 0,
        "gc did not reach {LOW} %: {:?}\n{done}",
        site.ground.space()
    );
    let removals = site.ground.proxy.removals().split_off(tried);
    let gone: Vec<String> = removals.iter().filter_map(|one| one.names.first().cloned()).collect();
    // So many at least: layers that stay with another image are counted in the plan, too.
    ensure!(gone.starts_with(&plan), "planned were {plan:?}, and {gone:?} went");
    for removal in &removals {
        let known = removal.names.iter().any(|name| done.contains(name));
        ensure!(known || removal.names.is_empty(), "{:?} went and was not told:\n{done}", removal.names);
    }
    let last = removals.last().map(|one| one.before.above(LOW)).unwrap_or_default();
    ensure!(last > 0, "one removal too many:\n{done}");
    ensure!(done.to_lowercase().contains("freed"), "no summary:\n{done}");
    site.printed(&["gc"])?;
    ensure_eq!(site.ground.proxy.removals().len(), tried + removals.len(), "removals, nothing being due");
    site.all_well(&pods)?;
    observing(context, &site)?;
    site.stage.finish()
}

/// The images that would go, in order.
fn planned_names(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("would be removed"));
    let names = lines.filter_map(|line| line.strip_prefix("image ")?.split([' ', ',']).next());
    names.map(str::to_owned).collect()
}

/// The state of each image by its name, as programs read it.
fn states(site: &Site<'_>) -> Result<BTreeMap<String, String>, Failure> {
    let text = site.printed(&["images", "--output", "json"])?;
    let listed: Value =
        serde_json::from_str(&text).map_err(|error| Failure::Unexpected(format!("{error}: {text}")))?;
    let images = listed["images"].as_array().into_iter().flatten();
    let state = |one: &Value| {
        let name = one["names"][0].as_str().unwrap_or_default().to_owned();
        (name, one["state"].as_str().unwrap_or_default().to_owned())
    };
    Ok(images.map(state).collect())
}

/// An agent that only watches shows images and removes none.
fn observing(context: &Context, site: &Site<'_>) -> Result<(), Failure> {
    let options = AgentOptions { runtime: Some(site.ground.socket().to_owned()), ..AgentOptions::default() };
    let agent = Agent::start(context, &options)?;
    let before = site.ground.proxy.removals().len();
    let listed = agent.command(&["images"])?;
    ensure!(listed.status.success() && words(&listed).contains(&image(1)), "images: {}", words(&listed));
    let refused = agent.command(&["gc"])?;
    ensure!(!refused.status.success(), "gc in mode observe: {}", words(&refused));
    ensure!(words(&refused).contains("observe"), "why is not in: {}", words(&refused));
    ensure_eq!(site.ground.proxy.removals().len(), before, "removals in mode observe");
    Ok(())
}
