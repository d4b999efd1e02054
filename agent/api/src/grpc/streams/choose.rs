//! Finds the pod and container of a request. Pure.

use std::sync::Arc;

use nodewarden_proto::nodewarden::v1 as proto;
use tonic::Status;

use nodewarden_manifest::ContainerKind;
use nodewarden_model::{ContainerView, PodView};

/// Annotation with the default container of a pod, as for kubectl.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Maximum number of names listed in an error.
const NAMES: usize = 20;

/// Why no pod or container was found.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ChooseError {
    #[error("pod {looked_for:?} not found: {}", there_are("pod", .there))]
    NoPod { looked_for: String, there: Vec<String> },
    #[error("pod {looked_for:?} is not one pod: it could be {}; name it by namespace and name, or by uid", .could_be.join(", "))]
    SeveralPods { looked_for: String, could_be: Vec<String> },
    #[error("container {looked_for:?} not found in pod {pod}: {}", there_are("container", .there))]
    NoContainer { looked_for: String, pod: String, there: Vec<String> },
}

impl From<ChooseError> for Status {
    fn from(error: ChooseError) -> Self {
        match error {
            ChooseError::SeveralPods { .. } => Self::failed_precondition(error.to_string()),
            ChooseError::NoPod { .. } | ChooseError::NoContainer { .. } => Self::not_found(error.to_string()),
        }
    }
}

