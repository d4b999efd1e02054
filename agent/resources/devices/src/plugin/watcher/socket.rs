//! One socket in the directory: the plugin is asked what it is, registered, and notified of the result; again
//! and again while the socket exists.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodewarden_model::backoff::Backoff;
use nodewarden_proto::pluginregistration::v1::registration_client::RegistrationClient;
use nodewarden_proto::pluginregistration::v1::{InfoRequest, RegistrationStatus};
use tracing::{debug, warn};

use super::super::handle::End;
use super::super::registry::Registry;
use super::super::request::{self, shown};
use super::super::{LARGEST_MESSAGE, Plugin, PluginAddress, PluginError, connection};

/// The kubelet's back-off (`exponentialbackoff`): 500 ms, doubling up to 2 min 2 s.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(122);
/// A registration that lasted this long was successful: the next failure counts as the first.
const GOOD: Duration = Duration::from_secs(60);

/// Returns when the plugin's registration is invalid, or when another registration of its resource has
/// replaced it. Dropped when the socket is removed, which ends its registration.
pub async fn serve(socket: PathBuf, kubelet_dir: PathBuf, registry: Arc<Registry>) {
    let mut pause = Backoff::doubling(FIRST_PAUSE, LONGEST_PAUSE);
    // Each failure is reported once, not at every attempt.
    let mut reported = String::new();
    loop {
        let started = Instant::now();
        match attempt(&socket, &kubelet_dir, &registry).await {
            Ok(End::Replaced) => {
                debug!("{}: another registration has taken its place", socket.display());
                return;
            }
            Ok(End::Stopped) => {
                reported.clear();
                if started.elapsed() >= GOOD {
                    pause.reset();
                }
            }
            Err(error) => {
                let text = error.to_string();
                if text != reported {
                    registry.refused(format!("plugin at {}", socket.display()), text.clone()).await;
                    reported = text;
                }
                if matches!(error, PluginError::Invalid(_)) {
                    return;
                }
            }
        }
        tokio::time::sleep(pause.advance()).await;
    }
}

/// Registers the plugin once, and waits for the end of that registration.
async fn attempt(socket: &Path, kubelet_dir: &Path, registry: &Arc<Registry>) -> Result<End, PluginError> {
    let address = PluginAddress { resource: String::new(), socket: socket.to_owned() };
    let limit = registry.limit();
    let channel = connection::connect(&address, limit).await?;
    let mut client = RegistrationClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
    let info = connection::answer(&address, "GetInfo", limit, client.get_info(InfoRequest {})).await?;
    debug!("{address} is a {} of {}", shown(&info.r#type), shown(&info.name));
    let result = match request::from_info(info, socket, kubelet_dir) {
        Ok(wanted) => registry.register(wanted).await,
        Err(invalid) => Err(invalid.into()),
    };
    let result = result.map(|plugin| Registered { plugin, registry });
    let error = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let status = RegistrationStatus { plugin_registered: result.is_ok(), error };
    let answer = client.notify_registration_status(status);
    if let Err(error) = connection::answer(&address, "NotifyRegistrationStatus", limit, answer).await {
        // It stays registered, as in the kubelet.
        warn!("{error}");
    }
    drop(client);
    let registered = result?;
    Ok(registered.plugin.ended().await)
}

/// Ends the registration when it is dropped.
struct Registered<'a> {
    plugin: Plugin,
    registry: &'a Registry,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.registry.stop(&self.plugin, "its registration socket is gone".to_owned());
    }
}
