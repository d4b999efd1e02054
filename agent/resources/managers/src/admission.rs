//! Admission: a pod gets its devices, CPUs and memory together, or nothing.

use nodewarden_devices::{AdmissionError, Admitted, Devices, PodDemand, Preferences};
use nodewarden_manifest::Pod;
use nodewarden_topology::Rejection;

use crate::ResourceManagers;
use crate::node::Given;
use crate::shared::Inner;

/// How often everything is decided again after other pods took devices meanwhile.
const TRIES: usize = 4;
/// How many questions plugins are asked for one pod; beyond that devices are chosen without their preference.
const MOST_QUESTIONS: usize = 256;

/// What a pod has just got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// Its devices; `None` if it has none, or had them before.
    pub devices: Option<Admitted>,
    /// Its CPUs and memory, as text for people; `None` if it has none, or had them before.
    pub resources: Option<String>,
}

/// Why a pod gets nothing now.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its devices.
    #[error(transparent)]
    Devices(#[from] AdmissionError),
    /// Its CPUs or memory, or all of them together.
    #[error(transparent)]
    Resources(#[from] Rejection),
    /// The state file was damaged, and it is not known yet which CPUs running containers are on.
    #[error("the state of CPUs was damaged: the runtime is being asked which CPUs running containers are on")]
    Recovering,
    /// The state could not be written. No container may start with what a restart would forget.
    #[error("the state of CPUs and memory cannot be written: {0}")]
    NotSaved(String),
}

/// Takes back what a pod was given in an admission that is not finished.
struct Undo<'a> {
    inner: &'a Inner,
    uid: &'a str,
    had: Option<Given>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(had) = self.had.take() {
            self.inner.lock().managers.release_others(self.uid, &had);
            self.inner.save_and_notify();
        }
    }
}

impl ResourceManagers {
    /// Gives a pod what it asks for, unless it has it. When this returns, what it has is on disk. If the
    /// future is dropped, what was not given before is given back.
    ///
    /// # Errors
    /// See [`Refused`]; nothing is given then.
    pub async fn admit(&self, pod: &Pod, devices: &Devices) -> Result<Granted, Refused> {
        let demand = PodDemand::of(pod);
        if !self.is_active() {
            return Ok(Granted { devices: devices.admit(&demand).await?, resources: None });
        }
        let (mut known, mut questions, mut tries) = (Preferences::default(), 0, 0);
        loop {
            let nodes = self.0.lock().managers.nodes();
            let mut provider = devices.provider(&demand, nodes, known.clone())?;
            let (decided, had) = {
                let mut state = self.0.lock();
                if state.unreported.is_some() {
                    return Err(Refused::Recovering);
                }
                let had = state.managers.given(&pod.uid);
                (state.managers.admit(pod, &mut provider), had)
            };
            if let Some(question) = provider.question() {
                questions += 1;
                let preferred = match questions <= MOST_QUESTIONS {
                    true => devices.preferred(question.clone()).await,
                    false => Vec::new(),
                };
                known.add(question, preferred);
                continue;
            }
            decided?;
            let mut undo = Undo { inner: &self.0, uid: &pod.uid, had: Some(had.clone()) };
            let admitted = match devices.admit_chosen(provider).await {
                Err(AdmissionError::Contended { .. }) if tries < TRIES => {
                    tries += 1;
                    continue;
                }
                admitted => admitted?,
            };
            let resources = self.description(pod, &had);
            if resources.is_some() {
                self.0.mark_and_notify();
                let saved = self.0.saver.settled().await;
                if let Err(error) = saved {
                    if admitted.is_some() {
                        devices.release(&pod.uid);
                    }
                    return Err(Refused::NotSaved(error.to_string()));
                }
            }
            undo.had = None;
            return Ok(Granted { devices: admitted, resources });
        }
    }

    /// What the pod has and did not have before; `None` if that is nothing.
    fn description(&self, pod: &Pod, had: &Given) -> Option<String> {
        let state = self.0.lock();
        if state.managers.given(&pod.uid) == *had {
            return None;
        }
        let of = |name: &str| {
            let cpus = state.managers.cpus.assignments().get(&pod.uid, name);
            let nodes = state.managers.memory.nodes_of(&pod.uid, name);
            let cpus = cpus.map(|cpus| format!("CPUs {cpus}"));
            let nodes = nodes.map(|nodes| format!("memory of NUMA nodes {nodes}"));
            let both: Vec<String> = cpus.into_iter().chain(nodes).collect();
            (!both.is_empty()).then(|| format!("{name}: {}", both.join(", ")))
        };
        let containers = pod.init_containers.iter().chain(&pod.containers);
        Some(containers.filter_map(|own| of(&own.name)).collect::<Vec<_>>().join("; "))
    }
}
