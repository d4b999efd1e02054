//! Asks the runtime what it has of a pod.

use std::net::IpAddr;

use jiff::Timestamp;
use nodewarden_proto::runtime::v1 as cri;

use super::{cpusets, exits, probing};
use crate::decide::observed::{ContainerSeen, ContainerStage, Observed, SandboxSeen};
use crate::id::Id;
use crate::state::PodState;
use nodewarden_cri::{ListedContainer, ListedSandbox, Listing, RuntimeError};
use nodewarden_pods::spec::{Ownership, is_kubelets};

/// Asks the runtime and takes the answer over; containers that have ended since are recorded.
///
/// # Errors
/// The runtime cannot be asked; what was known stays.
pub async fn refresh(state: &PodState) -> Result<(), RuntimeError> {
    let client = &state.env.client;
    let uid = state.pod().uid.clone();
    let listing = ours(client.list_pod(&uid).await?, &state.env.ownership);
    let mut containers = Vec::with_capacity(listing.containers.len());
    for listed in &listing.containers {
        if let Some(known) = reported(state, listed) {
            containers.push(known);
            continue;
        }
        match client.container_status(&listed.id).await {
            Ok(status) => containers.push(container(&status, (&listed.pod_sandbox_id).into())),
            // Removed meanwhile.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let mut sandboxes = Vec::with_capacity(listing.sandboxes.len());
    for listed in &listing.sandboxes {
        let before = state.read().observed.sandboxes.iter().find(|s| s.id == listed.id).cloned();
        let ips = match before {
            Some(before) if before.ready => before.ips,
            _ if listed.state == cri::PodSandboxState::SandboxReady as i32 => {
                match client.sandbox_status(&listed.id).await {
                    Ok(status) => ips(&status),
                    Err(error) if error.is_not_found() => continue,
                    Err(error) => return Err(error),
                }
            }
            before => before.map(|before| before.ips).unwrap_or_default(),
        };
        sandboxes.push(sandbox(listed, ips));
    }
    sandboxes.shrink_to_fit();
    sandboxes.sort_by_key(|sandbox| std::cmp::Reverse((sandbox.attempt, sandbox.created)));
    containers.shrink_to_fit();
    containers.sort_by_key(|container| std::cmp::Reverse((container.attempt, container.created)));
    state.set(|inner| {
        inner.observed = Observed { sandboxes, containers };
        inner.observed.share(&inner.record);
        inner.unseen = false;
        exits::place_early_ooms(inner);
    });
    cpusets::saw(state);
    take_over(state, &listing.containers);
    probing::follow(state);
    exits::record(state).await;
    Ok(())
}

/// The container as the runtime reported it before; `None` if its list has it in another state since.
fn reported(state: &PodState, listed: &ListedContainer) -> Option<ContainerSeen> {
    let inner = state.read();
    let mut known = inner.observed.containers.iter().filter(|seen| seen.reported);
    known.find(|seen| seen.id == listed.id && seen.stage == stage(listed.state)).cloned()
}

/// Notes the containers that a kubelet started and that run on under this agent: their hooks are done, and
/// they have what the spec asks for.
fn take_over(state: &PodState, listed: &[ListedContainer]) {
    let kubelets: Vec<&str> =
        listed.iter().filter(|own| is_kubelets(&own.labels)).map(|own| own.id.as_str()).collect();
    if kubelets.is_empty() {
        return;
    }
    let pod = state.pod();
    state.save(|inner| {
        let running = inner.observed.containers.iter().filter(|seen| seen.stage == ContainerStage::Running);
        let mut noted = false;
        for seen in running.filter(|seen| kubelets.contains(&seen.id.as_str())) {
            if let Some(container) = pod.container(&seen.name) {
                noted |= inner.record.note_taken_over(container, seen);
            }
        }
        noted
    });
}

/// Asks the runtime for the status of these containers and takes over what it answers.
pub async fn at(state: &PodState, containers: &[ContainerSeen]) {
    for seen in containers {
        let Ok(status) = state.env.client.container_status(&seen.id).await else { continue };
        let now = container(&status, seen.sandbox.clone());
        state.set(|inner| {
            if let Some(known) = inner.observed.containers.iter_mut().find(|known| known.id == now.id) {
                *known = now;
            }
        });
    }
    if !containers.is_empty() {
        exits::record(state).await;
    }
}

/// Whether a listing of the pod has anything new: most changes at the runtime are made by the worker itself.
pub fn differs(observed: &Observed, listing: &Listing) -> bool {
    let sandbox = |seen: &SandboxSeen| {
        let listed = listing.sandboxes.iter().find(|listed| listed.id == seen.id);
        listed.is_some_and(|listed| is_ready(listed) == seen.ready)
    };
    let container = |seen: &ContainerSeen| {
        let listed = listing.containers.iter().find(|listed| listed.id == seen.id);
        listed.is_some_and(|listed| stage(listed.state) == seen.stage)
    };
    let same = listing.sandboxes.len() == observed.sandboxes.len()
        && listing.containers.len() == observed.containers.len()
        && observed.sandboxes.iter().all(sandbox)
        && observed.containers.iter().all(container);
    !same
}

/// Whether the runtime reports that a container runs; false when it cannot be asked.
pub async fn still_runs(state: &PodState, container: &str) -> bool {
    let status = state.env.client.container_status(container).await;
    status.is_ok_and(|status| status.state == cri::ContainerState::ContainerRunning as i32)
}

/// Whether the runtime reports that a sandbox is ready; false when it cannot be asked.
pub async fn is_still_ready(state: &PodState, sandbox: &str) -> bool {
    let status = state.env.client.sandbox_status(sandbox).await;
    status.is_ok_and(|status| status.state == cri::PodSandboxState::SandboxReady as i32)
}

/// What is this agent's: another's with the same uid is another's.
pub fn ours(mut listing: Listing, ownership: &Ownership) -> Listing {
    listing.sandboxes.retain(|sandbox| ownership.has(&sandbox.labels));
    listing.containers.retain(|container| ownership.has(&container.labels));
    listing
}

/// The addresses of a sandbox on a network of its own.
pub fn ips(status: &cri::PodSandboxStatus) -> Vec<IpAddr> {
    let Some(network) = &status.network else { return Vec::new() };
    let more = network.additional_ips.iter().map(|more| more.ip.as_str());
    [network.ip.as_str()].into_iter().chain(more).filter_map(|ip| ip.parse().ok()).collect()
}

pub(crate) fn sandbox(listed: &ListedSandbox, ips: Vec<IpAddr>) -> SandboxSeen {
    SandboxSeen {
        id: (&listed.id).into(),
        attempt: listed.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        ready: is_ready(listed),
        created: time(listed.created_at).unwrap_or_default(),
        ips,
    }
}

fn is_ready(listed: &ListedSandbox) -> bool {
    listed.state == cri::PodSandboxState::SandboxReady as i32
}

pub(crate) fn container(status: &cri::ContainerStatus, sandbox: Id) -> ContainerSeen {
    let metadata = status.metadata.clone().unwrap_or_default();
    let image_id = if status.image_id.is_empty() { &status.image_ref } else { &status.image_id };
    ContainerSeen {
        id: (&status.id).into(),
        sandbox,
        name: metadata.name,
        attempt: metadata.attempt,
        stage: stage(status.state),
        created: time(status.created_at).unwrap_or_default(),
        started: time(status.started_at),
        finished: time(status.finished_at),
        exit_code: status.exit_code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        image_id: image_id.as_str().into(),
        reported: true,
    }
}

fn stage(state: i32) -> ContainerStage {
    match cri::ContainerState::try_from(state) {
        Ok(cri::ContainerState::ContainerCreated) => ContainerStage::Created,
        Ok(cri::ContainerState::ContainerRunning) => ContainerStage::Running,
        Ok(cri::ContainerState::ContainerExited) => ContainerStage::Exited,
        Ok(cri::ContainerState::ContainerUnknown) | Err(_) => ContainerStage::Unknown,
    }
}

/// `None` for 0, which means that it has not happened.
fn time(nanoseconds: i64) -> Option<Timestamp> {
    (nanoseconds > 0).then(|| Timestamp::from_nanosecond(nanoseconds.into()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{container, sandbox};

    #[test]
    fn a_listing_of_what_is_known_has_nothing_new() {
        let observed = Observed {
            sandboxes: vec![sandbox(0, true)],
            containers: vec![container("c", 0, ContainerStage::Running)],
        };
        let listing = |ready: bool, stage: cri::ContainerState| Listing {
            sandboxes: vec![ListedSandbox {
                id: "s0".into(),
                state: i32::from(!ready),
                ..Default::default()
            }],
            containers: vec![ListedContainer { id: "c.0".into(), state: stage.into(), ..Default::default() }],
        };
        let same = listing(true, cri::ContainerState::ContainerRunning);
        assert!(!differs(&observed, &same));
        assert!(differs(&observed, &listing(false, cri::ContainerState::ContainerRunning)));
        assert!(differs(&observed, &listing(true, cri::ContainerState::ContainerExited)));
        assert!(differs(&observed, &Listing::default()));
        assert!(differs(&Observed::default(), &same));
        let mut more = same.clone();
        more.containers.push(ListedContainer { id: "d.0".into(), ..Default::default() });
        assert!(differs(&observed, &more));
    }
}
