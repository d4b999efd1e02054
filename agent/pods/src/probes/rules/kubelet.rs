//! A model of the kubelet's probing of one container: a worker for each probe and the results that they set
//! (pkg/kubelet/prober), with the kubelet's names and state. Unlike there, a worker resets its row of results
//! for a new container.

use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::Verdict;

struct Worker {
    spec: ProbeSpec,
    on_hold: bool,
    last_result: Option<Verdict>,
    result_run: u32,
    stopped: bool,
    /// The result in the results manager.
    result: Option<Verdict>,
}

/// A container and its workers.
pub struct Kubelet {
    workers: Vec<Worker>,
    started: bool,
    ready: bool,
}

impl Kubelet {
    pub fn new(specs: &[ProbeSpec]) -> Self {
        let workers = specs.iter().map(|spec| Worker {
            spec: spec.clone(),
            on_hold: false,
            last_result: None,
            result_run: 0,
            stopped: false,
            result: None,
        });
        let mut kubelet = Self { workers: workers.collect(), started: false, ready: false };
        kubelet.new_container();
        kubelet
    }

    /// The worker sees a container with another id.
    pub fn new_container(&mut self) {
        for worker in &mut self.workers {
            worker.on_hold = false;
            (worker.last_result, worker.result_run) = (None, 0);
            worker.result = match worker.spec.kind {
                ProbeKind::Readiness => Some(Verdict::Failure),
                ProbeKind::Liveness => Some(Verdict::Success),
                ProbeKind::Startup => None,
            };
        }
        self.update_pod_status();
    }

    /// The pod is being deleted.
    pub fn stop_liveness_and_startup(&mut self) {
        for worker in &mut self.workers {
            worker.stopped |= worker.spec.kind != ProbeKind::Readiness;
        }
    }

    /// A tick of a worker's ticker after the initial delay. Returns whether the probe ran; its run returned
    /// `seen`.
    pub fn tick(&mut self, kind: ProbeKind, seen: Verdict) -> bool {
        let container_started = self.started;
        let Some(worker) = self.workers.iter_mut().find(|worker| worker.spec.kind == kind) else {
            return false;
        };
        if worker.stopped || worker.on_hold {
            return false;
        }
        match kind {
            ProbeKind::Startup if container_started => return false,
            ProbeKind::Readiness | ProbeKind::Liveness if !container_started => return false,
            _ => {}
        }
        if worker.last_result == Some(seen) {
            worker.result_run += 1;
        } else {
            (worker.last_result, worker.result_run) = (Some(seen), 1);
        }
        let below = match seen {
            Verdict::Failure => worker.result_run < worker.spec.failure_threshold,
            Verdict::Success => worker.result_run < worker.spec.success_threshold,
        };
        if !below {
            worker.result = Some(seen);
            if kind != ProbeKind::Readiness && seen == Verdict::Failure {
                worker.on_hold = true;
                worker.result_run = 0;
            }
        }
        self.update_pod_status();
        true
    }

    fn update_pod_status(&mut self) {
        let result = |kind| self.workers.iter().find(|worker| worker.spec.kind == kind).map(|w| w.result);
        self.started = result(ProbeKind::Startup).is_none_or(|result| result == Some(Verdict::Success));
        self.ready = self.started
            && result(ProbeKind::Readiness).is_none_or(|result| result == Some(Verdict::Success));
    }

    pub fn started(&self) -> bool {
        self.started
    }

    pub fn ready(&self) -> bool {
        self.ready
    }

    /// The probe for which `computePodActions` restarts the container.
    pub fn restarts_for(&self) -> Option<ProbeKind> {
        let failed = |kind| {
            self.workers
                .iter()
                .any(|worker| worker.spec.kind == kind && worker.result == Some(Verdict::Failure))
        };
        if failed(ProbeKind::Liveness) {
            return Some(ProbeKind::Liveness);
        }
        failed(ProbeKind::Startup).then_some(ProbeKind::Startup)
    }
}
