//! `/metrics/resource`: what metrics-server reads from a kubelet
//! (`pkg/kubelet/metrics/collectors/resource_metrics.go`).
//!
//! Its labels contain no id, so they have to identify a cgroup by themselves:
//!
//! - If the names are unknown because there is no runtime, `container` is the container's id, `pod` the pod's
//!   uid and `namespace` is empty: unique and stable, and distinguishable from names (no pod has an empty
//!   namespace).
//! - Of several cgroups with the same labels (a restarted container, a recreated static pod) the existing one
//!   is shown, else the youngest.
//! - Sandboxes do not count as containers, as in the kubelet. A removed cgroup keeps its counters, without
//!   gauges.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use super::exposition::{Exposition, push_label, push_stamp};
use super::family::{Kind, families};
use super::number::Value;
use super::rows::{Names, current, succeeds, unix_millis};
use nodewarden_model::{GroupView, Identity, Snapshot, Usage};

const NONE: &[&str] = &[];
const CONTAINER: &[&str] = &["container", "namespace", "pod"];
const POD: &[&str] = &["namespace", "pod"];

families! {
    /// The families of `/metrics/resource`.
    pub enum Resource {
        ContainerCpu: Counter "container_cpu_usage_seconds_total" CONTAINER "[STABLE] Cumulative cpu time consumed by the container in core-seconds";
        ContainerMemory: Gauge "container_memory_working_set_bytes" CONTAINER "[STABLE] Current working set of the container in bytes";
        ContainerStart: Gauge "container_start_time_seconds" CONTAINER "[STABLE] Start time of the container since unix epoch in seconds";
        ContainerSwapLimit: Gauge "container_swap_limit_bytes" CONTAINER "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems";
        ContainerSwap: Gauge "container_swap_usage_bytes" CONTAINER "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems";
        NodeCpu: Counter "node_cpu_usage_seconds_total" NONE "[STABLE] Cumulative cpu time consumed by the node in core-seconds";
        NodeMemory: Gauge "node_memory_working_set_bytes" NONE "[STABLE] Current working set of the node in bytes";
        NodeSwap: Gauge "node_swap_usage_bytes" NONE "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems";
        PodCpu: Counter "pod_cpu_usage_seconds_total" POD "[STABLE] Cumulative cpu time consumed by the pod in core-seconds";
        PodMemory: Gauge "pod_memory_working_set_bytes" POD "[STABLE] Current working set of the pod in bytes";
        PodSwap: Gauge "pod_swap_usage_bytes" POD "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems";
        ScrapeError: Gauge "resource_scrape_error" NONE "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    }
}

/// Writes the whole document.
pub fn write(out: &mut Exposition<'_>, snapshot: &Snapshot) {
    let node =
        [Entry { labels: Vec::new(), stamp: stamp(&snapshot.machine.usage), source: Source::Node(snapshot) }];
    let groups = current(&snapshot.groups);
    let (containers, pods) = entries(&groups);
    for &family in Resource::ALL {
        let entries: &[Entry<'_>] = match family.desc().labels.len() {
            0 => &node,
            2 => &pods,
            _ => &containers,
        };
        let mut writer = out.family(family.desc());
        for entry in entries {
            if family.desc().kind == Kind::Gauge && entry.removed() && family != Resource::ContainerStart {
                continue;
            }
            if let Some(value) = entry.value(family) {
                // As in the kubelet, these two have no timestamp, because they do not come from a reading.
                let timeless = matches!(family, Resource::ContainerStart | Resource::ScrapeError);
                writer.sample(&entry.labels, &[], value, if timeless { &[] } else { &entry.stamp });
            }
        }
    }
}

enum Source<'a> {
    Node(&'a Snapshot),
    Group(&'a GroupView),
}

struct Entry<'a> {
    labels: Vec<u8>,
    stamp: Vec<u8>,
    source: Source<'a>,
}

impl Entry<'_> {
    fn removed(&self) -> bool {
        matches!(self.source, Source::Group(g) if g.removed.is_some())
    }

    fn usage(&self) -> &Usage {
        match self.source {
            Source::Node(snapshot) => &snapshot.machine.usage,
            Source::Group(group) => &group.usage,
        }
    }

    fn value(&self, family: Resource) -> Option<Value> {
        let usage = self.usage();
        match family {
            Resource::ContainerCpu | Resource::NodeCpu | Resource::PodCpu => {
                Some(Value::Nanos(usage.cpu.as_ref()?.usage_ns))
            }
            Resource::ContainerMemory | Resource::NodeMemory | Resource::PodMemory => {
                Some(Value::Int(usage.memory.as_ref()?.working_set_bytes))
            }
            Resource::ContainerSwap | Resource::NodeSwap | Resource::PodSwap => {
                usage.memory.as_ref()?.swap_bytes.map(Value::Int)
            }
            // As in the kubelet, there is no sample without a limit.
            Resource::ContainerSwapLimit => usage.memory.as_ref()?.swap_limit_bytes.map(Value::Int),
            Resource::ContainerStart => match self.source {
                Source::Group(group) => {
                    let nanos = group.created.duration_since(UNIX_EPOCH).ok()?.as_nanos();
                    Some(Value::Nanos(u64::try_from(nanos).ok()?))
                }
                Source::Node(_) => None,
            },
            Resource::ScrapeError => Some(Value::Int(0)),
        }
    }
}

