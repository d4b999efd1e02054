//! Commands in containers with streamed input and output: CRI's Exec returns the URL of a server of the
//! runtime that implements the kubelet's remote command protocol.
//!
//! - [`websocket`]: over WebSocket, subprotocol v5.channel.k8s.io or v4.channel.k8s.io. v4 cannot signal the
//!   end of the input, and containerd (1.6 as well as 2.2) implements no other.
//! - [`spdy`]: over SPDY/3.1, which every runtime implements and which can signal it. It is used for commands
//!   with input that is not a terminal; WebSocket v5 is used if a runtime no longer supports SPDY.
//! - [`status`]: the result of the command.

mod address;
mod error;
mod frame;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod spdy;
mod status;
#[cfg(test)]
mod tests;
mod websocket;

use nodewarden_proto::runtime::v1 as cri;
use tokio::sync::mpsc;

use super::Client;
use crate::logs::Piece;
pub use address::Address;
pub use error::ExecError;

/// Maximum number of bytes of input in one message.
const LARGEST_INPUT: usize = 32 << 10;

/// A command in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecCommand {
    /// The runtime's id of the container.
    pub container_id: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether the command has input.
    pub stdin: bool,
    /// Whether it runs in a terminal; then its stderr is part of stdout.
    pub tty: bool,
}

/// Input for a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// Bytes for the command's standard input.
    Stdin(Vec<u8>),
    /// The end of the input.
    Close,
    /// The new size of the terminal.
    Resize {
        /// Width in characters.
        columns: u16,
        /// Height in lines.
        rows: u16,
    },
}

impl Client {
    /// Runs a command and passes on its input and output; returns its exit code (128 plus the signal's number
    /// if a signal ended it). Dropping the sender of `input` does not close the command's input.
    ///
    /// Dropping the future closes the connection and does not end the command: it continues until it reads
    /// from or writes to a closed stream, as with the kubelet.
    ///
    /// # Errors
    /// The command could not be started, or the connection broke before the command ended.
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
                // A URL is valid for one connection.
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