fn there_are(what: &str, names: &[String]) -> String {
    match names {
        [] => format!("the agent manages no {what}"),
        names => {
            let more = names.len().saturating_sub(NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("there is {}{more}", names[..names.len().min(NAMES)].join(", "))
        }
    }
}

/// `namespace/name`.
pub fn full_name(pod: &PodView) -> String {
    format!("{}/{}", pod.pod.namespace, pod.pod.name)
}

/// The pod of this uid, name or namespace/name. A terminating pod yields to a newer one of the same name.
pub fn pod(pods: &[Arc<PodView>], reference: &str) -> Result<Arc<PodView>, ChooseError> {
    if let Some(pod) = pods.iter().find(|view| view.pod.uid == reference) {
        return Ok(pod.clone());
    }
    let named = |view: &&Arc<PodView>| match reference.split_once('/') {
        Some((namespace, name)) => view.pod.namespace == namespace && view.pod.name == name,
        None => view.pod.name == reference,
    };
    let mut found: Vec<&Arc<PodView>> = pods.iter().filter(named).collect();
    if found.iter().any(|view| view.terminating.is_none()) {
        found.retain(|view| view.terminating.is_none());
    }
    match found[..] {
        [pod] => Ok(pod.clone()),
        [] => {
            let mut there: Vec<String> = pods.iter().map(|view| full_name(view)).collect();
            there.sort_unstable();
            there.dedup();
            Err(ChooseError::NoPod { looked_for: reference.to_owned(), there })
        }
        _ => {
            let could_be = found.iter().map(|view| format!("{} ({})", full_name(view), view.pod.uid));
            let mut could_be: Vec<String> = could_be.collect();
            could_be.sort_unstable();
            Err(ChooseError::SeveralPods { looked_for: reference.to_owned(), could_be })
        }
    }
}

/// The container of that name; without a name the pod's default: the one named by its annotation, else the
/// first regular container. Also returns what the client is informed about.
pub fn container<'a>(
    pod: &'a PodView,
    name: &str,
) -> Result<(&'a ContainerView, proto::ChosenContainer), ChooseError> {
    let by_name = |name: &str| pod.containers.iter().find(|container| container.name == name);
    let there = || -> Vec<String> {
        let kind = |container: &ContainerView| match container.kind {
            ContainerKind::Regular => "",
            ContainerKind::Init | ContainerKind::Sidecar => " (init)",
            ContainerKind::Ephemeral => " (ephemeral)",
        };
        // Regular containers first, as in kubectl.
        let (init, regular): (Vec<_>, Vec<_>) =
            pod.containers.iter().partition(|container| container.kind != ContainerKind::Regular);
        regular.into_iter().chain(init).map(|c| format!("{}{}", c.name, kind(c))).collect()
    };
    let annotated = pod.pod.annotations.get(DEFAULT_CONTAINER);
    let found = match name {
        "" => annotated
            .and_then(|name| by_name(name))
            .or_else(|| pod.containers.iter().find(|c| c.kind == ContainerKind::Regular)),
        name => by_name(name),
    };
    let Some(found) = found else {
        return Err(ChooseError::NoContainer {
            looked_for: name.to_owned(),
            pod: full_name(pod),
            there: there(),
        });
    };
    let several = name.is_empty() && pod.containers.len() > 1;
    let chosen = proto::ChosenContainer {
        pod_namespace: pod.pod.namespace.clone(),
        pod_name: pod.pod.name.clone(),
        pod_uid: pod.pod.uid.clone(),
        container: found.name.clone(),
        candidates: if several { there() } else { Vec::new() },
    };
    Ok((found, chosen))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{container as of, pod as view};
    use super::*;

    #[test]
    fn pods_by_uid_name_and_namespace() {
        let pods = [
            view("shop", "cart", "u1", &[]),
            view("shop", "web", "u2", &[]),
            view("test", "web", "u3", &[]),
            Arc::new(PodView {
                terminating: Some(jiff::Timestamp::UNIX_EPOCH),
                ..(*view("shop", "cart", "u0", &[])).clone()
            }),
        ];
        for (reference, uid) in [("u3", "u3"), ("cart", "u1"), ("shop/web", "u2"), ("u0", "u0")] {
            assert_eq!(pod(&pods, reference).unwrap().pod.uid, uid, "{reference}");
        }
        for (reference, text) in [
            ("db", "pod \"db\" not found: there is shop/cart, shop/web, test/web"),
            ("test/cart", "pod \"test/cart\" not found: there is shop/cart, shop/web, test/web"),
            (
                "web",
                "pod \"web\" is not one pod: it could be shop/web (u2), test/web (u3); name it by namespace \
                 and name, or by uid",
            ),
        ] {
            assert_eq!(pod(&pods, reference).unwrap_err().to_string(), text);
        }
        assert_eq!(
            pod(&[], "web").unwrap_err().to_string(),
            "pod \"web\" not found: the agent manages no pod"
        );
        let many: Vec<_> = (10..35).map(|n| view("a", &format!("p{n}"), &format!("u{n}"), &[])).collect();
        assert!(pod(&many, "web").unwrap_err().to_string().ends_with("a/p29 and 5 more"));
    }

    #[test]
    fn containers_by_name_and_default() {
        use ContainerKind::{Init, Regular, Sidecar};
        let kinds = [("setup", Init), ("mesh", Sidecar), ("web", Regular), ("log", Regular)];
        let containers = kinds.map(|(name, kind)| ContainerView { kind, ..of(name, "c0") });
        let plain = view("shop", "cart", "u1", &containers);
        let (found, chosen) = container(&plain, "").unwrap();
        assert_eq!(found.name, "web");
        assert_eq!(chosen.candidates, ["web", "log", "setup (init)", "mesh (init)"]);
        let (found, chosen) = container(&plain, "setup").unwrap();
        assert_eq!((found.name.as_str(), chosen.candidates.len()), ("setup", 0));
        assert_eq!(
            container(&plain, "db").unwrap_err().to_string(),
            "container \"db\" not found in pod shop/cart: there is web, log, setup (init), mesh (init)"
        );
        let mut annotated = (*plain).clone();
        for (annotation, name) in [("log", "log"), ("gone", "web")] {
            let mut inner = (*annotated.pod).clone();
            inner.annotations.insert(DEFAULT_CONTAINER.into(), annotation.into());
            annotated.pod = Arc::new(inner);
            assert_eq!(container(&annotated, "").unwrap().0.name, name);
        }
        let single = view("shop", "cart", "u1", &containers[2..3]);
        assert!(container(&single, "").unwrap().1.candidates.is_empty());
    }
}
