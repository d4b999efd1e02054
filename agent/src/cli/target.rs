//! The pod and the container that a command is for.

use std::path::PathBuf;

use clap::Args;
use nodewarden_proto::nodewarden::v1::ChosenContainer;
use nodewarden_proto::nodewarden::v1::streams_client::StreamsClient;
use tonic::transport::Channel;

use super::{CliError, SocketArg, client};

/// What is meant.
#[derive(Debug, Args)]
pub struct TargetArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// The pod: its name, namespace/name or uid
    #[arg(value_name = "POD")]
    pod: String,
    /// The pod's namespace, if POD is a name that several have
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// The container; without it the one that the pod's annotation kubectl.kubernetes.io/default-container names, else
    /// its first
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
}

impl TargetArgs {
    /// As the agent takes it.
    pub fn pod(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.pod),
            None => self.pod.clone(),
        }
    }

    /// Empty for the default.
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

/// kubectl's line, where there was a choice.
pub fn defaulted(chosen: &ChosenContainer) -> Option<String> {
    let among = &chosen.candidates;
    (!among.is_empty())
        .then(|| format!("Defaulted container {:?} out of: {}", chosen.container, among.join(", ")))
}

/// What a stream that ended too early is reported as.
pub fn refused(target: &TargetArgs) -> impl Fn(tonic::Status) -> CliError + use<> {
    client::refused(target.socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_told_where_there_was_one() {
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
