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
//! Between pods that the kubelet treats as equal, the one that started last is evicted first. A pod whose
//! figures could not be read comes last. The kubelet puts it first, because its statistics may not have seen
//! the pod yet; here they are read in the same pass, so a pod that cannot be read has not started yet or has
//! ended.

use std::cmp::Reverse;

use super::{Candidate, DiskLayout, DiskUse, PodDisk, RequiredStats};
use nodewarden_config::{EvictionSettings, Signal};
use nodewarden_manifest::Pod;
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
enum Measure {
    Memory,
    Processes,
    /// Bytes of the parts that are on the file system.
    Bytes(Parts),
    Inodes(Parts),
}

/// Which parts of a pod are on a file system (kubelet `fsStatsType`).
#[derive(Debug, Clone, Copy)]
struct Parts {
    root: bool,
    logs: bool,
    volumes: bool,
}

impl Parts {
    const ALL: Self = Self { root: true, logs: true, volumes: true };
    const ROOT: Self = Self { root: true, logs: false, volumes: false };
    const DIRECTORIES: Self = Self { root: false, logs: true, volumes: true };
    const NONE: Self = Self { root: false, logs: false, volumes: false };

    fn of(self, disk: &PodDisk) -> DiskUse {
        let parts = [(self.root, disk.root), (self.logs, disk.logs), (self.volumes, disk.volumes)];
        let here = parts.into_iter().filter(|(here, _)| *here);
        here.fold(DiskUse::default(), |sum, (_, part)| DiskUse {
            bytes: sum.bytes.saturating_add(part.bytes),
            inodes: sum.inodes.saturating_add(part.inodes),
        })
    }
}

impl Measure {
    fn of(signal: Signal, layout: DiskLayout) -> Self {
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

    fn usage(self, candidate: &Candidate) -> Option<u64> {
        match self {
            Self::Memory => candidate.memory,
            Self::Processes => candidate.processes,
            Self::Bytes(parts) => candidate.disk.map(|disk| parts.of(&disk).bytes),
            Self::Inodes(parts) => candidate.disk.map(|disk| parts.of(&disk).inodes),
        }
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
        let (usage, request) = (measure.usage(candidate), measure.request(candidate));
        let over = i128::from(usage.unwrap_or(0)) - i128::from(request);
        let within = over <= 0 && matches!(measure, Measure::Memory | Measure::Bytes(_) | Measure::Inodes(_));
        let key = (
            usage.is_none(),
            within,
            candidate.pod.priority,
            Reverse(over),
            Reverse(candidate.started),
            candidate.pod.uid.as_str(),
        );
        order.push((key, index));
    }
    order.sort_unstable();
    ranking.order = order.into_iter().map(|(_, index)| index).collect();
    ranking
}

/// Why a pod is never evicted; `None` if it may be.
pub fn exemption(settings: &EvictionSettings, pod: &Pod) -> Option<&'static str> {
    (pod.is_critical() || settings.manifests_critical).then_some(CRITICAL)
}

/// Usage and request of what the signal measures, in bytes, inodes or processes. Usage is 0 where it could
/// not be read.
pub fn figures(signal: Signal, layout: DiskLayout, candidate: &Candidate) -> (u64, u64) {
    let measure = Measure::of(signal, layout);
    (measure.usage(candidate).unwrap_or(0), measure.request(candidate))
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
            CandidateSeen::new(
                &candidate.pod,
                figures(signal, layout, candidate),
                chosen == Some(index),
                spared,
            )
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
