//! Every view in light, dark and on a narrow screen: nothing keeps people from using it, and nothing is cut
//! off.
//!
//! With `NODEWARDEN_PICTURES` the pictures are written into that folder, in base64.

use std::path::Path;

use super::NEEDS;
use super::fixture::Page;
use crate::ensure;
use crate::fixture::{Agent, AgentOptions, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test, axe};

pub const TESTS: &[Test] = &[
    Test::new("page_in_light_dark_and_narrow", looks).needs(NEEDS).timeout(180),
    Test::new("page_is_accessible", accessible).timeout(180).needs(&[
        Capability::Root,
        Capability::Loopback,
        Capability::FullSpeed,
        Capability::Chromium,
        Capability::Axe,
    ]),
];

const VIEWS: [&str; 5] = ["overview", "pods", "timeline", "cgroups", "devices"];
/// Width, height, dark.
const LOOKS: [(&str, u32, u32, bool); 3] =
    [("light", 1360, 860, false), ("dark", 1360, 860, true), ("narrow", 390, 844, false)];
const PICTURES: &str = "NODEWARDEN_PICTURES";

/// Pods of which one works, and an agent that sees them.
fn stage(context: &Context) -> Result<(TestRoot, Worker, Agent), Failure> {
    let root = TestRoot::new(context)?;
    let above = root.child("kubepods")?.child("burstable")?;
    for n in 1..9 {
        above.child(&format!("pod{n}c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77"))?;
    }
    let busy = above.child("pod0c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77")?.child(&"a1".repeat(32))?;
    let worker = Worker::start(context, Some(&busy), &["spin", "120000"])?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    Ok((root, worker, agent))
}

/// Nothing is wider than the screen, and each look has other pixels.
fn looks(context: &Context) -> Result<(), Failure> {
    let (_root, _worker, agent) = stage(context)?;
    let mut page = Page::open(context, &agent)?;
    let mut first = Vec::new();
    for (look, width, height, dark) in LOOKS {
        page.browser.appear(width, height, dark)?;
        for view in VIEWS {
            page.go(view)?;
            std::thread::sleep(context.patiently(1));
            let wide = page.browser.evaluate("document.documentElement.scrollWidth - innerWidth")?;
            ensure!(wide.as_i64().is_some_and(|wide| wide <= 0), "{view} is {wide} too wide in {look}");
            let picture = page.browser.picture()?;
            ensure!(picture.len() > 5_000, "the picture of {view} in {look} is empty");
            if let Some(folder) = std::env::var_os(PICTURES) {
                let path = Path::new(&folder).join(format!("{view}-{look}.png.base64"));
                std::fs::write(&path, &picture).map_err(Failure::file(&path))?;
            }
            if view == "overview" {
                first.push(picture);
            }
        }
    }
    first.dedup();
    ensure!(first.len() == LOOKS.len(), "the looks are the same");
    page.has_no_problems()
}

/// axe-core finds no fault in any view, nor in the panel.
fn accessible(context: &Context) -> Result<(), Failure> {
    let (_root, _worker, agent) = stage(context)?;
    let mut page = Page::open(context, &agent)?;
    let path = axe().ok_or_else(|| Failure::Skip("no axe-core".into()))?;
    let script = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    page.browser.evaluate(&format!("{script};0"))?;
    for (look, width, height, dark) in LOOKS {
        page.browser.appear(width, height, dark)?;
        for view in VIEWS {
            page.go(view)?;
            page.value("document.querySelector('section:not([hidden])').firstElementChild?.tagName ?? null")?;
            no_faults(&mut page, &format!("{view} in {look}"))?;
        }
        page.go("pods")?;
        page.browser.evaluate("document.querySelector('#view-pods .grid').focus()")?;
        page.browser.press("ArrowDown")?;
        page.browser.press("Enter")?;
        page.until("the panel is open", "document.getElementById('panel').open")?;
        page.until("the panel has slid in", "document.getElementById('panel').getAnimations().length === 0")?;
        no_faults(&mut page, &format!("the panel in {look}"))?;
        page.browser.press("Escape")?;
    }
    page.has_no_problems()
}

fn no_faults(page: &mut Page, place: &str) -> Result<(), Failure> {
    let found = page.browser.evaluate(
        "axe.run().then((found) => found.violations.map((fault) => \
         `${fault.id}: ${fault.help}: ${fault.nodes[0].html.slice(0, 160)}`))",
    )?;
    ensure!(found.as_array().is_some_and(Vec::is_empty), "{place}: {found}");
    Ok(())
}
