//! Filters for the events and cgroups that a client requested. Pure.

use nodewarden_model::{Detail, Event, EventType, Identity, PodRef};
use nodewarden_storage::journal::LOST_SUBSCRIBER;

/// The events that a client requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    types: Vec<EventType>,
    pod: String,
}

/// A name that is not an event type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown event type {name:?}: known are {}", known())]
pub struct UnknownType {
    /// The name in the request.
    pub name: String,
}

fn known() -> String {
    EventType::ALL.map(EventType::name).join(", ")
}

impl EventFilter {
    /// Types by name (none for all) and a pod's uid, name or namespace/name (empty for all).
    ///
    /// # Errors
    /// A name is not an event type.
    pub fn new(types: &[String], pod: &str) -> Result<Self, UnknownType> {
        let types = types
            .iter()
            .map(|name| EventType::parse(name).ok_or_else(|| UnknownType { name: name.clone() }))
            .collect::<Result<_, _>>()?;
        Ok(Self { types, pod: pod.to_owned() })
    }

    /// Whether the client gets the event. Events about lost events always pass, because lost ones may have
    /// matched.
    pub fn wants(&self, event: &Event) -> bool {
        if matches!(&event.detail, Detail::Lost { lost_type, .. } if lost_type == LOST_SUBSCRIBER) {
            return true;
        }
        (self.types.is_empty() || self.types.contains(&event.detail.event_type()))
            && (self.pod.is_empty() || event.pod.as_ref().is_some_and(|pod| names(&self.pod, pod)))
    }
}

/// Whether `text` is the pod's uid, name or namespace/name.
fn names(text: &str, pod: &PodRef) -> bool {
    match text.split_once('/') {
        Some((namespace, name)) => !name.is_empty() && pod.namespace == namespace && pod.name == name,
        None => pod.uid == text || pod.name == text,
    }
}

/// Whether `path` is `prefix` or below it; an empty prefix and `/` match every path.
pub fn below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_matches('/');
    let path = path.trim_start_matches('/');
    prefix.is_empty()
        || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the cgroup is that of a pod or container, or below one.
pub fn is_of_pod(identity: &Identity) -> bool {
    identity.pod_uid().is_some()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn event(detail: Detail, pod: Option<PodRef>) -> Event {
        Event { seq: 1, time: Timestamp::UNIX_EPOCH, cgroup: "/a".into(), pod, detail }
    }

    fn pod() -> PodRef {
        PodRef { uid: "8c5e-1".into(), namespace: "shop".into(), name: "cart".into(), ..PodRef::default() }
    }

    #[test]
    fn by_pod() {
        let with = event(Detail::CgroupCreated {}, Some(pod()));
        let unnamed = event(
            Detail::CgroupCreated {},
            Some(PodRef { name: String::new(), namespace: String::new(), ..pod() }),
        );
        for (text, wanted, wanted_unnamed) in [
            ("", true, true),
            ("8c5e-1", true, true),
            ("cart", true, false),
            ("shop/cart", true, false),
            ("shop", false, false),
            ("other/cart", false, false),
            ("shop/", false, false),
            ("/", false, false),
            ("8c5e", false, false),
        ] {
            let filter = EventFilter::new(&[], text).unwrap();
            assert_eq!(filter.wants(&with), wanted, "{text}");
            assert_eq!(filter.wants(&unnamed), wanted_unnamed, "{text}");
            assert_eq!(filter.wants(&event(Detail::CgroupCreated {}, None)), text.is_empty());
        }
    }

    #[test]
    fn unknown_type_is_named_with_the_known() {
        let error = EventFilter::new(&["oom".into(), "OOM".into()], "").unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown event type \"OOM\": known are oom, exit, cgroupCreated, cgroupRemoved, cgroupPopulated, \
             cgroupEmptied, taskMoved, limitCorrected, hierarchy, pod, device, lost, agent"
        );
    }

    #[test]
    fn a_subscriber_always_learns_of_its_own_losses() {
        let filter = EventFilter::new(&["oom".into()], "cart").unwrap();
        let lost = |t: &str| event(Detail::Lost { lost_type: t.into(), count: 1 }, None);
        assert!(filter.wants(&lost(LOST_SUBSCRIBER)));
        assert!(!filter.wants(&lost("oom")));
    }

    #[test]
    fn paths() {
        for (path, prefix, expected) in [
            ("/", "", true),
            ("/", "/", true),
            ("/a", "/", true),
            ("/a", "/a", true),
            ("/a", "/a/", true),
            ("/a/b", "a", true),
            ("/ab", "/a", false),
            ("/", "/a", false),
        ] {
            assert_eq!(below(path, prefix), expected, "{path} {prefix}");
        }
    }

    fn any_type() -> impl Strategy<Value = EventType> {
        proptest::sample::select(EventType::ALL.to_vec())
    }

    fn detail(t: EventType) -> Detail {
        match t {
            EventType::CgroupRemoved => Detail::CgroupRemoved {},
            EventType::CgroupPopulated => Detail::CgroupPopulated {},
            EventType::TaskMoved => Detail::TaskMoved { pid: 1, command: String::new() },
            EventType::Agent => Detail::Agent { reason: String::new(), message: String::new() },
            EventType::Lost => Detail::Lost { lost_type: "oom".into(), count: 1 },
            _ => Detail::CgroupCreated {},
        }
    }

    proptest! {
        /// Types and pod are independent conditions; without conditions all events pass.
        #[test]
        fn conditions_are_independent(
            types in proptest::collection::vec(any_type(), 0..4),
            of in any_type(),
            with_pod in any::<bool>(),
            by_pod in any::<bool>(),
        ) {
            let event = event(detail(of), with_pod.then(pod));
            let names: Vec<String> = types.iter().map(|t| t.name().to_owned()).collect();
            let filter = EventFilter::new(&names, if by_pod { "shop/cart" } else { "" }).unwrap();
            let by_type = types.is_empty() || types.contains(&event.detail.event_type());
            prop_assert_eq!(filter.wants(&event), by_type && (!by_pod || with_pod));
        }

        #[test]
        fn a_path_is_below_each_of_its_ancestors(parts in proptest::collection::vec("[a-z]{1,3}", 0..5), cut in 0usize..6) {
            let path = format!("/{}", parts.join("/"));
            let ancestor = format!("/{}", parts[..cut.min(parts.len())].join("/"));
            prop_assert!(below(&path, &ancestor));
            prop_assert!(!below(&path, "/no-such"));
        }
    }
}
