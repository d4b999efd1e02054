//! Keeps the node's addresses current: DHCP may come after the agent's start, and give others later.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::{Input, TASK_LIMIT};
use nodewarden_machine::node::addresses::{NetworkChanges, node_addresses};
use nodewarden_tasks::parts;
use nodewarden_tasks::pause::pause;

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
                    pause(POLL).await;
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn ip(arguments: &str) {
        let done = Command::new("ip").args(arguments.split(' ')).status();
        assert!(done.is_ok_and(|status| status.success()), "ip {arguments}");
    }

    /// Runs in a network namespace of this thread's own, which has no address at first.
    async fn in_a_namespace_of_its_own() {
        ip("link add n0 type veth peer name n1");
        ip("link set n0 up");
        ip("link set n1 up");
        let (inputs, mut received) = mpsc::unbounded_channel();
        let mut addresses = follow(inputs.downgrade());
        assert_eq!(addresses.borrow_and_update().len(), 0, "the agent starts before DHCP");
        for (changes, expected) in [
            (&["address add 10.9.0.1/24 dev n0"][..], "10.9.0.1"),
            (&["address add 10.10.0.1/24 dev n0", "address delete 10.9.0.1/24 dev n0"], "10.10.0.1"),
        ] {
            changes.iter().for_each(|change| ip(change));
            let expected: IpAddr = expected.parse().unwrap();
            let seen = addresses.wait_for(|own| *own == [expected]);
            let seen = tokio::time::timeout(Duration::from_secs(20), seen).await;
            assert!(seen.is_ok(), "the addresses stay as they were at the start, without {expected}");
            assert!(matches!(received.try_recv(), Ok(Input::Everything)), "every pod is looked at again");
        }
    }

    #[test]
    fn addresses_that_change_after_the_start_reach_every_pod() {
        nodewarden_testing::in_network_namespace(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(in_a_namespace_of_its_own());
        });
    }
}
