//! A page that is open in a browser, and what the tests ask of it.

use std::time::Duration;

use serde_json::Value;

use crate::e2e::support::eventually;
use crate::fixture::{Agent, Browser};
use crate::harness::{Context, Failure};

/// How often it is opened until it is live. Chromium gives up what it loads when an interface of the machine
/// comes or goes (ERR_NETWORK_CHANGED), as other tests' do.
const ATTEMPTS: u32 = 3;

/// The page of an agent.
pub struct Page {
    pub browser: Browser,
    wait: Duration,
}

impl Page {
    /// Opens it and waits until the agent's figures are there.
    pub fn open(context: &Context, agent: &Agent) -> Result<Self, Failure> {
        let mut page = Self { browser: Browser::start(context)?, wait: context.patiently(20) };
        page.browser.appear(1360, 860, false)?;
        let mut attempt = 1;
        loop {
            page.browser.open(&format!("http://{}/ui/", agent.http()))?;
            let live = page.until("the page is live", "document.body?.dataset.link === 'live'");
            let Err(failure) = live else { return Ok(page) };
            let problems = page.browser.take_problems().join("; ");
            if attempt == ATTEMPTS {
                return Err(Failure::Unexpected(format!("{failure}; the browser reports: {problems}")));
            }
            println!("    attempt {attempt} to open the page: {failure}; the browser reports: {problems}");
            attempt += 1;
        }
    }

    /// Shows a view.
    pub fn go(&mut self, view: &str) -> Result<(), Failure> {
        self.browser.evaluate(&format!("location.hash = '{view}'"))?;
        self.until(view, &format!("!document.getElementById('view-{view}').hidden"))
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, what: &str, expression: &str) -> Result<(), Failure> {
        let browser = &mut self.browser;
        let missing = format!("{what}: not so: {expression}");
        eventually(self.wait, &missing, || Ok((browser.evaluate(expression)? == true).then_some(())))
    }

    /// The value of an expression once it has one.
    pub fn value(&mut self, expression: &str) -> Result<Value, Failure> {
        let browser = &mut self.browser;
        let missing = format!("there is no {expression}");
        eventually(self.wait, &missing, || {
            let value = browser.evaluate(expression)?;
            Ok((!value.is_null()).then_some(value))
        })
    }

    /// The figure of a column in the row of this key, as a number.
    pub fn figure(&mut self, key: &str, column: &str) -> Result<f64, Failure> {
        let selector =
            format!("section:not([hidden]) [data-key=\"{key}\"] [data-column={column}] [data-value]");
        let value = self.value(&format!("document.querySelector('{selector}')?.dataset.value ?? null"))?;
        let number = value.as_str().and_then(|text| text.parse().ok());
        number.ok_or_else(|| Failure::Unexpected(format!("{column} of {key} is {value}")))
    }

    /// Fails if the console has reported an error.
    pub fn has_no_problems(&mut self) -> Result<(), Failure> {
        // So that what has been reported meanwhile is read too.
        self.browser.evaluate("0")?;
        let problems = self.browser.problems();
        match problems {
            [] => Ok(()),
            [first, ..] => Err(Failure::Unexpected(format!("{} problems: {first}", problems.len()))),
        }
    }
}
