//! What the server needs of the container runtime: the addresses of its streaming server, and commands
//! without streams.

use async_trait::async_trait;
use nodewarden_cri::{Client, ExecOutput, RuntimeError};
use nodewarden_proto::runtime::v1 as cri;

use crate::query::StreamOptions;

/// The streams of a runtime. Each URL is valid for one connection.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// The URL of a command in a container, which starts when it is connected to.
    async fn exec(
        &self,
        container: &str,
        command: &[String],
        streams: StreamOptions,
    ) -> Result<String, RuntimeError>;
    /// The URL of the streams of a running container.
    async fn attach(&self, container: &str, streams: StreamOptions) -> Result<String, RuntimeError>;
    /// The URL of ports of a sandbox; none if each connection says its port.
    async fn port_forward(&self, sandbox: &str, ports: &[i32]) -> Result<String, RuntimeError>;
    /// Runs a command to its end.
    async fn run(&self, container: &str, command: &[String]) -> Result<ExecOutput, RuntimeError>;
}

#[async_trait]
impl Runtime for Client {
    async fn exec(
        &self,
        container: &str,
        command: &[String],
        streams: StreamOptions,
    ) -> Result<String, RuntimeError> {
        let StreamOptions { stdin, stdout, stderr, tty } = streams;
        let container_id = container.to_owned();
        self.exec_url(cri::ExecRequest { container_id, cmd: command.to_vec(), tty, stdin, stdout, stderr })
            .await
    }

    async fn attach(&self, container: &str, streams: StreamOptions) -> Result<String, RuntimeError> {
        let StreamOptions { stdin, stdout, stderr, tty } = streams;
        self.attach_url(cri::AttachRequest { container_id: container.to_owned(), stdin, tty, stdout, stderr })
            .await
    }

    async fn port_forward(&self, sandbox: &str, ports: &[i32]) -> Result<String, RuntimeError> {
        self.port_forward_url(sandbox, ports).await
    }

    async fn run(&self, container: &str, command: &[String]) -> Result<ExecOutput, RuntimeError> {
        self.exec_sync(container, command, None).await
    }
}
