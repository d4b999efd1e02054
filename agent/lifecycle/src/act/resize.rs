//! Carries out an in-place resize: the pod's cgroup grows, the runtime resizes the containers, the cgroup
//! shrinks (KEP-1287). What a resize is, and in which order it goes, is decided in
//! [`crate::decide::resize`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::shrink;
use crate::decide::plan::Action;
use crate::decide::resize;
use crate::decide::shrink::same_but_for_numbers;
use crate::orders::{Order, Orders, Report};
use crate::record::manifest::Manifest;
use crate::state::{Inner, PodState};
use nodewarden_admission::{Admission, NoGrowth};
use nodewarden_hierarchy::DesiredCgroup;
use nodewarden_manifest::Pod;
use nodewarden_pods::spec;
use nodewarden_resource_managers::ResourceManagers;

/// Between two tries of what the runtime or the kernel refuses (a memory limit below what is in use).
const AGAIN: Duration = Duration::from_secs(5);
/// How long to wait for the pod's cgroup.
const PATIENCE: Duration = Duration::from_secs(10);

/// The resize of one pod, as its manager knows it.
#[derive(Debug, Default)]
pub struct PodResize {
    /// What the pod's cgroup is sized by when every container has its new resources.
    target: Option<Arc<Pod>>,
    /// The pod should have these resources, for which there is no room. Boxed, since most pods have none.
    refused: Option<Box<(Arc<Pod>, NoGrowth)>>,
}

impl PodResize {
    /// The pod as it is to be when the resize is done; `None` when none is under way.
    pub fn target(&self) -> Option<&Arc<Pod>> {
        self.target.as_ref()
    }

    /// Has the resize that is under way lead to this pod, whose resources are the same; false if none is.
    pub fn retarget(&mut self, pod: &Arc<Pod>) -> bool {
        let target = self.target.as_mut();
        target.map(|target| target.clone_from(pod)).is_some()
    }

    /// What there was no room for.
    pub fn refused(&self) -> Option<&Arc<Pod>> {
        self.refused.as_deref().map(|(pod, _)| pod)
    }

    /// Gives the pod other resources, or remembers that there is no room for them. `version` is that of the
    /// pod's cgroup from now on. False: there is no room, and the cgroup stays as it is.
    pub fn start(
        &mut self,
        (admission, managers): (&Admission, &ResourceManagers),
        cgroup: &mut DesiredCgroup,
        orders: &Orders,
        (pod, version): (Arc<Pod>, u64),
    ) -> bool {
        let excluded = managers.refuses_resize(&pod).map(NoGrowth::Excluded);
        if let Err(why) = excluded.map_or_else(|| admission.resizing(&pod), Err) {
            if self.refused.as_deref().is_none_or(|(_, before)| *before != why) {
                let _ = orders.send(Order::NotResized { why: Some(why.clone()) });
            }
            self.refused = Some(Box::new((pod, why)));
            return false;
        }
        self.refused = None;
        let steps = resize::steps(&cgroup.pod, &pod);
        if !steps.no_container_shrinks() {
            // As long as the two differ, the hierarchy leaves containers' limits alone that the runtime is
            // about to change.
            cgroup.applied = pod.clone();
        }
        cgroup.pod = Arc::new(steps.before);
        cgroup.version = version;
        self.target = Some(pod.clone());
        let _ = orders.send(Order::Resize { pod, version });
        true
    }

    /// The pod is to have the resources that it has.
    pub fn cancel(&mut self, orders: &Orders) {
        if self.refused.take().is_some() {
            let _ = orders.send(Order::NotResized { why: None });
        }
    }

    /// Every container has its new resources. True if the pod's cgroup changes with that.
    pub fn finish(&mut self, admission: &Admission, cgroup: &mut DesiredCgroup) -> bool {
        let Some(target) = self.target.take() else { return false };
        admission.resized(&target);
        cgroup.pod = target.clone();
        cgroup.applied = target;
        true
    }
}

/// Takes the order to resize: the containers are resized by the next turns, once the pod's cgroup has
/// `version`.
pub fn begin(state: &PodState, pod: Arc<Pod>, version: u64) {
    state.update(|inner| {
        inner.record.manifest = Manifest::of(&pod);
        inner.pod = pod;
        inner.version = version;
        inner.resizing = true;
        inner.resize = None;
        inner.resize_error = None;
        // Its volumes may show its resources.
        inner.refresh = Some(Instant::now());
    });
}

