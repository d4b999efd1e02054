//! A call to the agent by a user who is not allowed to make it.

use std::path::Path;

use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

use super::WorkError;
use super::report::Asked;
use crate::fixture::{Client, RpcError};

/// Changes to another user and calls GetStatus.
pub fn ask(socket: &Path, uid: u32) -> Result<Asked, WorkError> {
    setgroups(&[]).map_err(WorkError::system("setgroups"))?;
    setgid(Gid::from_raw(uid)).map_err(WorkError::system("setgid"))?;
    setuid(Uid::from_raw(uid)).map_err(WorkError::system("setuid"))?;
    Ok(match Client::connect(socket).and_then(|client| client.status()) {
        Ok(_) => Asked::Answered,
        Err(error @ RpcError::Connect { .. }) => Asked::NotConnected(error.to_string()),
        Err(error) => Asked::Refused(error.to_string()),
    })
}
