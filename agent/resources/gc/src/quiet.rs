//! Whether a periodic run need not look at containers and logs: nothing has changed since a run that had
//! nothing to do. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use nodewarden_cri::Listing;
use nodewarden_model::PodView;
use nodewarden_pods::status::DesiredPods;
use nodewarden_proto::runtime::v1 as cri;

/// How long after a run that looked at the logs of all pods another one does. What is not seen in a list is
/// found by then, such as logs that someone put there.
pub const TRUSTED: Duration = Duration::from_secs(30 * 60);

/// Whether there is nothing to do for containers and logs. `idle`: what the last run found as [`mark`] has
/// it, if it had nothing to do and did not fail, and the time since the logs of all pods were looked at;
/// `found`: what it would find now; `all_alive`: a dead container or sandbox may become due by time alone.
pub fn is_quiet(idle: Option<(u64, Duration)>, found: u64, all_alive: bool) -> bool {
    all_alive && idle.is_some_and(|(then, since)| since <= TRUSTED && then == found)
}

/// Whether all containers run and all sandboxes are ready.
pub fn all_alive(listing: &Listing) -> bool {
    listing.containers.iter().all(|one| one.state == cri::ContainerState::ContainerRunning as i32)
        && listing.sandboxes.iter().all(|one| one.state == cri::PodSandboxState::SandboxReady as i32)
}

/// A number that is another one if containers, sandboxes or their states are others. Their order does not
/// matter: runtimes list them in any.
pub fn mark(listing: &Listing) -> u64 {
    let containers = listing.containers.iter().map(|one| hash(("container", &one.id, one.state)));
    let sandboxes = listing.sandboxes.iter().map(|one| hash(("sandbox", &one.id, one.state)));
    sum(containers.chain(sandboxes))
}

/// A number that is another one if other pods are wanted, or those that exist are others or in another phase.
pub fn mark_of_pods<'a>(wanted: &DesiredPods, pods: impl Iterator<Item = &'a PodView>) -> u64 {
    let wanted_pods = wanted.pods.iter().map(|sourced| hash(("wanted", &sourced.pod.uid)));
    let phase = |view: &PodView| (std::mem::discriminant(&view.phase), view.is_evicted_or_preempted());
    let pods = pods.map(|view| hash(("pod", &view.pod.uid, view.terminating.is_some(), phase(view))));
    sum(wanted_pods.chain(pods)).wrapping_add(hash(("complete", wanted.complete)))
}

fn sum(hashes: impl Iterator<Item = u64>) -> u64 {
    hashes.fold(0, u64::wrapping_add)
}

fn hash(item: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    item.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::views::{container, pod, sandbox, view};
    use cri::ContainerState::{ContainerExited as EXITED, ContainerRunning as RUNNING};
    use nodewarden_pods::source::SourcedPod;

    fn listing(containers: &[(&str, cri::ContainerState)], sandboxes: &[(&str, bool)]) -> Listing {
        Listing {
            containers: containers.iter().map(|(id, state)| container(id, "u", "c", 0, *state)).collect(),
            sandboxes: sandboxes.iter().map(|(id, ready)| sandbox(id, "u", 0, *ready)).collect(),
        }
    }

    #[test]
    fn a_run_is_quiet_only_shortly_after_one_that_found_the_same() {
        let after = |seconds, mark| Some((mark, Duration::from_secs(seconds)));
        for (idle, found, all_alive, quiet) in [
            (after(57, 7), 7, true, true),
            (after(1800, 7), 7, true, true),
            (after(1801, 7), 7, true, false),
            (after(57, 8), 7, true, false),
            (after(57, 7), 7, false, false),
            (None, 7, true, false),
        ] {
            assert_eq!(is_quiet(idle, found, all_alive), quiet, "{idle:?} {found} {all_alive}");
        }
    }

    #[test]
    fn each_change_of_a_list_changes_its_mark_but_not_another_order() {
        let before = listing(&[("a", RUNNING), ("b", RUNNING)], &[("s", true), ("t", true)]);
        for (what, after, same, alive) in [
            ("order", listing(&[("b", RUNNING), ("a", RUNNING)], &[("t", true), ("s", true)]), true, true),
            ("ended", listing(&[("a", EXITED), ("b", RUNNING)], &[("s", true), ("t", true)]), false, false),
            (
                "not ready",
                listing(&[("a", RUNNING), ("b", RUNNING)], &[("s", true), ("t", false)]),
                false,
                false,
            ),
            ("gone", listing(&[("a", RUNNING)], &[("s", true), ("t", true)]), false, true),
            ("another", listing(&[("a", RUNNING), ("c", RUNNING)], &[("s", true), ("t", true)]), false, true),
            ("no sandbox", listing(&[("a", RUNNING), ("b", RUNNING)], &[("s", true)]), false, true),
        ] {
            assert_eq!(mark(&after) == mark(&before), same, "{what}");
            assert_eq!(all_alive(&after), alive, "{what}");
        }
    }

    #[test]
    fn each_change_of_the_pods_changes_their_mark() {
        let wanted = |uids: &[&str], complete| DesiredPods {
            pods: uids.iter().map(|uid| SourcedPod::new(pod(uid, json!([])), "/p.yaml")).collect(),
            complete,
        };
        let views =
            |uids: &[&str]| uids.iter().map(|uid| view(pod(uid, json!([])), vec![])).collect::<Vec<_>>();
        let mark = |wanted: &DesiredPods, views: &[std::sync::Arc<PodView>]| {
            mark_of_pods(wanted, views.iter().map(|view| &**view))
        };
        let before = mark(&wanted(&["u", "v"], true), &views(&["u", "v"]));
        assert_eq!(mark(&wanted(&["v", "u"], true), &views(&["v", "u"])), before);
        assert_ne!(mark(&wanted(&["v"], true), &views(&["u", "v"])), before, "one is no longer wanted");
        assert_ne!(mark(&wanted(&["u", "v"], true), &views(&["v"])), before, "one is gone");
        assert_ne!(
            mark(&wanted(&["u", "v"], false), &views(&["u", "v"])),
            before,
            "a manifest is unreadable"
        );
        let mut ended = views(&["u", "v"]);
        std::sync::Arc::make_mut(&mut ended[0]).phase = nodewarden_model::PodPhase::Failed;
        assert_ne!(mark(&wanted(&["u", "v"], true), &ended), before, "one has ended");
    }
}
