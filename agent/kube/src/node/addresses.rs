//! The node's addresses (pkg/kubelet/nodestatus/setters.go `NodeAddress`).
//!
//! A kubelet without `--node-ip` looks the host name up and takes an address that the node has; here it is
//! the address of the default route at once, which that look-up falls back to.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, NodeAddress};

use super::facts::NodeFacts;

/// The addresses that the node has by itself; `None` if they are left to a cloud controller. `found` are the
/// node's own addresses, IPv4 first.
pub fn addresses(facts: &NodeFacts, found: &[IpAddr]) -> Option<Vec<NodeAddress>> {
    let of = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    if facts.external_cloud {
        // Reported until the controller has set the real ones, so that the node can be reached before.
        let first = facts.node_ips.first().filter(|ip| !ip.is_unspecified())?;
        let hostname = of("Hostname", facts.hostname.clone());
        return Some(vec![of("InternalIP", first.to_string()), hostname]);
    }
    let chosen: Vec<IpAddr> = match facts.node_ips.as_slice() {
        [] => found.first().copied().into_iter().collect(),
        [one] if one.is_unspecified() => {
            found.iter().copied().find(|ip| ip.is_ipv4() == one.is_ipv4()).into_iter().collect()
        }
        given => given.to_vec(),
    };
    let mut addresses: Vec<NodeAddress> =
        chosen.into_iter().map(|ip| of("InternalIP", ip.to_string())).collect();
    addresses.push(of("Hostname", facts.hostname.clone()));
    Some(addresses)
}

/// The IP addresses under which the API server reaches the node: those of the node object's status, which
/// are of this agent or of a cloud controller.
pub fn ips(node: &Node) -> Vec<IpAddr> {
    let shown = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let shown = shown.filter(|own| matches!(own.type_.as_str(), "InternalIP" | "ExternalIP"));
    let mut ips: Vec<IpAddr> = shown.filter_map(|own| own.address.parse().ok()).collect();
    ips.sort_unstable();
    ips.dedup();
    ips
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeStatus;

    use super::super::fixture::facts;
    use super::*;

    #[test]
    fn addresses_by_what_is_configured() {
        let ips =
            |texts: &[&str]| -> Vec<IpAddr> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        let both = ips(&["10.0.0.1", "fd00::1"]);
        for (given, found, expected) in [
            (&[][..], &both[..], Some(vec!["10.0.0.1", "node-1"])),
            (&[], &[], Some(vec!["node-1"])),
            (&["192.168.0.1"], &both, Some(vec!["192.168.0.1", "node-1"])),
            (&["::"], &both, Some(vec!["fd00::1", "node-1"])),
            (&["0.0.0.0"], &both, Some(vec!["10.0.0.1", "node-1"])),
            (&["::"], &both[..1], Some(vec!["node-1"])),
            (&["fd00::2", "10.0.0.2"], &both, Some(vec!["fd00::2", "10.0.0.2", "node-1"])),
        ] {
            let facts = NodeFacts { node_ips: ips(given), ..facts() };
            let shown = addresses(&facts, found);
            let shown: Option<Vec<&str>> =
                shown.as_ref().map(|list| list.iter().map(|own| own.address.as_str()).collect());
            assert_eq!(shown, expected, "{given:?}");
        }
        let cloud = NodeFacts { external_cloud: true, ..facts() };
        assert_eq!(addresses(&cloud, &both), None);
        let cloud = NodeFacts { node_ips: ips(&["10.9.9.9"]), ..cloud };
        assert_eq!(addresses(&cloud, &both).unwrap()[0].address, "10.9.9.9");
    }

    #[test]
    fn the_addresses_of_a_status_are_those_that_are_numbers() {
        let of = |(kind, address): &(&str, &str)| NodeAddress {
            type_: (*kind).to_owned(),
            address: (*address).to_owned(),
        };
        for (shown, expected) in [
            (&[][..], &[][..]),
            (&[("InternalIP", "10.0.0.2"), ("Hostname", "node-1")], &["10.0.0.2"]),
            (&[("Hostname", "10.0.0.9"), ("InternalDNS", "n.internal")], &[]),
            (
                &[("ExternalIP", "203.0.113.1"), ("InternalIP", "10.0.0.2"), ("InternalIP", "fd00::1")],
                &["10.0.0.2", "203.0.113.1", "fd00::1"],
            ),
            (&[("InternalIP", "10.0.0.2"), ("ExternalIP", "10.0.0.2")], &["10.0.0.2"]),
            (&[("InternalIP", "ten")], &[]),
        ] {
            let addresses = Some(shown.iter().map(of).collect());
            let status = Some(NodeStatus { addresses, ..NodeStatus::default() });
            let found: Vec<String> =
                ips(&Node { status, ..Node::default() }).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{shown:?}");
        }
    }
}
