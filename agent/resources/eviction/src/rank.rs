//! The order in which pods are evicted, and what is reclaimed before a pod is evicted (kubelet
//! `buildSignalToRankFunc`, `buildSignalToNodeReclaimFuncs`).
//!
//! | signal | order |
//! |---|---|
//! | memory | pods above their request first, then by priority, then by how far they are above it |
//! | disk space | the same with their use of that file system and their request of `ephemeral-storage` |
//! | inodes | by priority, then by inodes, which cannot be requested |
//! | processes | by priority, then by processes |
//!
//! Between pods that the kubelet treats as equal, the one that started last is evicted first. A pod without
//! figures is ordered as one that uses nothing; the kubelet puts it first, because its statistics may not
//! have seen the pod yet. Figures of disks may be lower bounds, and none at all is the lowest: whether the
//! first of the order is certain is decided by [`mod@crate::choose`].

mod first;

use std::cmp::Reverse;

use jiff::Timestamp;

pub use first::{First, first_by_memory};

use super::{Candidate, DiskLayout, DiskUse, PodDisk, RequiredStats, UsedOf};
use nodewarden_config::{EvictionSettings, Signal};
use nodewarden_manifest::{Pod, PodKind};
use nodewarden_model::CandidateSeen;

/// Why a critical pod is never evicted.
const CRITICAL: &str = "critical";

/// The candidates in order, as indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// Those that may be evicted, first victim first.
    pub order: Vec<usize>,
    /// Those that are never evicted, with the reason.
    pub exempt: Vec<(usize, &'static str)>,
}

impl Ranking {
    /// Those for which `spares` has a reason are not evicted either.
    pub fn without(mut self, spares: impl Fn(usize) -> Option<&'static str>) -> Self {
        let exempt = &mut self.exempt;
        self.order.retain(|at| match spares(*at) {
            Some(reason) => {
                exempt.push((*at, reason));
                false
            }
            None => true,
        });
        self
    }
}

/// What can be reclaimed without evicting a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaim {
    /// Remove exited containers of all pods.
    DeadContainers,
    /// Remove images that no container uses.
    UnusedImages,
}

/// What a signal measures.
#[derive(Debug, Clone, Copy)]
pub enum Measure {
    Memory,
    Processes,
    /// Bytes of the parts that are on the file system.
    Bytes(Parts),
    Inodes(Parts),
}

/// Which parts of a pod are on a file system (kubelet `fsStatsType`).
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    root: bool,
    logs: bool,
    volumes: bool,
}

impl Parts {
    const ALL: Self = Self { root: true, logs: true, volumes: true };
    const ROOT: Self = Self { root: true, logs: false, volumes: false };
    const DIRECTORIES: Self = Self { root: false, logs: true, volumes: true };
    const NONE: Self = Self { root: false, logs: false, volumes: false };

    fn of(self, disk: &PodDisk) -> impl Iterator<Item = DiskUse> {
        let parts = [(self.root, disk.root), (self.logs, disk.logs), (self.volumes, disk.volumes)];
        parts.into_iter().filter_map(|(counts, part)| counts.then_some(part))
    }
}

/// A pod's use of what a signal measures, in bytes, inodes or processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    pub amount: u64,
    /// Whether that is everything; otherwise it is at least so much.
    pub complete: bool,
    /// Whether counting further would change nothing: it is everything, or the rest cannot be counted.
    pub settled: bool,
    /// How much of it is on the file system that the signal measures.
    pub here: u64,
    /// What is not counted yet is on that file system.
    bounded: bool,
}

impl Figure {
    /// What cannot grow: memory and processes are read at once.
    fn whole(amount: u64) -> Self {
        Self { amount, complete: true, settled: true, here: 0, bounded: true }
    }

    /// The largest amount that counting further can show, if at most `slack` is in use on the file system and
    /// in no figure.
    pub fn most(&self, slack: Option<u64>) -> u64 {
        match slack.filter(|_| self.bounded) {
            _ if self.settled => self.amount,
            Some(slack) => self.amount.saturating_add(slack),
            None => u64::MAX,
        }
    }
}

