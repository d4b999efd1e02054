//! Topic network: IP packets and bytes by the cgroup of their socket.

use nodewarden_ebpf_abi::{CellReader, NetworkCell, Space};
use nodewarden_proto::nodewarden::v1 as proto;

use super::fields::{CGROUP_KN, CSS_CGROUP, KN_ID};
use super::samples::{CgroupFamily, Figure, GROUP_DIRECTION};
use super::spec::{Hook, Program, TopicSpec};
use super::{KernelCounters, counted};

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "network",
    space: Some(Space::Unified),
    needs: &[CSS_CGROUP, CGROUP_KN, KN_ID],
    programs: &[Program::new("network_ingress", Hook::Ingress), Program::new("network_egress", Hook::Egress)],
    families: FAMILIES,
    put,
    events: |counters| counters.network.map_or(0, |c| c.rx_packets + c.tx_packets),
    ..TopicSpec::EMPTY
};

/// IP packets of the sockets of a cgroup, and their bytes including the IP headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
}

#[cfg(any(test, feature = "testing"))]
impl NetworkCounters {
    /// An example for tests.
    pub(super) fn example() -> Self {
        Self { rx_bytes: 1_000, rx_packets: 10, tx_bytes: 2_000, tx_packets: 20 }
    }
}

pub(super) fn read(cells: &impl CellReader, slot: u32, counters: &mut KernelCounters) {
    let mut sum = NetworkCounters::default();
    for cell in cells.cells::<NetworkCell>(slot) {
        sum.rx_packets += cell.rx_packets;
        sum.rx_bytes += cell.rx_bytes;
        sum.tx_packets += cell.tx_packets;
        sum.tx_bytes += cell.tx_bytes;
    }
    counters.network = Some(sum);
}

const FAMILIES: &[CgroupFamily] = &[
    CgroupFamily::counter(
        "nodewarden_cgroup_network_bytes_total",
        GROUP_DIRECTION,
        "Bytes of IP packets of the cgroup itself: receive or transmit.",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(RECEIVE, Figure::Count(c.rx_bytes));
                sample(TRANSMIT, Figure::Count(c.tx_bytes));
            }
        },
    ),
    CgroupFamily::counter(
        "nodewarden_cgroup_network_packets_total",
        GROUP_DIRECTION,
        "IP packets of the cgroup itself: receive or transmit.",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(RECEIVE, Figure::Count(c.rx_packets));
                sample(TRANSMIT, Figure::Count(c.tx_packets));
            }
        },
    ),
];

const RECEIVE: Option<(&str, &str)> = Some(("direction", "receive"));
const TRANSMIT: Option<(&str, &str)> = Some(("direction", "transmit"));

fn of(counters: &KernelCounters) -> Option<&NetworkCounters> {
    counted(counters.network.as_ref())
}

fn put(counters: &KernelCounters, out: &mut proto::Cgroup) {
    if let Some(network) = &counters.network {
        out.rx_bytes = Some(network.rx_bytes);
        out.tx_bytes = Some(network.tx_bytes);
        out.rx_packets = Some(network.rx_packets);
        out.tx_packets = Some(network.tx_packets);
    }
}
