//! `--features`: tries what works, falls back or is off on this kernel, and prints one JSON object per
//! feature.

mod probe;
mod row;

use std::path::PathBuf;

use self::row::{Found, Topic, rows};
use crate::fixture::{Agent, AgentOptions, Layout};
use crate::harness::{Context, Failure, clean_up_when_interrupted};

/// Prints the rows, and nothing else, to standard output.
///
/// # Errors
/// The agent does not start or answer, or a probe left something behind.
pub fn report(agent: PathBuf, patience: u32) -> Result<(), Failure> {
    clean_up_when_interrupted();
    let own = std::env::current_exe().map_err(Failure::file("own binary"))?;
    let context = Context::new(agent, own, "features", std::process::id(), patience, Layout::detect()?)
        .map_err(Failure::file(std::env::temp_dir()))?;
    let found = collect(&context)?;
    let problems = context.problems().take();
    crate::ensure!(problems.is_empty(), "{}", problems.join("; "));
    for row in rows(&found) {
        let line = serde_json::to_string(&row).map_err(|e| Failure::Unexpected(format!("{row:?}: {e}")))?;
        println!("{line}");
    }
    Ok(())
}

/// Tries every feature.
fn collect(context: &Context) -> Result<Found, Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    let status = agent.client()?.status()?;
    drop(agent);
    let topics = status.topics.into_iter();
    let topics = topics.map(|t| Topic { name: t.topic, state: t.state, reason: t.reason });
    Ok(Found {
        topics: topics.chain([probe::exclusive_cpus(context)?]).collect(),
        layout: status.cgroup_layout,
        controllers: probe::controllers(&context.layout),
        files: probe::files(context)?,
        abilities: probe::abilities(context)?,
    })
}
