//! The page is used by the keyboard alone, and says when the agent is gone.

use nix::sys::signal::Signal;

use super::NEEDS;
use super::fixture::Page;
use crate::ensure_eq;
use crate::fixture::{Agent, AgentOptions, TestRoot};
use crate::harness::{Context, Failure, Test};

pub const TESTS: &[Test] = &[
    Test::new("page_by_keyboard", keyboard).needs(NEEDS).timeout(120),
    Test::new("page_says_that_the_agent_is_gone", gone).needs(NEEDS).timeout(120),
];

const SELECTED: &str = "(document.querySelector('#view-pods [aria-selected=true]')?.dataset.key ?? null)";
const OPEN: &str = "document.getElementById('panel').open";

/// Numbers choose the view, arrows a row, Enter opens it, Escape closes it and leads back.
fn keyboard(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let above = root.child("kubepods")?.child("besteffort")?;
    let uids = ["1", "2", "3"].map(|n| format!("{n}c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77"));
    for uid in &uids {
        above.child(&format!("pod{uid}"))?;
    }
    let agent = Agent::start(context, &AgentOptions::default())?;
    let mut page = Page::open(context, &agent)?;
    for (key, view) in [
        ("2", "pods"),
        ("3", "timeline"),
        ("4", "cgroups"),
        ("5", "devices"),
        ("1", "overview"),
        ("2", "pods"),
    ] {
        page.browser.press(key)?;
        page.until(view, &format!("!document.getElementById('view-{view}').hidden"))?;
    }
    page.until(
        "the pods are there",
        "document.querySelectorAll('#view-pods .grid-body .row:not([hidden])').length >= 3",
    )?;
    // By the filter to the table.
    page.browser.press("/")?;
    page.until("the filter has the focus", "document.activeElement.type === 'search'")?;
    page.browser.press("Escape")?;
    page.until("the table has the focus", "document.activeElement.getAttribute('role') === 'grid'")?;
    page.browser.press("ArrowDown")?;
    let first = page.value(SELECTED)?;
    page.browser.press("ArrowDown")?;
    page.until("the next row is chosen", &format!("{SELECTED} !== {first}"))?;
    let second = page.value(SELECTED)?;
    page.browser.press("Enter")?;
    page.until("the panel is open", OPEN)?;
    let shown = page.value("document.getElementById('panel-title').textContent")?;
    ensure_eq!(shown, second, "the pod in the panel");
    page.browser.press("Escape")?;
    page.until("the panel is closed", &format!("!{OPEN}"))?;
    page.until("the table has the focus again", "document.activeElement.getAttribute('role') === 'grid'")?;
    page.has_no_problems()
}

/// When the agent ends, the page says so and keeps what it has shown.
fn gone(context: &Context) -> Result<(), Failure> {
    let mut agent = Agent::start(context, &AgentOptions::default())?;
    let mut page = Page::open(context, &agent)?;
    page.has_no_problems()?;
    let status = agent.end(Signal::SIGTERM, context.patiently(5))?;
    ensure_eq!(status.code(), Some(0), "exit status of an agent with an open page");
    page.until("the page notices", "document.getElementById('link-text').textContent === 'Reconnecting…'")?;
    page.until(
        "it says since when",
        "document.getElementById('banner').textContent.includes('does not answer')",
    )?;
    page.until(
        "the figures stay",
        "document.querySelector('[data-figure=memory]').textContent.includes('iB')",
    )
}
