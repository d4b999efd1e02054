//! Whom a container waited for, a line for each resource. Pure.

use nodewarden_proto::nodewarden::v1::NeighbourWait;

use super::format::nanos;

/// So many neighbours are named.
const NAMED: usize = 4;

/// What is said of a resource, by its name.
const TEXTS: [(&str, &str); 3] = [
    ("cpu", "waited for a CPU while these ran"),
    ("memory", "waited for memory that was reclaimed for the limit of"),
    ("disk", "waited for disks that served these first"),
];

/// `waited for a CPU while these ran: shop/cart/web 7.60s (61%), /system.slice/kubelet.service 2.10s (17%), 3
/// others 1.00s (8%)`, with the share of all that the container waited for others. Empty if it never did, or
/// if that is not counted. `waits` come longest first.
pub fn lines(waits: &[NeighbourWait]) -> Vec<String> {
    let line = |(resource, text): &(&str, &str)| {
        let waits: Vec<_> = waits.iter().filter(|wait| wait.resource == *resource).collect();
        let sum: u64 = waits.iter().map(|wait| wait.wait_ns).sum();
        (sum > 0).then(|| format!("{text}: {}", neighbours(&waits, sum)))
    };
    TEXTS.iter().filter_map(line).collect()
}

fn neighbours(waits: &[&NeighbourWait], sum: u64) -> String {
    let part = |name: &str, ns: u64| format!("{name} {} ({:.0}%)", nanos(ns), 100.0 * ns as f64 / sum as f64);
    let (first, rest) = waits.split_at(NAMED.min(waits.len()));
    let mut parts: Vec<String> = first.iter().map(|wait| part(&wait.neighbour, wait.wait_ns)).collect();
    if !rest.is_empty() {
        let others = format!("{} other{}", rest.len(), if rest.len() == 1 { "" } else { "s" });
        parts.push(part(&others, rest.iter().map(|wait| wait.wait_ns).sum()));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_each_resource_are_named() {
        let wait = |resource: &str, neighbour: &str, wait_ns| NeighbourWait {
            neighbour: neighbour.into(),
            wait_ns,
            resource: resource.into(),
        };
        let waits = [
            wait("cpu", "a/b/c", 6_000_000_000),
            wait("cpu", "/x.service", 2_000_000_000),
            wait("disk", "a/b/c", 1_500_000_000),
            wait("cpu", "/", 1_000_000_000),
            wait("cpu", "unknown", 500_000_000),
            wait("cpu", "d/e/f", 300_000_000),
            wait("cpu", "g/h/i", 200_000_000),
        ];
        assert_eq!(
            lines(&waits),
            [
                "waited for a CPU while these ran: a/b/c 6.00s (60%), /x.service 2.00s (20%), / 1.00s (10%), \
                 unknown 500.0ms (5%), 2 others 500.0ms (5%)",
                "waited for disks that served these first: a/b/c 1.50s (100%)",
            ]
        );
        let own = "waited for memory that was reclaimed for the limit of: a/b 1.00s (100%)";
        assert_eq!(lines(&[wait("memory", "a/b", 1_000_000_000)]), [own]);
        assert_eq!(lines(&[]), [""; 0]);
        assert_eq!(lines(&[wait("cpu", "a/b/c", 0)]), [""; 0]);
    }
}
