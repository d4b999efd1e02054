//! (under construction)

/// Why the agent could not run.
#[derive(Debug, thiserror::Error)]
#[error("the daemon is under construction")]
pub struct WatchError;

pub fn run(_config: crate::config::Config) -> Result<(), WatchError> {
    Err(WatchError)
}
