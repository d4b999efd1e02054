//! The first pod of a ranking by memory, with as few readings as are needed to be certain.
//!
//! A pod's working set is its usage less inactive file pages. Usage is one number; the rest is in a file that
//! takes the kernel several times as long to write. So all are ordered by usage, and the exact figure is read
//! of the one that leads, until the leader's figure is exact: no other can be ahead of it, since an exact
//! figure is never larger than usage, and who uses less is never evicted earlier.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Measure, exemption};
use crate::Candidate;
use nodewarden_config::EvictionSettings;

/// What [`first_by_memory`] found out.
#[derive(Debug, PartialEq, Eq)]
pub struct First {
    /// The first of the ranking; `None` if no pod may be evicted or none uses anything.
    pub at: Option<usize>,
    /// Bytes of the working sets that were read, by index; `None` of those that were not needed.
    pub exact: Vec<Option<u64>>,
}

/// Finds the first of those that may be evicted and use memory, with `candidates` whose memory is usage.
/// `spares` returns whether one is not evicted for another reason than being critical; like `exact` it is
/// called for those alone that come first. `exact` reads the working set of one, in bytes, which is at most
/// its usage; 0 if it is gone.
pub fn first_by_memory(
    settings: &EvictionSettings,
    candidates: &[Candidate],
    mut spares: impl FnMut(usize) -> bool,
    mut exact: impl FnMut(usize) -> u64,
) -> First {
    let measure = Measure::Memory;
    let mut found = First { at: None, exact: vec![None; candidates.len()] };
    let eligible = candidates.iter().enumerate().filter(|(_, candidate)| {
        candidate.memory.unwrap_or(0) > 0 && exemption(settings, &candidate.pod).is_none()
    });
    let place = |(at, candidate): (usize, _)| Reverse((measure.key(candidate, amount(candidate)), at));
    let mut order: BinaryHeap<_> = eligible.map(place).collect();
    while let Some(Reverse((_, at))) = order.pop() {
        let Some((candidate, known)) = candidates.get(at).zip(found.exact.get_mut(at)) else { continue };
        if known.is_some() {
            found.at = Some(at);
            break;
        }
        if spares(at) {
            continue;
        }
        let bytes = exact(at).min(amount(candidate));
        *known = Some(bytes);
        if bytes > 0 {
            order.push(Reverse((measure.key(candidate, bytes), at)));
        }
    }
    found
}

fn amount(candidate: &Candidate) -> u64 {
    candidate.memory.unwrap_or(0)
}
