//! Who is not root gets nothing over gRPC.

use std::os::unix::fs::PermissionsExt;

use crate::fixture::{Agent, AgentOptions, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::Asked;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("unprivileged_is_refused", unprivileged).needs(&[Capability::Root, Capability::Loopback])];

/// `nobody`.
const UID: &str = "65534";

fn unprivileged(context: &Context) -> Result<(), Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    ensure_eq!(ask(context, &agent, "0")?, Asked::Answered, "root's question");
    let asked = ask(context, &agent, UID)?;
    ensure!(asked != Asked::Answered, "uid {UID} was answered");

    // Even when someone opens the socket to all, the peer's credentials decide.
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(agent.socket(), open).map_err(Failure::file(agent.socket()))?;
    let asked = ask(context, &agent, UID)?;
    ensure!(asked != Asked::Answered, "uid {UID} was answered through an open socket");
    ensure_eq!(ask(context, &agent, "0")?, Asked::Answered, "root's question afterwards");
    Ok(())
}

fn ask(context: &Context, agent: &Agent, uid: &str) -> Result<Asked, Failure> {
    let socket = agent.socket().display().to_string();
    let worker = Worker::start(context, None, &["ask", &socket, uid])?;
    Ok(worker.report(context.patiently(40))?)
}
