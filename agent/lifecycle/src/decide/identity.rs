//! Compares the pods that should run with those that do.
//!
//! A pod is its namespace and name; its uid distinguishes one run of it from the next. The uid that is
//! derived for a manifest changes with every change of it, so what a changed manifest means is decided by
//! content: a pod that is resized in place keeps the uid that it runs with. Two pods of one name, or of one
//! uid, never run at the same time: the new one waits until the old one is gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::resize;
use crate::decide::resize::Change;
use nodewarden_manifest::Pod;
use nodewarden_model::{ApiState, Origin};
use nodewarden_pods::source::{Deletion, Desired, Over, SourcedPod};

/// A pod that has a worker.
#[derive(Debug, Clone)]
pub struct Running {
    pub pod: Arc<Pod>,
    pub origin: Origin,
    /// It is being ended.
    pub ending: bool,
}

/// What is to be done with pods. Each uid of what runs is in exactly one of `keep`, `resize`, `replace`,
/// `end` and `delete`, except those that end already.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assignment {
    /// New ones, in the source's order.
    pub start: Vec<SourcedPod>,
    /// Runs on as it is.
    pub keep: Vec<String>,
    /// Among those kept or resized: the origin that the pod has now.
    pub moved: Vec<(String, Origin)>,
    /// Gets these resources; the pod has the running one's uid.
    pub resize: Vec<Arc<Pod>>,
    /// Is ended because its source has another pod in its place. That one starts when the old one is gone.
    pub replace: Vec<String>,
    /// Its source no longer has it.
    pub end: Vec<String>,
    /// Its source asks for its end, also of those that end already.
    pub delete: Vec<(String, Deletion)>,
    /// Pods of the API server that are being deleted there and have no worker here. What is left of each is
    /// ended, so that it can be deleted for good.
    pub finish: Vec<(SourcedPod, Deletion)>,
    /// Pods of the API server, by the uid of their workers, that it no longer has.
    pub gone: Vec<String>,
    /// The API server has it as succeeded or failed.
    pub over: Vec<(String, Over)>,
    /// Pods of the API server whose spec or metadata have changed in what applies to a running pod.
    pub update: Vec<Arc<Pod>>,
    /// What the API server knows of pods that have a worker.
    pub states: Vec<(String, Arc<ApiState>)>,
    /// Cannot start yet, and why.
    pub wait: Vec<(SourcedPod, Wait)>,
}

/// Why a pod does not start yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wait {
    #[error("pod {uid} of the same name is still being ended")]
    Ending { uid: String },
    #[error("pod {namespace}/{name} with the same uid still runs")]
    SameUid { namespace: String, name: String },
    /// Its record was lost: its containers end with grace, and its volumes are removed.
    #[error("what was left of pod {uid} is still being removed")]
    Tidied { uid: String },
    /// What cannot be read may well still have it.
    #[error("a pod of the same name runs from {origin}, which cannot be read")]
    Unreadable { origin: Origin },
}

/// Compares what should be here with what runs (by uid).
///
/// `tidying` are the uids of pods that do not run and of which something is being removed: a pod that comes
/// back under such a uid waits, or its new volumes were removed with the old ones.
pub fn assign(
    desired: &Desired,
    running: &BTreeMap<String, Running>,
    tidying: &BTreeSet<String>,
) -> Assignment {
    let mut assignment = Assignment::default();
    let mut matched = BTreeSet::new();
    let mut others = Vec::new();
    let named = ByName::of(running);
    for sourced in &*desired.pods {
        let own = running.get_key_value(&sourced.pod.uid);
        if let Some((uid, _)) = own
            && let Some(state) = &sourced.api
        {
            assignment.states.push((uid.clone(), state.clone()));
        }
        if let Some(deletion) = &sourced.deletion {
            // One that does not run is not started any more.
            match own {
                Some((uid, _)) => {
                    matched.insert(uid.as_str());
                    assignment.delete.push((uid.clone(), (**deletion).clone()));
                }
                None if sourced.origin.is_api() => {
                    assignment.finish.push((sourced.clone(), (**deletion).clone()));
                }
                None => {}
            }
            continue;
        }
        if let Some(over) = &sourced.over {
            if let Some((uid, run)) = own {
                matched.insert(uid.as_str());
                if !run.ending {
                    assignment.keep.push(uid.clone());
                    assignment.over.push((uid.clone(), (**over).clone()));
                }
            }
            continue;
        }
        match named.running(&sourced.pod) {
            Some((uid, run)) => {
                matched.insert(uid);
                assignment.of_known(desired, sourced, uid, run);
            }
            None => others.push(sourced),
        }
    }
    for (uid, run) in running.iter().filter(|(uid, run)| !run.ending && !matched.contains(uid.as_str())) {
        let may_be_there = desired.unread.may_have(&run.origin);
        let list = if may_be_there { &mut assignment.keep } else { &mut assignment.end };
        list.push(uid.clone());
    }
    let has: BTreeSet<&str> = desired.pods.iter().map(|sourced| sourced.pod.uid.as_str()).collect();
    let gone = running.iter().filter(|(uid, run)| {
        run.origin.is_api() && !has.contains(uid.as_str()) && !desired.unread.may_have(&run.origin)
    });
    assignment.gone = gone.map(|(uid, _)| uid.clone()).collect();
    for sourced in others {
        match obstacle(sourced, running, &named, tidying) {
            Some(wait) => assignment.wait.push((sourced.clone(), wait)),
            None => assignment.start.push(sourced.clone()),
        }
    }
    assignment
}