/// Orders candidates: the smaller is evicted before the larger. The more a candidate uses, the smaller.
pub type Key<'a> = (bool, i32, Reverse<i128>, Reverse<Timestamp>, &'a str);

impl Measure {
    /// What `signal` measures.
    pub fn of(signal: Signal, layout: DiskLayout) -> Self {
        let nodefs = match layout {
            DiskLayout::One | DiskLayout::ContainersOnNode => Parts::ALL,
            DiskLayout::ImagesApart | DiskLayout::Three => Parts::DIRECTORIES,
        };
        let containerfs = match layout {
            DiskLayout::One | DiskLayout::ContainersOnNode => nodefs,
            DiskLayout::ImagesApart | DiskLayout::Three => Parts::ROOT,
        };
        let alone = matches!(layout, DiskLayout::ContainersOnNode | DiskLayout::Three);
        match signal {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Self::Memory,
            Signal::PidAvailable => Self::Processes,
            Signal::NodeFsAvailable => Self::Bytes(nodefs),
            Signal::NodeFsInodesFree => Self::Inodes(nodefs),
            Signal::ContainerFsAvailable => Self::Bytes(containerfs),
            Signal::ContainerFsInodesFree => Self::Inodes(containerfs),
            // Where only images are on it, the kubelet still ranks by the layers for space, and by nothing
            // for inodes.
            Signal::ImageFsAvailable if alone => Self::Bytes(Parts::ROOT),
            Signal::ImageFsInodesFree if alone => Self::Inodes(Parts::NONE),
            Signal::ImageFsAvailable => Self::Bytes(containerfs),
            Signal::ImageFsInodesFree => Self::Inodes(containerfs),
        }
    }

    /// What the candidate uses; `used_of` is the file system of a disk signal.
    pub fn figure(self, candidate: &Candidate, used_of: Option<UsedOf>) -> Figure {
        let (parts, of): (_, fn(&DiskUse) -> u64) = match self {
            // Without figures, there are no processes: the pod has not started yet or has ended.
            Self::Memory => return Figure::whole(candidate.memory.unwrap_or(0)),
            Self::Processes => return Figure::whole(candidate.processes.unwrap_or(0)),
            Self::Bytes(parts) => (parts, |part| part.bytes),
            Self::Inodes(parts) => (parts, |part| part.inodes),
        };
        let unknown = PodDisk { root: DiskUse::UNKNOWN, logs: DiskUse::UNKNOWN, volumes: DiskUse::UNKNOWN };
        let disk = candidate.disk.unwrap_or(unknown);
        let mut figure = Figure::whole(0);
        for part in parts.of(&disk) {
            let is_here = used_of.is_some_and(|fs| part.device == Some(fs.device));
            figure.amount = figure.amount.saturating_add(of(&part));
            figure.here = figure.here.saturating_add(if is_here { of(&part) } else { 0 });
            figure.complete &= part.complete;
            figure.settled &= part.is_settled();
            figure.bounded &= part.is_settled() || is_here;
        }
        figure
    }

    /// The place of a candidate that uses `amount`.
    pub fn key(self, candidate: &Candidate, amount: u64) -> Key<'_> {
        let over = i128::from(amount) - i128::from(self.request(candidate));
        let within = over <= 0 && matches!(self, Self::Memory | Self::Bytes(_) | Self::Inodes(_));
        let pod = &candidate.pod;
        (within, pod.priority, Reverse(over), Reverse(candidate.started), pod.uid.as_str())
    }

    fn request(self, candidate: &Candidate) -> u64 {
        let of = |name| {
            let requests = candidate.pod.requests();
            requests.get(name).map_or(0, |amount| u64::try_from(amount.value()).unwrap_or(0))
        };
        match self {
            Self::Memory => candidate.memory_request.unwrap_or_else(|| of("memory")),
            Self::Bytes(_) => of("ephemeral-storage"),
            Self::Inodes(_) | Self::Processes => 0,
        }
    }
}

