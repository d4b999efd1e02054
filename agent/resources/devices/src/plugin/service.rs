//! The registration service at `kubelet.sock`.

use std::path::PathBuf;
use std::sync::Arc;

use nodewarden_proto::deviceplugin::v1beta1::registration_server::Registration;
use nodewarden_proto::deviceplugin::v1beta1::{Empty, RegisterRequest};
use tonic::{Request, Response, Status};

use super::PluginError;
use super::registry::Registry;
use super::request::{self, shown};

/// The registration service.
pub struct Service {
    registry: Arc<Registry>,
    dir: PathBuf,
}

impl Service {
    /// Serves plugins that have their sockets in `dir`.
    pub fn new(registry: Arc<Registry>, dir: PathBuf) -> Self {
        Self { registry, dir }
    }

    async fn accept(&self, asked: RegisterRequest) -> Result<(), PluginError> {
        let wanted = request::from_register(asked, &self.dir)?;
        // A registration that was overtaken by a later one succeeded, like one that is replaced a moment
        // later.
        self.registry.register(wanted).await?;
        Ok(())
    }
}

#[tonic::async_trait]
impl Registration for Service {
    /// Answers when the plugin is connected and has returned its options, as the kubelet does.
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let asked = request.into_inner();
        let what = format!("{} at {}", shown(&asked.resource_name), shown(&asked.endpoint));
        match self.accept(asked).await {
            Ok(()) => Ok(Response::new(Empty {})),
            Err(error) => {
                self.registry.refused(what, error.to_string()).await;
                Err(error.status())
            }
        }
    }
}
