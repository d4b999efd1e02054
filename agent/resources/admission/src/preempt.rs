//! Who makes way for a critical pod (kubelet pkg/kubelet/preemption): of Guaranteed pods those that are needed if every
//! other one went, then of Burstable ones, then of BestEffort ones; in each class the nearest to what is missing first,
//! and of two as near the one that asks for less, or that came later.
//!
//! What the kubelet does not do: one that those chosen after it make needless stays.

use super::amounts::{Amounts, amount};
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;
use nodewarden_manifest::names::{CPU, MEMORY};

/// A pod that runs, with what it holds.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    pub pod: &'a Pod,
    pub held: &'a Amounts,
}

/// Whether a critical pod of this priority may have that one make way. `types.Preemptable` also says so of any that is
/// not critical, which is the same where priority makes a pod critical; where every manifest pod counts as critical,
/// priority is all there is.
pub fn preemptable(preemptor: &Pod, pod: &Pod) -> bool {
    preemptor.priority > pod.priority
}

/// Indexes of those that make way, BestEffort ones first. `missing` has only what is above 0.
///
/// # Errors
/// What would still be missing if all went that may: nobody has to.
pub fn choose(preemptor: &Pod, pods: &[Held<'_>], missing: &Amounts) -> Result<Vec<usize>, Amounts> {
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

/// Of one class (`getPodsToPreemptByDistance`). What it asks for is its memory, then its CPU (`smallerResourceRequest`),
/// and then, since devices may be all there is to tell two apart, the rest of what is missing.
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

/// Sum over what is missing of the square of the part that would still be missing (`distance`).
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
#[path = "preempt_tests.rs"]
mod tests;
