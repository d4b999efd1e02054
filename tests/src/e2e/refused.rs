//! Access to the gRPC socket.

use std::os::unix::fs::PermissionsExt;

use crate::fixture::{Agent, AgentOptions, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::Asked;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] =
    &[Test::new("unprivileged_is_refused", unprivileged).needs(&[Capability::Root, Capability::Loopback])];

/// The user `nobody`.
const UID: &str = "65534";

/// A user other than root gets no answer over gRPC, even through a socket that is open to all.
fn unprivileged(context: &Context) -> Result<(), Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    ensure_eq!(ask(context, &agent, "0")?, Asked::Answered, "root's question");
    let asked = ask(context, &agent, UID)?;
    ensure!(asked != Asked::Answered, "uid {UID} was answered");

    // The peer's credentials decide, even when the socket's mode is open to all.
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(agent.socket(), open).map_err(Failure::file(agent.socket()))?;
    let asked = ask(context, &agent, UID)?;
    ensure!(asked != Asked::Answered, "uid {UID} was answered through an open socket");
    ensure_eq!(ask(context, &agent, "0")?, Asked::Answered, "root's question afterwards");
    Ok(())
}

/// Sends a request to the agent as the user `uid`, and returns whether it was answered.
fn ask(context: &Context, agent: &Agent, uid: &str) -> Result<Asked, Failure> {
    let socket = agent.socket().display().to_string();
    let worker = Worker::start(context, None, &["ask", &socket, uid])?;
    Ok(worker.report(context.patiently(40))?)
}
