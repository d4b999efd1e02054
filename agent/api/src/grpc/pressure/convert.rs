//! Converts conditions and decisions into protobuf, and decisions back for the command line.

use nodewarden_proto::nodewarden::v1 as proto;

use super::super::time;
use nodewarden_model::{CandidateSeen, ConditionSeen, Decision, DecisionStep, PressureView, SignalSeen};

/// The message for the node's conditions and the last readings of its signals.
pub fn pressure(own: PressureView) -> proto::NodePressure {
    proto::NodePressure {
        conditions: own.conditions.into_iter().map(condition).collect(),
        signals: own.signals.iter().map(signal).collect(),
        watching: own.watching,
    }
}

fn condition(own: ConditionSeen) -> proto::NodeCondition {
    proto::NodeCondition {
        name: own.name.to_owned(),
        status: own.status,
        since: Some(time::from_timestamp(own.since)),
        reason: own.reason,
        message: own.message,
    }
}

fn signal(own: &SignalSeen) -> proto::SignalReading {
    proto::SignalReading {
        signal: own.signal.clone(),
        available: own.available,
        capacity: own.capacity,
        threshold: own.threshold,
        hard: own.hard,
        passed: own.passed,
        passed_for_ms: own.passed_for_ms,
        grace_ms: own.grace_ms,
    }
}

/// The message for a decision of the eviction manager.
pub fn decision(own: &Decision) -> proto::Decision {
    let candidate = |own: &CandidateSeen| proto::DecisionCandidate {
        uid: own.uid.clone(),
        namespace: own.namespace.clone(),
        name: own.name.clone(),
        qos: own.qos.clone(),
        priority: own.priority,
        usage: own.usage,
        request: own.request,
        chosen: own.chosen,
        spared: own.spared.clone(),
        incomplete: own.incomplete,
    };
    let step = |own: &DecisionStep| proto::DecisionStep {
        what: own.what.clone(),
        after_us: own.after_us,
        took_us: own.took_us,
        result: own.result.clone(),
    };
    proto::Decision {
        number: own.number,
        time: Some(time::from_timestamp(own.time)),
        kind: own.kind.clone(),
        would: own.would,
        woken_by: own.woken_by.clone(),
        signals: own.signals.iter().map(signal).collect(),
        candidates: own.candidates.iter().map(candidate).collect(),
        steps: own.steps.iter().map(step).collect(),
        outcome: own.outcome.clone(),
    }
}

/// The reading of a message, for the command line.
pub fn signal_seen(own: &proto::SignalReading) -> SignalSeen {
    SignalSeen {
        signal: own.signal.clone(),
        available: own.available,
        capacity: own.capacity,
        threshold: own.threshold,
        hard: own.hard,
        passed: own.passed,
        passed_for_ms: own.passed_for_ms,
        grace_ms: own.grace_ms,
    }
}

/// The decision of a message; `None` if the message has no time.
pub fn decided(own: proto::Decision) -> Option<Decision> {
    let candidate = |own: proto::DecisionCandidate| CandidateSeen {
        uid: own.uid,
        namespace: own.namespace,
        name: own.name,
        qos: own.qos,
        priority: own.priority,
        usage: own.usage,
        request: own.request,
        chosen: own.chosen,
        spared: own.spared,
        incomplete: own.incomplete,
    };
    let step = |own: proto::DecisionStep| DecisionStep {
        what: own.what,
        after_us: own.after_us,
        took_us: own.took_us,
        result: own.result,
    };
    Some(Decision {
        number: own.number,
        time: own.time.as_ref().and_then(time::to_timestamp)?,
        kind: own.kind,
        would: own.would,
        woken_by: own.woken_by,
        signals: own.signals.iter().map(signal_seen).collect(),
        candidates: own.candidates.into_iter().map(candidate).collect(),
        steps: own.steps.into_iter().map(step).collect(),
        outcome: own.outcome,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_model::fixture::decisions;

    #[test]
    fn there_and_back() {
        let all = decisions();
        assert!(!all.is_empty());
        for own in all {
            assert_eq!(decided(decision(&own)).as_ref(), Some(&*own));
        }
        assert_eq!(decided(proto::Decision::default()), None);
    }
}
