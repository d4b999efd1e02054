//! Families about managed pods and their containers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{ContainerState, ContainerView, DenialCount, EndReason, OomVictim, PodPhase, PodView};
use strum::IntoEnumIterator;

/// Writes the families of pods.
pub(super) fn write(out: &mut Exposition<'_>, pods: &[Arc<PodView>], denials: &[DenialCount]) {
    let count =
        |wanted: &dyn Fn(&PodView) -> bool| Value::Int(pods.iter().filter(|pod| wanted(pod)).count() as u64);
    let mut writer = out.family(Own::Pods.desc());
    for phase in PodPhase::iter() {
        writer.sample(&[], &[("phase", phase.name())], count(&|pod| pod.phase == phase), &[]);
    }
    out.single(Own::PodsEnding.desc(), count(&|pod| pod.terminating.is_some()));
    // A running sandbox has addresses; one on the host network counts as running if a container in it runs.
    let lives =
        |pod: &PodView| !pod.ips.is_empty() || pod.containers.iter().any(|c| stage(c) == Some("running"));
    out.single(Own::RunningPods.desc(), count(&lives));
    let mut stages: BTreeMap<&str, u64> = ["created", "exited", "running", "unknown"].map(|s| (s, 0)).into();
    for stage in pods.iter().flat_map(|pod| &pod.containers).filter_map(stage) {
        *stages.entry(stage).or_default() += 1;
    }
    let mut writer = out.family(Own::RunningContainers.desc());
    for (stage, count) in stages {
        writer.sample(&[], &[("container_state", stage)], Value::Int(count), &[]);
    }
    containers(out, pods);
    devices(out, denials);
}

fn containers(out: &mut Exposition<'_>, pods: &[Arc<PodView>]) {
    let all = || pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)));
    let mut writer = out.family(Own::ContainerRestarts.desc());
    for (pod, container) in all() {
        writer.sample(&[], &labels(pod, container), Value::Int(container.restarts.into()), &[]);
    }
    let mut writer = out.family(Own::ContainerOomKill.desc());
    for (pod, container) in all() {
        if let Some(victim) = newest_victim(container) {
            let seconds = victim.time.as_millisecond() as f64 / 1000.0;
            writer.sample(&[], &labels(pod, container), Value::Float(seconds), &[]);
        }
    }
}

fn devices(out: &mut Exposition<'_>, denials: &[DenialCount]) {
    let mut writer = out.family(Own::DeviceDenials.desc());
    for count in denials {
        for (action, value) in [("audited", count.audited), ("denied", count.denied)] {
            let labels = [
                ("action", action),
                ("device", count.device.as_str()),
                ("namespace", count.namespace.as_str()),
                ("pod", count.name.as_str()),
                ("uid", count.uid.as_str()),
            ];
            writer.sample(&[], &labels, Value::Int(value), &[]);
        }
    }
}

fn labels<'a>(pod: &'a PodView, container: &'a ContainerView) -> [(&'static str, &'a str); 4] {
    let pod = &pod.pod;
    [("container", &container.name), ("namespace", &pod.namespace), ("pod", &pod.name), ("uid", &pod.uid)]
}

fn newest_victim(container: &ContainerView) -> Option<&OomVictim> {
    let ended = match &container.state {
        ContainerState::Terminated(ended) => ended.oom.as_ref(),
        _ => None,
    };
    let last = container.last.as_ref().and_then(|last| last.oom.as_ref());
    container.oom.as_deref().into_iter().chain(ended).chain(last).max_by_key(|victim| victim.time)
}

/// State of the newest container in CRI's terms; `None` if there is no container.
fn stage(container: &ContainerView) -> Option<&'static str> {
    match &container.state {
        _ if container.id.is_empty() => None,
        ContainerState::Running { .. } => Some("running"),
        ContainerState::Terminated(ended) if ended.reason == EndReason::StatusUnknown => Some("unknown"),
        ContainerState::Terminated(_) => Some("exited"),
        // The container exited and waits for its restart, or it was created and not yet started.
        ContainerState::Waiting { .. } if container.last.as_ref().is_some_and(|l| l.id == container.id) => {
            Some("exited")
        }
        ContainerState::Waiting { .. } => Some("created"),
    }
}
