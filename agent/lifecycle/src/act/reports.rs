//! Which events tell of a sandbox that is replaced, and of a container that could not be started (kubelet
//! kuberuntime `SyncPod`, `startContainer`; pkg/kubelet/images).

use std::time::Duration;

use nodewarden_model::WaitingReason;

use crate::decide::plan::Plan;

/// The message about a pod whose sandbox is ended because it is in the cgroup `former`, or replaced because
/// it is dead. `None` if it stays, or where that `is_known`.
pub fn sandbox_changed(former: Option<&str>, plan: &Plan, is_known: bool) -> Option<String> {
    const CHANGED: &str = "Pod sandbox changed, it will be killed and re-created";
    match former {
        _ if is_known => None,
        Some(former) => Some(format!("{CHANGED}: it is in {former}")),
        None => plan.replaces_sandbox().then(|| format!("{CHANGED}.")),
    }
}

/// Reasons and messages of the events about a container that was not started and is tried again after `wait`.
pub fn not_started(
    reason: WaitingReason,
    message: &str,
    image: &str,
    wait: Duration,
) -> Vec<(&'static str, String)> {
    let failed = ("Failed", format!("Error: {reason}: {message}"));
    let of_image = match reason {
        WaitingReason::ErrImageNeverPull => "ErrImageNeverPull",
        WaitingReason::ImageInspectError | WaitingReason::InvalidImageName => "InspectFailed",
        WaitingReason::ErrImagePull | WaitingReason::ImagePullBackOff if !wait.is_zero() => {
            return vec![failed, (BACK_OFF, format!("Back-off pulling image {image:?}"))];
        }
        _ => return vec![failed],
    };
    vec![(of_image, message.to_owned()), ("Failed", format!("Error: {reason}"))]
}

/// The kubelet's `BackOffPullImage`. The API server gets it as `BackOff`, as that of a container which keeps
/// ending, but of the type Normal.
const BACK_OFF: &str = "BackOffPullImage";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::Action;

    #[test]
    fn a_sandbox_that_is_replaced_is_reported_once() {
        let create = |attempt| Plan { actions: vec![Action::CreateSandbox { attempt }], ..Plan::default() };
        let dead = vec![Action::StopSandbox { id: "s".into() }, Action::CreateSandbox { attempt: 3 }];
        let dead = Plan { actions: dead, ..Plan::default() };
        let replaced = Some("Pod sandbox changed, it will be killed and re-created.");
        let left = Some("Pod sandbox changed, it will be killed and re-created: it is in /kubepods/u");
        for (former, plan, is_known, expected) in [
            (None, Plan::default(), false, None),
            (None, create(0), false, None),
            (None, create(1), false, replaced),
            (None, dead.clone(), false, replaced),
            (None, dead, true, None),
            (Some("/kubepods/u"), Plan::default(), false, left),
            (Some("/kubepods/u"), Plan::default(), true, None),
        ] {
            assert_eq!(sandbox_changed(former, &plan, is_known).as_deref(), expected, "{former:?} {plan:?}");
        }
    }

    #[test]
    fn images_have_the_kubelets_events() {
        use WaitingReason::*;
        for (reason, wait, expected) in [
            (ErrImagePull, 0, &[("Failed", "Error: ErrImagePull: m")][..]),
            (
                ImagePullBackOff,
                10,
                &[
                    ("Failed", "Error: ImagePullBackOff: m"),
                    ("BackOffPullImage", "Back-off pulling image \"app:1\""),
                ],
            ),
            (ErrImageNeverPull, 10, &[("ErrImageNeverPull", "m"), ("Failed", "Error: ErrImageNeverPull")]),
            (ImageInspectError, 0, &[("InspectFailed", "m"), ("Failed", "Error: ImageInspectError")]),
            (InvalidImageName, 0, &[("InspectFailed", "m"), ("Failed", "Error: InvalidImageName")]),
            (CreateContainerError, 10, &[("Failed", "Error: CreateContainerError: m")]),
        ] {
            let events = not_started(reason, "m", "app:1", Duration::from_secs(wait));
            let events: Vec<_> = events.iter().map(|(reason, message)| (*reason, message.as_str())).collect();
            assert_eq!(events, expected, "{reason}");
        }
    }
}
