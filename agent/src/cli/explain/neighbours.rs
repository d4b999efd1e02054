//! The lines of `nodewarden explain POD` about whom its containers waited for. Pure.

use std::fmt::Write as _;

use nodewarden_proto::nodewarden::v1::{ListCgroupsResponse, PodRef};

use super::printable;
use crate::cli::neighbours;

/// A line for each resource for which a container of the pod of this name, `namespace/name` or uid waited;
/// empty if none did, or if that is not counted.
pub fn of_pod(pod: &str, answer: &ListCgroupsResponse) -> String {
    let is_it = |own: &PodRef| {
        [&own.uid, &own.name].into_iter().any(|name| name == pod)
            || pod.split_once('/') == Some((&own.namespace, &own.name))
    };
    let mut out = String::new();
    for cgroup in answer.cgroups.iter().filter(|own| own.kind == "container" && own.removed.is_none()) {
        let Some(own) = cgroup.pod.as_ref().filter(|own| is_it(own)) else { continue };
        let name = if own.container_name.is_empty() { &own.container_id } else { &own.container_name };
        for line in neighbours::lines(&cgroup.waits) {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{}", printable(&format!("{name} {line}")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use nodewarden_proto::nodewarden::v1::{Cgroup, NeighbourWait};

    use super::*;

    #[test]
    fn containers_of_the_pod_that_waited() {
        let container = |pod: &str, name: &str, wait_ns| Cgroup {
            kind: "container".into(),
            pod: Some(PodRef {
                uid: format!("uid-{pod}"),
                namespace: "shop".into(),
                name: pod.into(),
                container_name: name.into(),
                ..PodRef::default()
            }),
            waits: vec![NeighbourWait { neighbour: "ml/train/main".into(), wait_ns, resource: "cpu".into() }],
            ..Cgroup::default()
        };
        let cgroups = vec![
            container("cart", "web", 3_000_000),
            container("cart", "log", 0),
            container("other", "web", 5),
        ];
        let answer = ListCgroupsResponse { cgroups, ..ListCgroupsResponse::default() };
        let expected = "web waited for a CPU while these ran: ml/train/main 3.0ms (100%)\n";
        for pod in ["cart", "shop/cart", "uid-cart"] {
            assert_eq!(of_pod(pod, &answer), expected, "{pod}");
        }
        assert_eq!(of_pod("another", &answer), "");
    }
}
