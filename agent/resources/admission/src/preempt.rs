//! Chooses the pods that are preempted for a critical pod (kubelet pkg/kubelet/preemption): Guaranteed pods
//! that are needed even if all others ended, then Burstable ones, then BestEffort ones. In each class the pod
//! nearest to what is missing comes first; of two equally near, the one that requests less, or that came
//! later.
//!
//! Unlike in the kubelet, a pod that is not needed any more because of those chosen after it is not
//! preempted.

use super::amounts::{Amounts, amount};
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;
use nodewarden_manifest::names::{CPU, MEMORY};

/// A running pod and what it holds.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    pub pod: &'a Pod,
    pub held: &'a Amounts,
}

/// Whether `pod` may be preempted for `preemptor`. `types.Preemptable` also allows any pod that is not
/// critical, which is the same where priority makes a pod critical; where every manifest pod counts as
/// critical, only priority decides.
pub fn preemptable(preemptor: &Pod, pod: &Pod) -> bool {
    preemptor.priority > pod.priority
}

/// Indexes of the victims, BestEffort pods first. `missing` holds positive amounts only.
///
/// # Errors
/// What would still be missing if every pod that may be preempted ended; then there are no victims.
pub fn select_victims(preemptor: &Pod, pods: &[Held<'_>], missing: &Amounts) -> Result<Vec<usize>, Amounts> {
    let class = |qos: QosClass| -> Vec<usize> {
        let of = |(_, own): &(usize, &Held<'_>)| own.pod.qos == qos && preemptable(preemptor, own.pod);
        pods.iter().enumerate().filter(of).map(|(index, _)| index).collect()
    };
    let best_effort = class(QosClass::BestEffort);
    let burstable = class(QosClass::Burstable);
    let guaranteed = class(QosClass::Guaranteed);
    let less = |gone: &[&[usize]]| {
        gone.iter().copied().flatten().fold(missing.clone(), |left, index| subtract(&left, pods[*index].held))
    };
    let unable = less(&[&best_effort, &burstable, &guaranteed]);
    if !unable.is_empty() {
        return Err(unable);
    }
    let guaranteed = nearest(pods, guaranteed, less(&[&best_effort, &burstable]))?;
    let burstable = nearest(pods, burstable, less(&[&best_effort, &guaranteed]))?;
    let best_effort = nearest(pods, best_effort, less(&[&burstable, &guaranteed]))?;
    Ok([best_effort, burstable, guaranteed].concat())
}

/// Victims of one class (`getPodsToPreemptByDistance`). Requests are compared by memory, then CPU
/// (`smallerResourceRequest`), and then, since two pods may differ in devices only, by the other missing
/// resources.
fn nearest(pods: &[Held<'_>], mut of: Vec<usize>, missing: Amounts) -> Result<Vec<usize>, Amounts> {
    let (mut left, mut chosen) = (missing.clone(), Vec::new());
    while !left.is_empty() {
        let rank = |index: usize| {
            let held = pods[index].held;
            let others: Vec<i64> = left.keys().map(|name| amount(held, name)).collect();
            (distance(&left, held), (amount(held, MEMORY), amount(held, CPU), others))
        };
        let better = |one: &usize, other: &usize| {
            let (one, other) = (rank(*one), rank(*other));
            one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
        };
        let Some(place) = (0..of.len()).rev().min_by(|one, other| better(&of[*one], &of[*other])) else {
            return Err(left);
        };
        let index = of.remove(place);
        left = subtract(&left, pods[index].held);
        chosen.push(index);
    }
    let mut place = 0;
    while place < chosen.len() {
        let others = chosen.iter().enumerate().filter(|(other, _)| *other != place);
        let without = others.fold(missing.clone(), |left, (_, index)| subtract(&left, pods[*index].held));
        if without.is_empty() {
            chosen.remove(place);
        } else {
            place += 1;
        }
    }
    Ok(chosen)
}

/// Sum over the missing resources of the square of the fraction that would still be missing (`distance`).
pub fn distance(missing: &Amounts, held: &Amounts) -> f64 {
    let part = |(name, missing): (&String, &i64)| {
        let left = missing - amount(held, name);
        if left > 0 { (left as f64 / *missing as f64).powi(2) } else { 0.0 }
    };
    missing.iter().map(part).sum()
}

/// What is still missing (`subtract`).
pub fn subtract(missing: &Amounts, held: &Amounts) -> Amounts {
    let left = missing.iter().map(|(name, missing)| (name.clone(), missing - amount(held, name)));
    left.filter(|(_, left)| *left > 0).collect()
}

#[cfg(test)]
mod tests;
