//! Whether the first pod of a ranking is certain, where figures may be lower bounds.
//!
//! A figure that is not complete yet may still grow, by at most what is in use on the file system and in
//! no pod's figures. A pod is evicted only if it would be the first with its figure as it is, and every other
//! pod behind it with the largest figure that it can have. A figure whose rest cannot be counted has to be
//! the largest as it is: otherwise one unreadable directory would keep every pod on a full disk.

use std::cmp::Reverse;

use super::rank::{Figure, Key, Measure, exemption};
use super::{Candidate, DiskLayout, UsedOf};
use nodewarden_config::{EvictionSettings, Signal};

/// Which pod is evicted, as indexes of the candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Evict(usize),
    /// Not known: one of these may be the first, those with the largest figures first. They have to be
    /// counted further.
    Measure(Vec<usize>),
    /// No pod may be evicted, or none uses anything.
    NoPod,
}

/// Chooses for one signal. `used_of` is the file system that the signal measures, read after the candidates;
/// without it, figures that are not complete may have any size.
///
/// A pod that uses nothing is not chosen, since its end frees nothing.
pub fn choose(
    signal: Signal,
    layout: DiskLayout,
    settings: &EvictionSettings,
    candidates: &[Candidate],
    used_of: Option<UsedOf>,
) -> Choice {
    let measure = Measure::of(signal, layout);
    let figures: Vec<Figure> =
        candidates.iter().map(|candidate| measure.figure(candidate, used_of)).collect();
    let slack = slack(&figures, used_of);
    let eligible = || {
        let both = candidates.iter().zip(&figures).enumerate();
        both.filter(|(_, (candidate, _))| exemption(settings, &candidate.pod).is_none())
    };
    let least = |(at, (candidate, figure)): (usize, (_, &Figure))| {
        (figure.amount > 0).then(|| (measure.key(candidate, figure.amount), at))
    };
    let first = eligible().filter_map(least).min();
    let mut open: Vec<(Reverse<u64>, Key<'_>, usize)> = Vec::new();
    for (at, (candidate, figure)) in eligible().filter(|(_, (_, figure))| !figure.settled) {
        let most = figure.most(slack);
        let key = measure.key(candidate, most);
        let is_ahead = first.as_ref().is_none_or(|(first, index)| *index != at && key < *first);
        if most > 0 && is_ahead {
            open.push((Reverse(figure.amount), key, at));
        }
    }
    match first {
        Some((_, first)) if open.is_empty() => Choice::Evict(first),
        None if open.is_empty() => Choice::NoPod,
        first => {
            // Its figure may turn out to be larger than all the others can be.
            let first = first.filter(|(_, at)| figures.get(*at).is_some_and(|figure| !figure.settled));
            open.sort_unstable();
            let others = open.into_iter().map(|(_, _, at)| at);
            Choice::Measure(first.map(|(_, at)| at).into_iter().chain(others).collect())
        }
    }
}

/// What is in use on the file system and in no figure. `None` if there is no such bound: the file system is
/// not known, or the figures add up to more than is in use, as they do where files share blocks.
fn slack(figures: &[Figure], used_of: Option<UsedOf>) -> Option<u64> {
    let counted = figures.iter().try_fold(0_u64, |sum, figure| sum.checked_add(figure.here))?;
    used_of?.used.checked_sub(counted)
}

#[cfg(test)]
mod tests;
