//! Commands in containers whose input and output stream: CRI's Exec gives the address of a server of the runtime's,
//! and that speaks the kubelet's remote command protocol.
//!
//! - [`websocket`]: over WebSocket, subprotocol v5.channel.k8s.io or v4.channel.k8s.io. v4 has no way to say that the
//!   input is over, and containerd (1.6 as much as 2.2) knows no other.
//! - [`spdy`]: over SPDY/3.1, which every runtime speaks and which does have one. So it is taken for a command that
//!   reads input other than from a terminal, and WebSocket v5 where a runtime no longer speaks it.
//! - [`status`]: how the command ended.

mod address;
mod error;
mod frame;
mod spdy;
mod status;
#[cfg(test)]
mod tests;
mod websocket;

use nodewarden_proto::runtime::v1 as cri;
use tokio::sync::mpsc;

use super::Client;
use crate::logs::Piece;
use address::Address;
pub use error::ExecError;

/// Bytes of input in one message.
const LARGEST_INPUT: usize = 32 << 10;

/// A command in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecCommand {
    pub container_id: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Input is passed on.
    pub stdin: bool,
    /// With a terminal; its stderr is part of stdout then.
    pub tty: bool,
}

/// What a running command is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    Stdin(Vec<u8>),
    /// Nothing more comes.
    Close,
    /// The terminal's size.
    Resize {
        columns: u16,
        rows: u16,
    },
}

impl Client {
    /// Runs a command and passes its input and output on; gives its exit code (128 and the signal's number when a
    /// signal ended it). An `input` whose sender is gone says nothing more, and does not close the command's.
    ///
    /// Dropping the future closes the connection, not the command: it goes on until it reads or writes what is
    /// closed, as with the kubelet.
    ///
    /// # Errors
    /// The command could not be started, or the connection broke before its end.
    pub async fn exec(
        &self,
        command: &ExecCommand,
        mut input: mpsc::Receiver<ExecInput>,
        output: mpsc::Sender<Piece>,
    ) -> Result<i32, ExecError> {
        if !command.stdin || command.tty {
            let address = self.exec_address(command).await?;
            return websocket::run(&address, &websocket::ANY, &mut input, &output).await;
        }
        let address = self.exec_address(command).await?;
        match spdy::run(&address, &mut input, &output).await {
            Err(ExecError::NotSpoken { .. }) => {
                // An address is good for one connection.
                let address = self.exec_address(command).await?;
                websocket::run(&address, &websocket::WITH_CLOSE, &mut input, &output).await
            }
            ended => ended,
        }
    }

    async fn exec_address(&self, command: &ExecCommand) -> Result<Address, ExecError> {
        let request = cri::ExecRequest {
            container_id: command.container_id.clone(),
            cmd: command.command.clone(),
            tty: command.tty,
            stdin: command.stdin,
            stdout: true,
            stderr: !command.tty,
        };
        Address::parse(&self.exec_url(request).await?)
    }
}

/// CRI's form of a terminal's size (`remotecommand.TerminalSize`).
fn size_message(columns: u16, rows: u16) -> Vec<u8> {
    format!("{{\"Width\":{columns},\"Height\":{rows}}}\n").into_bytes()
}
