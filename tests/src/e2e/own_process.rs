//! Keys of the configuration about the agent's own process: its log and its open files.

use serde_json::Value;

use crate::fixture::{Agent, AgentOptions};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("agent_log_and_open_files_by_configuration", log_and_files).needs(&[
    Capability::Root,
    Capability::Btf,
    Capability::Loopback,
])];

const FILES: &str = "5000";

/// With `logging.format: json` each line is an object, with `verbosity: 4` some are for debugging;
/// `maxOpenFiles` is the process's limit; a key without effect is named with the reason.
fn log_and_files(context: &Context) -> Result<(), Failure> {
    let kubelet =
        format!("logging: {{format: json, verbosity: 4}}\nmaxOpenFiles: {FILES}\nhairpinMode: none\n");
    let agent = Agent::start(context, &AgentOptions { kubelet, ..Default::default() })?;
    let path = format!("/proc/{}/limits", agent.pid());
    let limits = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let both: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    ensure_eq!(both, [FILES, FILES], "soft and hard limit of open files");
    let log = agent.log();
    let mut levels = Vec::new();
    let mut reasons = 0;
    for line in log.lines() {
        let own: Value =
            serde_json::from_str(line).map_err(|e| Failure::Unexpected(format!("{line}: {e}")))?;
        levels.push(own["level"].as_str().unwrap_or_default().to_owned());
        let is_key = own["fields"]["key"] == "hairpinMode";
        let text = own["fields"]["message"].as_str().unwrap_or_default();
        reasons += usize::from(is_key && text.ends_with("the container runtime sets up the network"));
    }
    ensure_eq!(reasons, 1, "lines about the key without effect");
    for level in ["INFO", "DEBUG"] {
        ensure!(levels.iter().any(|own| own == level), "no line of level {level}: {levels:?}");
    }
    Ok(())
}
