//! Transfers of known size over loopback, counted in the cgroups of the sockets.

use super::support::{known, settled, within};
use crate::fixture::{Agent, AgentOptions, Client, Group, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::{Moved, Port};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] =
    &[Capability::Root, Capability::UnifiedTree, Capability::Loopback, Capability::Btf];

pub const TESTS: &[Test] =
    &[Test::new("network_udp_exact", udp).needs(NEEDS), Test::new("network_tcp", tcp).needs(NEEDS)];

/// Bytes of an IPv4 header without options and a UDP header.
const HEADERS: u64 = 20 + 8;

/// Packets and bytes, in and out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Traffic {
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
}

/// The agent's network counters of a cgroup.
fn traffic(client: &Client, group: &Group) -> Result<Traffic, Failure> {
    let cgroup = settled(client, group)?;
    Ok(Traffic {
        rx_packets: known(cgroup.rx_packets, "rx_packets")?,
        rx_bytes: known(cgroup.rx_bytes, "rx_bytes")?,
        tx_packets: known(cgroup.tx_packets, "tx_packets")?,
        tx_bytes: known(cgroup.tx_bytes, "tx_bytes")?,
    })
}

/// Packets and bytes of UDP datagrams are counted exactly, in the sender's and the receiver's cgroup.
fn udp(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let (from, to) = (root.child("from")?, root.child("to")?);

    let receiver = Worker::start(context, Some(&to), &["udp-receive", "1000"])?;
    let Port { port } = receiver.report(context.patiently(5))?;
    let sender = Worker::start(context, Some(&from), &["udp-send", &port.to_string(), "1000", "700"])?;
    let sent: Moved = sender.report(context.patiently(10))?;
    let _: Moved = receiver.report(context.patiently(10))?;

    let (packets, bytes) = (sent.count, sent.bytes + sent.count * HEADERS);
    let none = Traffic { rx_packets: 0, rx_bytes: 0, tx_packets: 0, tx_bytes: 0 };
    let expected = Traffic { tx_packets: packets, tx_bytes: bytes, ..none };
    ensure_eq!(traffic(&client, &from)?, expected, "traffic of the sender");
    let expected = Traffic { rx_packets: packets, rx_bytes: bytes, ..none };
    ensure_eq!(traffic(&client, &to)?, expected, "traffic of the receiver");
    Ok(())
}

/// Bytes of a TCP stream are counted within 5 %, in the sender's and the receiver's cgroup.
fn tcp(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let (from, to) = (root.child("from")?, root.child("to")?);

    let receiver = Worker::start(context, Some(&to), &["tcp-receive"])?;
    let Port { port } = receiver.report(context.patiently(5))?;
    let sender = Worker::start(context, Some(&from), &["tcp-send", &port.to_string(), "20000000"])?;
    let sent: Moved = sender.report(context.patiently(20))?;
    // The sender keeps running after it closed its stream, so the receiver sees the end of the stream.
    let received: Moved = receiver.report(context.patiently(20))?;
    ensure_eq!(received.bytes, sent.bytes, "bytes received");

    let (out, into) = (traffic(&client, &from)?, traffic(&client, &to)?);
    for (side, seen) in [("sent", out.tx_bytes), ("received", into.rx_bytes)] {
        // The payload, headers, and a few retransmissions.
        ensure!(
            seen >= sent.bytes && within(seen, sent.bytes, 5.0),
            "{seen} bytes {side} for a payload of {}",
            sent.bytes
        );
    }
    ensure!(out.rx_packets > 0 && into.tx_packets > 0, "no acknowledgements were counted");
    Ok(())
}
