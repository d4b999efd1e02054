//! The runtime's stream of events.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tracing::info;

use crate::decide::relist::EventStream;
use crate::manager::Input;
use nodewarden_cri::Client;

/// How long to wait before subscribing to the runtime's events again.
const SUBSCRIBE_AGAIN: Duration = Duration::from_secs(1);
/// How long to wait before asking a runtime without a stream of events again: a newer one may have taken its
/// place.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Receives the runtime's events where it has them, and subscribes again when the connection broke.
pub async fn listen(client: Client, inputs: mpsc::WeakUnboundedSender<Input>) {
    let (mut answered_before, mut unsupported) = (false, false);
    loop {
        match client.events().await {
            Ok(None) => {
                let Some(inputs) = inputs.upgrade() else { return };
                if !std::mem::replace(&mut unsupported, true) {
                    info!("the runtime has no stream of events: it is listed every few seconds");
                }
                answered_before = true;
                let _ = inputs.send(Input::Events(EventStream::Unsupported));
                drop(inputs);
                tokio::time::sleep(ASK_AGAIN).await;
                continue;
            }
            Ok(Some(events)) => {
                if std::mem::take(&mut unsupported) {
                    info!("the runtime has a stream of events now");
                }
                if let Some(inputs) = inputs.upgrade() {
                    let _ = inputs.send(Input::Events(EventStream::Open));
                    if answered_before {
                        let _ = inputs.send(Input::Everything);
                    }
                }
                answered_before = true;
                let mut events = std::pin::pin!(events);
                while let Some(Ok(event)) = events.next().await {
                    let Some(inputs) = inputs.upgrade() else { return };
                    let metadata = event.pod_sandbox_status.and_then(|status| status.metadata);
                    if let Some(metadata) = metadata {
                        let _ = inputs.send(Input::Runtime { uid: metadata.uid });
                    }
                }
            }
            Err(_) => {}
        }
        let _ = inputs.upgrade().map(|inputs| inputs.send(Input::Events(EventStream::Closed)));
        tokio::time::sleep(SUBSCRIBE_AGAIN).await;
        if inputs.upgrade().is_none() {
            return;
        }
    }
}
