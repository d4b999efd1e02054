//! The commands `nodewarden images`, `gc --dry-run` and `gc`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::NEEDS;
use super::fixture::{GcFixture, image, output_text};
use crate::fixture::{Agent, AgentOptions, PAUSE_IMAGE, RemovalAction};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("gc_command_line", commands).timeout(120).needs(NEEDS)];

const HIGH: u64 = 60;
const LOW: u64 = 50;

/// `images` shows each image's state, `gc --dry-run` plans what `gc` then removes, and `gc` reports failures
/// and stops at the low threshold; in mode observe it removes nothing.
fn commands(context: &Context) -> Result<(), Failure> {
    // The period is an hour, so that only `gc` collects.
    let mut fixture = GcFixture::new(context, [HIGH, LOW], "", "gc: {periodSeconds: 3600}")?;
    let next = fixture.import_to(0, 52.0)?;
    let pods = fixture.start_pods(&[1])?;
    // The agent detects the new images when it starts. They must be older than the minimum age.
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    std::thread::sleep(Duration::from_secs(2) * context.patience);

    let listed = fixture.output_of(&["images"])?;
    for n in 0..next {
        ensure!(listed.contains(&image(n)), "{} is not listed in\n{listed}", image(n));
    }
    ensure!(listed.contains("pod1"), "pod1 is not shown as a user of its image:\n{listed}");
    let states = states(&fixture)?;
    for n in 0..next {
        let expected = if n == 1 { "container" } else { "not_needed" };
        ensure_eq!(states.get(&image(n)).map(String::as_str), Some(expected), "state of {}", image(n));
    }
    ensure_eq!(states.get(PAUSE_IMAGE).map(String::as_str), Some("sandbox"), "state of the sandboxes' image");

    // Below the high threshold there is nothing to remove.
    fixture.output_of(&["gc"])?;
    ensure_eq!(fixture.runtime.proxy.removals().len(), 0, "removals below the threshold");
    let filled = fixture.runtime.disk.fill_to("filler", 66);
    filled.map_err(Failure::file(fixture.runtime.disk.path()))?;

    ensure!(self::states(&fixture)?.values().any(|state| state == "removable"), "no image is removable");
    let planned = fixture.output_of(&["gc", "--dry-run"])?;
    let plan = planned_names(&planned);
    ensure!(plan.len() >= 2 && !plan.contains(&image(1)), "{} images in the plan:\n{planned}", plan.len());
    ensure_eq!(fixture.runtime.proxy.removals().len(), 0, "removals by a dry run");
    fixture.runtime.proxy.rule(|_, _| RemovalAction::Fail);
    let output = fixture.pods.command(&["gc"])?;
    ensure!(!output.status.success(), "gc succeeded though every removal failed: {}", output_text(&output));
    ensure!(
        output_text(&output).contains("refused by the test"),
        "the reason is not in: {}",
        output_text(&output)
    );

    fixture.runtime.proxy.rule(|_, _| RemovalAction::Pass);
    let tried = fixture.runtime.proxy.removals().len();
    let done = fixture.output_of(&["gc"])?;
    ensure!(
        fixture.runtime.space()?.above(LOW) <= 0,
        "gc did not reach {LOW} %: {:?}\n{done}",
        fixture.runtime.space()
    );
    let removals = fixture.runtime.proxy.removals().split_off(tried);
    let removed: Vec<String> = removals.iter().filter_map(|one| one.names.first().cloned()).collect();
    // It may remove more than planned: the plan also counts layers that another image still uses.
    ensure!(removed.starts_with(&plan), "planned were {plan:?}, removed were {removed:?}");
    for removal in &removals {
        let known = removal.names.iter().any(|name| done.contains(name));
        ensure!(
            known || removal.names.is_empty(),
            "{:?} was removed and not reported:\n{done}",
            removal.names
        );
    }
    let last = removals.last().map(|one| one.before.above(LOW)).unwrap_or_default();
    ensure!(last > 0, "one removal too many:\n{done}");
    ensure!(done.to_lowercase().contains("freed"), "no summary:\n{done}");
    fixture.output_of(&["gc"])?;
    ensure_eq!(fixture.runtime.proxy.removals().len(), tried + removals.len(), "removals by a second gc");
    fixture.check_unharmed(&pods)?;
    observing(context, &fixture)?;
    fixture.pods.finish()
}

/// The images that a dry run would remove, in order.
fn planned_names(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("would be removed"));
    let names = lines.filter_map(|line| line.strip_prefix("image ")?.split([' ', ',']).next());
    names.map(str::to_owned).collect()
}

/// The state of each image by its name, from the JSON output.
fn states(fixture: &GcFixture<'_>) -> Result<BTreeMap<String, String>, Failure> {
    let text = fixture.output_of(&["images", "--output", "json"])?;
    let listed: Value =
        serde_json::from_str(&text).map_err(|error| Failure::Unexpected(format!("{error}: {text}")))?;
    let images = listed["images"].as_array().into_iter().flatten();
    let state = |one: &Value| {
        let name = one["names"][0].as_str().unwrap_or_default().to_owned();
        (name, one["state"].as_str().unwrap_or_default().to_owned())
    };
    Ok(images.map(state).collect())
}

/// Checks that an agent in mode observe lists images and refuses `gc`.
fn observing(context: &Context, fixture: &GcFixture<'_>) -> Result<(), Failure> {
    let options =
        AgentOptions { runtime: Some(fixture.runtime.socket().to_owned()), ..AgentOptions::default() };
    let agent = Agent::start(context, &options)?;
    let before = fixture.runtime.proxy.removals().len();
    let listed = agent.command(&["images"])?;
    ensure!(
        listed.status.success() && output_text(&listed).contains(&image(1)),
        "images: {}",
        output_text(&listed)
    );
    let refused = agent.command(&["gc"])?;
    ensure!(!refused.status.success(), "gc in mode observe: {}", output_text(&refused));
    ensure!(output_text(&refused).contains("observe"), "the reason is not in: {}", output_text(&refused));
    ensure_eq!(fixture.runtime.proxy.removals().len(), before, "removals in mode observe");
    Ok(())
}
