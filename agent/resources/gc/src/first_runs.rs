//! Pods whose logs most runs need not look at: each of their containers runs for the first time, so that
//! there is no earlier run whose logs could be left. A look at a pod's logs reads a directory, three files
//! and a link of each container, which nothing else reads: they come from the disk.

use std::collections::HashSet;
use std::sync::Arc;

use nodewarden_cri::Listing;
use nodewarden_model::{ContainerState, ContainerView, PodView};
use nodewarden_pods::log_links;

/// Such pods.
#[derive(Debug, Default)]
pub struct FirstRuns(Vec<Arc<PodView>>);

impl FirstRuns {
    /// Those of `pods`.
    pub fn of(mut pods: Vec<Arc<PodView>>) -> Self {
        pods.retain(|view| is_one(view));
        Self(pods)
    }

    /// Their uids.
    pub fn uids(&self) -> HashSet<&str> {
        self.0.iter().map(|view| view.pod.uid.as_str()).collect()
    }

    /// Whether the runtime has their containers and one sandbox of each, and nothing else.
    pub fn are_all_of(&self, listing: &Listing) -> bool {
        let ids: HashSet<&str> =
            self.0.iter().flat_map(|view| view.containers.iter().map(|own| own.id.as_str())).collect();
        let mut uids = self.uids();
        listing.containers.len() == ids.len()
            && listing.containers.iter().all(|container| ids.contains(container.id.as_str()))
            && listing.sandboxes.len() == uids.len()
            && listing.sandboxes.iter().all(|sandbox| {
                sandbox.metadata.as_ref().is_some_and(|metadata| uids.remove(metadata.uid.as_str()))
            })
    }

    /// The names of the links to their logs ([`log_links`]).
    pub fn links(&self) -> HashSet<String> {
        let each = self.0.iter().flat_map(|view| view.containers.iter().map(move |own| (&view.pod, own)));
        each.map(|(pod, own)| log_links::name(&pod.name, &pod.namespace, &own.name, &own.id)).collect()
    }
}

fn is_one(view: &PodView) -> bool {
    let runs_first = |own: &ContainerView| {
        matches!(own.state, ContainerState::Running { .. })
            && own.restarts == 0
            && own.last.is_none()
            && !own.id.is_empty()
    };
    view.terminating.is_none()
        && !view.unseen
        && !view.is_evicted_or_preempted()
        && view.containers.iter().all(runs_first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::views::{at, ended, pod, view, waiting};

    fn running(id: &str) -> ContainerView {
        ContainerView { state: ContainerState::Running { since: at(0) }, ..waiting("c", id, None) }
    }

    #[test]
    fn only_pods_of_which_nothing_has_ended_are_left_out() {
        let of = |uid: &str, containers| view(pod(uid, json!([])), containers);
        let changed = |uid: &str, change: fn(&mut PodView)| {
            let mut view = (*of(uid, vec![running("1")])).clone();
            change(&mut view);
            Arc::new(view)
        };
        let pods = vec![
            of("first", vec![running("1"), running("2")]),
            of("none", vec![]),
            of("restarted", vec![running("1"), ContainerView { restarts: 1, ..running("2") }]),
            of("ended", vec![running("1"), ended("d", "2")]),
            of("waits", vec![waiting("c", "1", None)]),
            of(
                "with-a-last-one",
                vec![ContainerView { last: waiting("c", "", Some("0")).last, ..running("1") }],
            ),
            of("unnamed", vec![running("")]),
            changed("terminating", |view| view.terminating = Some(at(1))),
            changed("unseen", |view| view.unseen = true),
        ];
        let found = FirstRuns::of(pods);
        assert_eq!(found.uids(), HashSet::from(["first", "none"]));
        let links = ["first_shop_c-1.log", "first_shop_c-2.log"].map(str::to_owned);
        assert_eq!(found.links(), HashSet::from(links));
        assert!(FirstRuns::default().uids().is_empty());
    }
}