/// Orders the candidates for one signal. The order is total: it does not depend on the order of `candidates`.
pub fn rank(
    signal: Signal,
    layout: DiskLayout,
    settings: &EvictionSettings,
    candidates: &[Candidate],
) -> Ranking {
    let measure = Measure::of(signal, layout);
    let mut ranking = Ranking::default();
    let mut order = Vec::with_capacity(candidates.len());
    for (index, candidate) in candidates.iter().enumerate() {
        if let Some(why) = exemption(settings, &candidate.pod) {
            ranking.exempt.push((index, why));
            continue;
        }
        let amount = measure.figure(candidate, None).amount;
        order.push((measure.key(candidate, amount), index));
    }
    order.sort_unstable();
    ranking.order = order.into_iter().map(|(_, index)| index).collect();
    ranking
}

/// Why a pod is never evicted; `None` if it may be.
pub fn exemption(settings: &EvictionSettings, pod: &Pod) -> Option<&'static str> {
    let by_setting = settings.manifests_critical && pod.kind == PodKind::Static;
    (pod.is_critical() || by_setting).then_some(CRITICAL)
}

/// Usage and request of what the signal measures, in bytes, inodes or processes. Usage is what is known of
/// it: 0 where it could not be read.
pub fn figures(signal: Signal, layout: DiskLayout, candidate: &Candidate) -> (u64, u64) {
    let measure = Measure::of(signal, layout);
    (measure.figure(candidate, None).amount, measure.request(candidate))
}

/// The candidates as shown to users: in the order of eviction, those that are exempt at the end.
pub fn ranking_table(
    signal: Signal,
    layout: DiskLayout,
    ranking: &Ranking,
    candidates: &[Candidate],
    chosen: Option<usize>,
) -> Vec<CandidateSeen> {
    let go = ranking.order.iter().map(|index| (*index, ""));
    let all = go.chain(ranking.exempt.iter().copied());
    all.filter_map(|(index, spared)| Some((index, spared, candidates.get(index)?)))
        .map(|(index, spared, candidate)| {
            let seen = CandidateSeen::new(
                &candidate.pod,
                figures(signal, layout, candidate),
                chosen == Some(index),
                spared,
            );
            let incomplete = !Measure::of(signal, layout).figure(candidate, None).complete;
            CandidateSeen { incomplete, ..seen }
        })
        .collect()
}

/// The figures that a ranking for `signal` requires.
pub fn required_stats(signal: Signal) -> RequiredStats {
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => {
            RequiredStats { memory: true, ..RequiredStats::default() }
        }
        Signal::PidAvailable => RequiredStats { processes: true, ..RequiredStats::default() },
        _ => RequiredStats { disk: true, ..RequiredStats::default() },
    }
}

/// What is reclaimed before a pod is evicted, in this order.
pub fn reclaims(signal: Signal, layout: DiskLayout) -> &'static [Reclaim] {
    const BOTH: &[Reclaim] = &[Reclaim::DeadContainers, Reclaim::UnusedImages];
    const CONTAINERS: &[Reclaim] = &[Reclaim::DeadContainers];
    const IMAGES: &[Reclaim] = &[Reclaim::UnusedImages];
    match (signal, layout) {
        (Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable, _) => &[],
        (_, DiskLayout::One) => BOTH,
        (Signal::NodeFsAvailable | Signal::NodeFsInodesFree, DiskLayout::ImagesApart | DiskLayout::Three) => {
            &[]
        }
        (_, DiskLayout::ImagesApart) => BOTH,
        (Signal::ImageFsAvailable | Signal::ImageFsInodesFree, _) => IMAGES,
        (_, DiskLayout::ContainersOnNode | DiskLayout::Three) => CONTAINERS,
    }
}

#[cfg(test)]
mod tests;
