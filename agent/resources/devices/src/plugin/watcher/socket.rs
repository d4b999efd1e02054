//! The life of one socket in the directory: it is asked what it is, registered, and told what came of it; again and
//! again while it is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodewarden_proto::pluginregistration::v1::registration_client::RegistrationClient;
use nodewarden_proto::pluginregistration::v1::{InfoRequest, RegistrationStatus};
use tracing::{debug, warn};

use super::super::handle::End;
use super::super::registry::Registry;
use super::super::request::{self, shown};
use super::super::{LARGEST_MESSAGE, Plugin, PluginError, Whom, connection};
use nodewarden_model::backoff::Backoff;

/// The kubelet's (`exponentialbackoff`): 500 ms, doubling to 2 min 2 s.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(122);
/// A registration that lasted as long was a good one: the next failure is the first.
const GOOD: Duration = Duration::from_secs(60);

/// Until the plugin is refused for what it says of itself, or another registration of its resource has come. To be
/// dropped when the socket is gone: its registration ends with it.
pub async fn life(socket: PathBuf, kubelet_dir: PathBuf, registry: Arc<Registry>) {
    let mut pause = Backoff::doubling(FIRST_PAUSE, LONGEST_PAUSE);
    // Told once, not at every attempt.
    let mut told = String::new();
    loop {
        let started = Instant::now();
        match attempt(&socket, &kubelet_dir, &registry).await {
            Ok(End::Replaced) => {
                debug!("{}: another registration has taken its place", socket.display());
                return;
            }
            Ok(End::Stopped) => {
                told.clear();
                if started.elapsed() >= GOOD {
                    pause.reset();
                }
            }
            Err(error) => {
                let text = error.to_string();
                if text != told {
                    registry.refused(format!("plugin at {}", socket.display()), text.clone());
                    told = text;
                }
                if matches!(error, PluginError::Invalid(_)) {
                    return;
                }
            }
        }
        tokio::time::sleep(pause.advance()).await;
    }
}

/// One registration, to its end.
async fn attempt(socket: &Path, kubelet_dir: &Path, registry: &Arc<Registry>) -> Result<End, PluginError> {
    let whom = Whom { resource: String::new(), socket: socket.to_owned() };
    let limit = registry.limit();
    let channel = connection::connect(&whom, limit).await?;
    let mut client = RegistrationClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
    let info = connection::answer(&whom, "GetInfo", limit, client.get_info(InfoRequest {})).await?;
    debug!("{whom} is a {} of {}", shown(&info.r#type), shown(&info.name));
    let result = match request::from_info(info, socket, kubelet_dir) {
        Ok(wanted) => registry.register(wanted).await,
        Err(invalid) => Err(invalid.into()),
    };
    let result = result.map(|plugin| Registered { plugin, registry });
    let error = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let status = RegistrationStatus { plugin_registered: result.is_ok(), error };
    let answer = client.notify_registration_status(status);
    if let Err(error) = connection::answer(&whom, "NotifyRegistrationStatus", limit, answer).await {
        // It is registered all the same, as the kubelet has it.
        warn!("{error}");
    }
    drop(client);
    let registered = result?;
    Ok(registered.plugin.ended().await)
}

/// A registration that ends when its socket is gone.
struct Registered<'a> {
    plugin: Plugin,
    registry: &'a Registry,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.registry.stop(&self.plugin, "its registration socket is gone".to_owned());
    }
}
