//! The node's pressure conditions in the output of `nodewarden status`. Pure.

use std::fmt::Write as _;
use std::time::SystemTime;

use nodewarden_proto::nodewarden::v1::{NodeCondition, NodePressure};
use serde_json::{Value, json};

use crate::cli::decision::signals;
use crate::cli::format::{printable, span};
use nodewarden_api::grpc::pressure::convert::signal_seen;
use nodewarden_api::grpc::time;

/// Appends the conditions, and what triggers a new assessment.
pub fn lines(out: &mut String, own: &NodePressure, now: SystemTime) {
    let line = |own: &NodeCondition| {
        let lasts = own.since.and_then(|at| time::between(&at, &time::from_system_time(now)));
        let lasts = lasts.map(|lasts| format!(" for {}", span(lasts))).unwrap_or_default();
        match own.status {
            true => format!("{}{lasts}: {}", printable(&own.name), printable(&own.message)),
            false => format!("no {}{lasts}", printable(&own.name)),
        }
    };
    // Writing to a String cannot fail.
    for (at, own) in own.conditions.iter().enumerate() {
        let _ = writeln!(out, "{:<11}{}", if at == 0 { "pressure" } else { "" }, line(own));
    }
    for (at, line) in own.watching.iter().enumerate() {
        let _ = writeln!(out, "{:<11}{}", if at == 0 { "woken by" } else { "" }, printable(line));
    }
}

/// Appends a table of thresholds and readings; nothing if there are no thresholds.
pub fn table(out: &mut String, own: &NodePressure) {
    if !own.signals.is_empty() {
        let seen: Vec<_> = own.signals.iter().map(signal_seen).collect();
        let _ = write!(out, "\n{}", signals(&seen));
    }
}

/// The conditions as in the status of a Kubernetes node, and the signals.
pub fn json(own: &NodePressure) -> Value {
    let condition = |own: &NodeCondition| {
        let since = own.since.as_ref().and_then(time::to_timestamp).map(|at| at.to_string());
        json!({
            "type": own.name, "status": if own.status { "True" } else { "False" }, "lastTransitionTime": since,
            "reason": own.reason, "message": own.message,
        })
    };
    json!({
        "conditions": own.conditions.iter().map(condition).collect::<Vec<_>>(),
        "signals": own.signals.iter().map(signal_seen).collect::<Vec<_>>(),
        "watching": own.watching,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use nodewarden_api::grpc::pressure::convert::pressure;
    use nodewarden_model::PressureView;
    use nodewarden_model::fixture::EvictionStatus;

    fn own() -> NodePressure {
        pressure(PressureView::of(&EvictionStatus(Vec::new())))
    }

    #[test]
    fn conditions_are_shown_with_their_duration_and_readings() {
        let mut text = String::new();
        lines(&mut text, &own(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_100));
        table(&mut text, &own());
        let expected = "\
pressure   no MemoryPressure for 1m30s
           DiskPressure for 1m0s: kubelet has disk pressure
           no PIDPressure for 1m40s
woken by   PSI of the node
           memory.events of kubepods is missing: cgroup v1

SIGNAL             AVAILABLE  THRESHOLD  CAPACITY  KIND               PASSED
memory.available      21.0Gi      100Mi    24.0Gi  hard               no
memory.available      21.0Gi     1.00Gi    24.0Gi  soft, after 1m30s  no
nodefs.inodesFree      40.0k      50.0k     1.00M  hard               for 1m0s
";
        assert_eq!(text, expected);
    }

    #[test]
    fn without_conditions_and_thresholds() {
        let mut text = String::new();
        lines(&mut text, &NodePressure::default(), SystemTime::UNIX_EPOCH);
        table(&mut text, &NodePressure::default());
        assert_eq!(text, "");
    }

    #[test]
    fn json_has_the_form_of_node_conditions() {
        let json = json(&own());
        let disk = &json["conditions"][1];
        assert_eq!((&disk["type"], &disk["status"]), (&"DiskPressure".into(), &"True".into()));
        assert_eq!(disk["lastTransitionTime"], "2023-11-14T22:14:00Z");
        assert_eq!(
            (&json["signals"][1]["graceMs"], &json["signals"][1]["hard"]),
            (&90_000.into(), &false.into())
        );
    }
}