/// Takes over what else of the pod has changed: labels, annotations, images, tolerations, its deadline.
pub fn update_pod(state: &PodState, pod: Arc<Pod>) {
    let take = |inner: &mut Inner| {
        let is_news = *inner.pod != *pod;
        // Its volumes may show its labels and annotations.
        if is_news {
            inner.refresh = Some(Instant::now());
        }
        inner.record.manifest = Manifest::of(&pod);
        // Also the same one, so that it is in memory once.
        inner.pod = pod;
        is_news
    };
    if state.save(take) {
        // New ephemeral containers may name other objects.
        if let Some(objects) = &state.env.objects {
            objects.register(&state.pod());
        }
        state.show();
    }
}

/// Waits until the pod's cgroup has the limits of `version`.
///
/// # Errors
/// It has not in time, or cannot; the time until the next try.
async fn level_is(state: &PodState, version: u64) -> Result<(), Duration> {
    if !state.env.settings.cgroups_per_qos {
        return Ok(());
    }
    let uid = state.pod().uid.clone();
    let mut places = state.env.places.clone();
    let written = places.wait_for(|places| places.get(&uid).is_some_and(|place| place.version >= version));
    match tokio::time::timeout(PATIENCE, written).await {
        Ok(Ok(places)) => match places.get(&uid).and_then(|place| place.problem.clone()) {
            None => Ok(()),
            Some(problem) => {
                drop(places);
                state.note(|inner| inner.resize_error = Some(format!("the pod's cgroup: {problem}")));
                Err(AGAIN)
            }
        },
        Ok(Err(_)) | Err(_) => Err(AGAIN),
    }
}

/// Has the runtime change a running container's resources.
///
/// # Errors
/// Not now; the time until the next try, with the reason shown.
pub async fn update(state: &PodState, id: &str, name: &str) -> Result<(), Duration> {
    let version = state.read().version;
    level_is(state, version).await?;
    let pod = state.pod();
    let Some(own) = pod.container(name) else { return Ok(()) };
    let now = state.env.node_now();
    let resources = spec::container_resources(&pod, own, &state.env.host(&now));
    if let Some(why) = shrink::why_not(state, id, name, resources.memory_limit_in_bytes).await {
        failed(state, &pod, (name, id), why);
        return Err(AGAIN);
    }
    match state.env.client.update_resources(id, resources).await {
        Ok(()) => {
            state.update(|inner| {
                inner.record.note_update(own);
                inner.resize_error = None;
            });
            state.env.record_event(
                &pod,
                Some((name, id)),
                "Resized",
                "resources changed in place".to_owned(),
            );
            Ok(())
        }
        Err(error) => {
            failed(state, &pod, (name, id), error.to_string());
            Err(AGAIN)
        }
    }
}

/// Shows that a container could not be resized; it is tried again. One event for each new reason, while the
/// numbers in the message may change.
fn failed(state: &PodState, pod: &Pod, container: (&str, &str), why: String) {
    let before = state.read().resize_error.clone();
    if before.as_deref().is_none_or(|before| !same_but_for_numbers(before, &why)) {
        state.env.record_event(pod, Some(container), "ResizeError", why.clone());
    }
    if before.as_ref() != Some(&why) {
        state.note(|inner| inner.resize_error = Some(why));
    }
}

/// Shows why the pod does not have the resources that it should have; `None`: it has them. One event for each
/// new reason, while the numbers in the message may change.
pub fn refused(state: &PodState, why: Option<&NoGrowth>) {
    let pending = why.map(NoGrowth::pending);
    let before = state.read().resize.clone();
    if before == pending {
        return;
    }
    if let Some(pending) = &pending
        && before.is_none_or(|before| before.reason() != pending.reason())
    {
        let message = pending.message().to_owned();
        state.env.record_event(&state.pod(), None, &format!("Resize{}", pending.reason()), message);
    }
    state.note(|inner| inner.resize = pending);
}

/// Reports to the manager that every container has the resources of the last order, unless one of them waits
/// for them: the pod's cgroup stays as large as it is until then.
pub fn report_done(state: &PodState, reports: &mpsc::UnboundedSender<Report>) {
    let carried_out = state.set(|inner| {
        let is_update = |action: &Action| matches!(action, Action::UpdateResources { .. });
        let waits = inner.plan.actions.iter().any(is_update);
        !waits && std::mem::take(&mut inner.resizing)
    });
    if !carried_out {
        return;
    }
    state.note(|inner| inner.resize_error = None);
    let uid = state.pod().uid.clone();
    // The receiver is gone when the agent ends.
    let _ = reports.send(Report::Resized { uid });
}
