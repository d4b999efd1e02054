//! Families about node conditions, eviction signals, and pods that wait to be admitted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{PodPhase, PodView, PressureView};

/// Writes the families of pressure.
pub(super) fn write(out: &mut Exposition<'_>, view: &PressureView) {
    let mut writer = out.family(Own::NodeCondition.desc());
    for own in &view.conditions {
        writer.sample(&[], &[("condition", own.name)], Value::Int(own.status.into()), &[]);
    }
    // A signal with a hard and a soft threshold is read once.
    let read: BTreeMap<&str, (u64, u64)> =
        view.signals.iter().map(|own| (own.signal.as_str(), (own.available, own.capacity))).collect();
    let mut family = |family: Own, value: fn(&(u64, u64)) -> u64| {
        let mut writer = out.family(family.desc());
        for (signal, figures) in &read {
            writer.sample(&[], &[("signal", signal)], Value::Int(value(figures)), &[]);
        }
    };
    family(Own::SignalAvailable, |figures| figures.0);
    family(Own::SignalCapacity, |figures| figures.1);
    let mut writer = out.family(Own::SignalThreshold.desc());
    for own in &view.signals {
        let kind = if own.hard { "hard" } else { "soft" };
        writer.sample(&[], &[("kind", kind), ("signal", &own.signal)], Value::Int(own.threshold), &[]);
    }
}

/// Writes the number of pods without a sandbox, by the reason for which they wait.
pub(super) fn waiting(out: &mut Exposition<'_>, pods: &[Arc<PodView>]) {
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    let waits = |pod: &&Arc<PodView>| {
        pod.phase == PodPhase::Pending
            && pod.terminating.is_none()
            && pod.sandbox_id.is_empty()
            && !pod.reason.to_string().is_empty()
    };
    for pod in pods.iter().filter(waits) {
        *reasons.entry(pod.reason.to_string()).or_default() += 1;
    }
    let mut writer = out.family(Own::AdmissionWaiting.desc());
    for (reason, count) in reasons {
        writer.sample(&[], &[("reason", &reason)], Value::Int(count), &[]);
    }
}
