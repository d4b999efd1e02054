//! Whom containers waited for.

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{Identity, Snapshot, WaitResource, longest};

/// So many neighbours of a container have a series of their own for each resource, and the others have one
/// together: a container may wait for every other one of the node.
const NAMED: usize = 5;

/// Writes the family. Containers without names are left out, like those that are gone: their labels would not
/// stay the same.
pub(super) fn write(out: &mut Exposition<'_>, snapshot: &Snapshot) {
    let mut writer = out.family(Own::NeighbourWait.desc());
    for group in snapshot.groups.iter().filter(|group| group.removed.is_none()) {
        let Identity::Container { pod: Some(pod), names: Some(names), .. } = &*group.identity else {
            continue;
        };
        for resource in WaitResource::ALL {
            let mut sample = |neighbour: &str, ns| {
                let labels = [
                    ("container", &*names.name),
                    ("namespace", &*pod.namespace),
                    ("neighbour", neighbour),
                    ("pod", &*pod.name),
                    ("resource", resource.name()),
                ];
                writer.sample(&[], &labels, Value::Nanos(ns), &[]);
            };
            let (first, others) = longest(&group.waits, resource, NAMED);
            first.iter().for_each(|wait| sample(&wait.neighbour.to_string(), wait.ns));
            if let Some(others) = others {
                sample("others", others);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_model::{Neighbour, NeighbourWait};

    use super::*;
    use crate::exposition::to_vec;
    use crate::fixture;

    #[test]
    fn the_largest_have_series_of_their_own() {
        let mut snapshot = fixture::snapshot(1);
        snapshot.groups.iter_mut().for_each(|group| group.waits = [].into());
        let is_container = |identity: &Identity| matches!(identity, Identity::Container { names: Some(names), .. } if names.name == "app");
        let app = snapshot.groups.iter_mut().find(|group| is_container(&group.identity)).unwrap();
        let wait = |n: u64| NeighbourWait {
            resource: if n == 3 { WaitResource::Disk } else { WaitResource::Cpu },
            neighbour: Neighbour::Cgroup(format!("/s{n}.service").into()),
            ns: (10 - n) * 1_000_000_000,
        };
        app.waits = (0..8).map(wait).collect();
        let text = String::from_utf8(to_vec(|out| write(out, &snapshot))).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let line = |neighbour: &str, resource: &str, seconds: u64| {
            let labels = format!(
                r#"container="app",namespace="default",neighbour="{neighbour}",pod="web-0",resource="{resource}""#
            );
            format!("nodewarden_container_neighbour_wait_seconds_total{{{labels}}} {seconds}")
        };
        let service = |n: u64| format!("/s{n}.service");
        let mut expected: Vec<_> = [0, 1, 2, 4, 5].map(|n| line(&service(n), "cpu", 10 - n)).into();
        expected.push(line("others", "cpu", 4 + 3));
        expected.push(line(&service(3), "disk", 7));
        assert_eq!(lines, expected);
    }
}