impl Assignment {
    fn of_known(&mut self, desired: &Desired, sourced: &SourcedPod, uid: &str, run: &Running) {
        if uid == sourced.pod.uid && sourced.origin.is_api() && run.origin == sourced.origin {
            return self.of_api(sourced, uid, run);
        }
        let moved = run.origin != sourced.origin;
        let change = match resize::change(&run.pod, &sourced.pod) {
            _ if uid != sourced.pod.uid && !(is_derived(uid) && is_derived(&sourced.pod.uid)) => {
                Change::Replace
            }
            change => change,
        };
        if change != Change::Same && moved && desired.unread.may_have(&run.origin) {
            self.keep.push(uid.to_owned());
            self.wait.push((sourced.clone(), Wait::Unreadable { origin: run.origin.clone() }));
            return;
        }
        match change {
            Change::Replace => {
                self.replace.push(uid.to_owned());
                self.wait.push((sourced.clone(), Wait::Ending { uid: uid.to_owned() }));
                return;
            }
            Change::Same => self.keep.push(uid.to_owned()),
            Change::Resize => {
                let mut pod = (*sourced.pod).clone();
                uid.clone_into(&mut pod.uid);
                self.resize.push(Arc::new(pod));
            }
        }
        if moved {
            self.moved.push((uid.to_owned(), sourced.origin.clone()));
        }
    }
}

impl Assignment {
    /// A pod of the API server is the same one as long as its uid is: whatever changes applies to it as it
    /// runs.
    fn of_api(&mut self, sourced: &SourcedPod, uid: &str, run: &Running) {
        if Arc::ptr_eq(&run.pod, &sourced.pod) || run.pod == sourced.pod {
            return self.keep.push(uid.to_owned());
        }
        let unsized_ = resize::with_sizes_of(&run.pod, &sourced.pod);
        let resized = unsized_ != *sourced.pod;
        if unsized_ != *run.pod {
            self.update.push(if resized { Arc::new(unsized_) } else { sourced.pod.clone() });
        }
        if resized {
            self.resize.push(sourced.pod.clone());
        } else {
            self.keep.push(uid.to_owned());
        }
    }
}

fn obstacle(
    sourced: &SourcedPod,
    running: &BTreeMap<String, Running>,
    named: &ByName<'_>,
    tidying: &BTreeSet<String>,
) -> Option<Wait> {
    if let Some((uid, _)) = named.ending(&sourced.pod) {
        return Some(Wait::Ending { uid: uid.to_owned() });
    }
    if tidying.contains(&sourced.pod.uid) {
        return Some(Wait::Tidied { uid: sourced.pod.uid.clone() });
    }
    running
        .get(&sourced.pod.uid)
        .map(|run| Wait::SameUid { namespace: run.pod.namespace.clone(), name: run.pod.name.clone() })
}

/// Those that run by namespace and name, apart from those that end; of several with one name, the first by
/// uid.
struct ByName<'a>(HashMap<(&'a str, &'a str, bool), (&'a str, &'a Running)>);

impl<'a> ByName<'a> {
    fn of(running: &'a BTreeMap<String, Running>) -> Self {
        let mut named = HashMap::with_capacity(running.len());
        for (uid, run) in running {
            let key = (run.pod.namespace.as_str(), run.pod.name.as_str(), run.ending);
            named.entry(key).or_insert((uid.as_str(), run));
        }
        Self(named)
    }

    fn running(&self, pod: &Pod) -> Option<(&'a str, &'a Running)> {
        self.0.get(&(pod.namespace.as_str(), pod.name.as_str(), false)).copied()
    }

    fn ending(&self, pod: &Pod) -> Option<(&'a str, &'a Running)> {
        self.0.get(&(pod.namespace.as_str(), pod.name.as_str(), true)).copied()
    }
}

/// Whether a uid is one that is derived for a manifest without one: 32 hexadecimal digits without dashes
/// ([`manifests`](nodewarden_pods::source::manifests)). A uid that a manifest gives itself usually has
/// dashes; when it changes, it is another pod.
fn is_derived(uid: &str) -> bool {
    const DIGITS: usize = 32;
    uid.len() == DIGITS && uid.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