fn stamp(usage: &Usage) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(millis) = usage.time.and_then(unix_millis) {
        push_stamp(&mut text, millis);
    }
    text
}

/// Containers and pods, one per set of labels.
fn entries<'a>(groups: &[&'a GroupView]) -> (Vec<Entry<'a>>, Vec<Entry<'a>>) {
    let names = Names::of(groups.iter().copied());
    let (mut containers, mut pods) = (Unique::default(), Unique::default());
    for &group in groups {
        let uid = group.identity.pod_uid().unwrap_or_default();
        let (namespace, pod) = names.pod(uid).map_or(("", uid), |n| (&*n.namespace, &*n.name));
        match &*group.identity {
            Identity::Container { id, sandbox: false, .. } => {
                let container = names.container(id).unwrap_or(id);
                containers.offer(&[("container", container), ("namespace", namespace), ("pod", pod)], group);
            }
            Identity::Pod { .. } => pods.offer(&[("namespace", namespace), ("pod", pod)], group),
            _ => {}
        }
    }
    (containers.entries(), pods.entries())
}

/// Groups by their rendered labels, in order of appearance.
#[derive(Default)]
struct Unique<'a> {
    found: Vec<(Vec<u8>, &'a GroupView)>,
    place: HashMap<Vec<u8>, usize>,
}

impl<'a> Unique<'a> {
    fn offer(&mut self, pairs: &[(&str, &str)], group: &'a GroupView) {
        let mut labels = Vec::new();
        for (key, value) in pairs {
            push_label(&mut labels, 0, key, value);
        }
        match self.place.get(&labels) {
            None => {
                self.place.insert(labels.clone(), self.found.len());
                self.found.push((labels, group));
            }
            Some(&at) if succeeds(group, self.found[at].1) => self.found[at].1 = group,
            Some(_) => {}
        }
    }

    fn entries(self) -> Vec<Entry<'a>> {
        self.found
            .into_iter()
            .map(|(labels, group)| Entry { labels, stamp: stamp(&group.usage), source: Source::Group(group) })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::exposition::to_vec;
    use crate::fixture;

    fn shown(snapshot: &Snapshot) -> Vec<String> {
        let text = String::from_utf8(to_vec(|e| write(e, snapshot))).unwrap();
        text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn samples_have_the_kubelets_names_and_labels() {
        let snapshot = fixture::snapshot(1);
        let lines = shown(&snapshot);
        let millis = fixture::READ_MILLIS;
        for want in [
            format!("node_cpu_usage_seconds_total 4288.423535628 {millis}"),
            format!(
                r#"container_cpu_usage_seconds_total{{container="app",namespace="default",pod="web-0"}} 0.021473214 {millis}"#
            ),
            format!(r#"pod_memory_working_set_bytes{{namespace="default",pod="web-0"}} 438272 {millis}"#),
            r#"container_start_time_seconds{container="app",namespace="default",pod="web-0"} 1700000100.25"#
                .to_owned(),
            "resource_scrape_error 0".to_owned(),
        ] {
            assert!(lines.contains(&want), "{want} in {lines:#?}");
        }
        assert!(!lines.iter().any(|l| l.contains("POD")), "a sandbox is no container");
    }

    #[test]
    fn ids_replace_names_without_a_runtime() {
        let mut snapshot = fixture::snapshot(1);
        fixture::forget_names(&mut snapshot);
        let lines = shown(&snapshot);
        let (uid, id) = (fixture::pod_uid(0), fixture::container_id(0));
        let want =
            format!(r#"container_memory_working_set_bytes{{container="{id}",namespace="",pod="{uid}"}}"#);
        assert!(lines.iter().any(|l| l.starts_with(&want)), "{lines:#?}");
    }

    #[test]
    fn of_a_restarted_container_only_the_running_one_is_shown() {
        let mut snapshot = fixture::snapshot(1);
        let at = snapshot.groups.iter().position(|g| g.path.ends_with(&fixture::container_id(0))).unwrap();
        let mut dead = snapshot.groups[at].clone();
        dead.removed = Some(snapshot.time);
        dead.path = Arc::from(format!("{}-dead", dead.path));
        dead.created += Duration::from_secs(60);
        dead.usage.cpu.as_mut().unwrap().usage_ns = 7;
        snapshot.groups.insert(at, dead);
        let lines = shown(&snapshot);
        let mut keys: Vec<_> = lines.iter().map(|l| l.rsplit_once("} ").map_or(&**l, |p| p.0)).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all, "no series twice");
        assert!(lines.iter().any(|l| l.contains(" 0.021473214 ")));

        snapshot.groups.remove(at + 1);
        let lines = shown(&snapshot);
        assert!(lines.iter().any(|l| l.starts_with("container_cpu_usage") && l.contains(" 0.000000007 ")));
        assert!(
            !lines.iter().any(|l| l.starts_with("container_memory_working_set_bytes")),
            "the gauge of a removed container"
        );
    }
}
