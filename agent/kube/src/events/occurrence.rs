//! Something that happened, before it is an object of the API.

use jiff::Timestamp;
use nodewarden_manifest::Pod;
use nodewarden_model::PodRef;

/// One thing that happened to a pod or the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// To whom.
    pub involved: Involved,
    /// `type`.
    pub kind: Kind,
    /// `reason`: one word.
    pub reason: String,
    /// `message`: a sentence.
    pub message: String,
    /// When.
    pub time: Timestamp,
}

/// `type` of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// As it should be.
    Normal,
    /// Someone may have to do something.
    Warning,
}

impl Kind {
    /// The word in `type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Involved {
    /// `Pod` or `Node`.
    pub kind: &'static str,
    /// Empty for a node.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; a manifest's pod has the one on the node here, by which clients find the events of its
    /// mirror pod.
    pub uid: String,
    /// The container in it: `spec.containers{web}`; empty for the object as a whole.
    pub field_path: String,
}

impl Involved {
    /// The node of this name. As with a kubelet the name stands for the uid.
    pub fn node(name: &str) -> Self {
        Self {
            kind: "Node",
            namespace: String::new(),
            name: name.to_owned(),
            uid: name.to_owned(),
            field_path: String::new(),
        }
    }

    /// The pod, or container of it, of an entry of the journal. `spec` is the pod if it is still known.
    pub fn pod(place: &PodRef, spec: Option<&Pod>) -> Self {
        let field_path = match place.container_name.as_str() {
            "" => String::new(),
            name => format!("{}{{{name}}}", list_of(name, spec)),
        };
        Self {
            kind: "Pod",
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            uid: place.uid.clone(),
            field_path,
        }
    }
}

/// The list of the spec that has the container.
fn list_of(name: &str, spec: Option<&Pod>) -> &'static str {
    let has = |list: &[nodewarden_manifest::Container]| list.iter().any(|container| container.name == name);
    match spec {
        Some(pod) if has(&pod.init_containers) => "spec.initContainers",
        _ => "spec.containers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_model::fixture;

    #[test]
    fn an_event_names_the_list_that_its_container_is_in() {
        let view = fixture::pod();
        let path = |name: &str, pod| {
            let place = PodRef { container_name: name.into(), ..PodRef::default() };
            Involved::pod(&place, pod).field_path
        };
        assert_eq!(path("web", Some(&*view.pod)), "spec.containers{web}");
        assert_eq!(path("prepare", Some(&*view.pod)), "spec.initContainers{prepare}");
        assert_eq!(path("prepare", None), "spec.containers{prepare}");
        assert_eq!(path("", Some(&*view.pod)), "");
    }
}
