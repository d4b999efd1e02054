//! Arguments that name a pod and a container.

use std::path::PathBuf;

use clap::Args;
use nodewarden_proto::nodewarden::v1::ChosenContainer;
use nodewarden_proto::nodewarden::v1::streams_client::StreamsClient;
use tonic::transport::Channel;

use super::{CliError, SocketArg, client};

/// The pod and container that a command acts on.
#[derive(Debug, Args)]
pub struct TargetArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// The pod: its name, namespace/name or uid
    #[arg(value_name = "POD")]
    pod: String,
    /// The pod's namespace, if several pods have the name POD
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// The container [default: the one named by the pod's annotation kubectl.kubernetes.io/default-container,
    /// else the first]
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
}

impl TargetArgs {
    /// The pod in the form that the agent accepts: name, namespace/name or uid.
    pub fn pod(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.pod),
            None => self.pod.clone(),
        }
    }

    /// The container's name; empty for the default.
    pub fn container(&self) -> String {
        self.container.clone().unwrap_or_default()
    }

    pub fn socket(&self) -> PathBuf {
        self.socket.socket.clone()
    }

    pub async fn connect(&self) -> Result<StreamsClient<Channel>, CliError> {
        Ok(StreamsClient::new(client::channel(&self.socket.socket).await?))
    }
}

/// The line that kubectl prints if the default container was one of several.
pub fn defaulted(chosen: &ChosenContainer) -> Option<String> {
    let among = &chosen.candidates;
    (!among.is_empty())
        .then(|| format!("Defaulted container {:?} out of: {}", chosen.container, among.join(", ")))
}

/// Turns the status of a stream that ended early into an error.
pub fn refused(target: &TargetArgs) -> impl Fn(tonic::Status) -> CliError + use<> {
    client::refused(target.socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_container_is_reported_if_there_are_several() {
        let chosen = |candidates: &[&str]| ChosenContainer {
            container: "web".into(),
            candidates: candidates.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        assert_eq!(defaulted(&chosen(&[])), None);
        assert_eq!(
            defaulted(&chosen(&["web", "setup (init)"])).as_deref(),
            Some("Defaulted container \"web\" out of: web, setup (init)")
        );
    }
}
