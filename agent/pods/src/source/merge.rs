//! One list of pods from several places. Pure.

use std::collections::BTreeMap;

use nodewarden_model::Origin;

use super::origin::LastTaken;
use super::{Desired, SourceProblem, SourcedPod};

/// The pods that are taken.
#[derive(Debug, Default)]
pub struct Choice {
    /// In the order of the candidates.
    pub pods: Vec<SourcedPod>,
    /// One for each candidate that is left out.
    pub problems: Vec<SourceProblem>,
}

/// What all sources want together, in their order. Of pods with one uid or one name the one that already runs
/// wins, else that of the first source. A source that could not be read keeps only pods of its own from being
/// removed.
pub fn merge(all: &[Desired], running: &LastTaken) -> Desired {
    let choice = choose(all.iter().flat_map(|desired| desired.pods.iter().cloned()).collect(), running);
    let pods = match all {
        // Nothing is left out: the same list.
        [only] if choice.pods.len() == only.pods.len() => only.pods.clone(),
        _ => choice.pods.into(),
    };
    let mut merged = Desired { pods, ..Desired::default() };
    for desired in all {
        merged.problems.extend(desired.problems.iter().cloned());
        merged.unread.extend(desired.unread.clone());
    }
    merged.problems.extend(choice.problems);
    merged
}

/// Of candidates with one uid or one name takes the one that already runs, so that a new one never takes a
/// running pod's place; else the first.
pub fn choose(candidates: Vec<SourcedPod>, running: &LastTaken) -> Choice {
    let mut choice = Choice::default();
    let places = running.places();
    let mut uids: BTreeMap<&str, &Origin> = BTreeMap::new();
    let mut names: BTreeMap<(&str, &str), &Origin> = BTreeMap::new();
    let mut taken = vec![false; candidates.len()];
    for runs in [true, false] {
        for (candidate, taken) in candidates.iter().zip(&mut taken) {
            let SourcedPod { pod, origin, .. } = candidate;
            if places.is(candidate) != runs {
                continue;
            }
            let name = (pod.namespace.as_str(), pod.name.as_str());
            if let Some(first) = uids.get(pod.uid.as_str()).or_else(|| names.get(&name)) {
                let message = format!(
                    "{origin}: pod {}/{} (uid {}) is in {first} already and is left out here",
                    pod.namespace, pod.name, pod.uid
                );
                choice.problems.push(SourceProblem { origin: Some(origin.clone()), message });
                continue;
            }
            uids.insert(&pod.uid, origin);
            names.insert(name, origin);
            *taken = true;
        }
    }
    choice.pods = candidates.into_iter().zip(taken).filter(|(_, taken)| *taken).map(|(pod, _)| pod).collect();
    choice
}

#[cfg(test)]
mod tests;
