//! Keeps the node's addresses current: DHCP may come after the agent's start, and give others later.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::{Input, TASK_LIMIT};
use nodewarden_machine::node::addresses::{NetworkChanges, node_addresses};
use nodewarden_tasks::parts;

/// How often the addresses are looked up where the kernel does not report changes.
const POLL: Duration = Duration::from_secs(10);

/// The node's addresses. When they change, every pod is looked at again: those on the node's network have
/// these addresses, and are probed there. Ends with the receiver of `inputs`.
pub(super) fn follow(inputs: mpsc::WeakUnboundedSender<Input>) -> watch::Receiver<Vec<IpAddr>> {
    let (sender, receiver) = watch::channel(node_addresses());
    tokio::spawn(parts::register("node addresses", TASK_LIMIT).task(run(sender, inputs)));
    receiver
}

async fn run(sender: watch::Sender<Vec<IpAddr>>, inputs: mpsc::WeakUnboundedSender<Input>) {
    let mut changes = NetworkChanges::open().inspect_err(polls).ok();
    // What changed before the socket was open.
    let mut look = true;
    loop {
        if !look {
            let next = match &mut changes {
                Some(changes) => changes.next().await,
                None => {
                    tokio::time::sleep(POLL).await;
                    Ok(())
                }
            };
            if let Err(error) = next {
                polls(&error);
                changes = None;
            }
        }
        look = false;
        let now = node_addresses();
        if *sender.borrow() == now {
            if sender.is_closed() {
                return;
            }
            continue;
        }
        info!(addresses = ?now, "the node's addresses have changed");
        let Some(inputs) = inputs.upgrade() else { return };
        if sender.send(now).is_err() || inputs.send(Input::Everything).is_err() {
            return;
        }
    }
}

fn polls(error: &std::io::Error) {
    warn!(%error, "changes of the network are not reported: the node's addresses are looked up every 10 s");
}
