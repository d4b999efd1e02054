//! The disk use of all pods for `/stats/summary`, counted only while a client reads that: at most every
//! minute (kubelet: volumeStatsAggPeriod), and for a small part of the time. What was counted for another
//! purpose lately is not counted again, and of writable layers only the runtime's own figures are taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use nodewarden_model::{ContainerDiskView, DiskFigure, DiskView, FsUse, PodDiskView};
use nodewarden_tasks::parts::Pulse;
use nodewarden_tasks::pause::pause;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::figures::{self, Counted};
use super::shared::Shared;
use crate::gather::Subject;
use crate::usage::PodUse;
use crate::{ContainerUse, DiskUse};

/// Time between two countings when all that can be counted was.
const PERIOD: Duration = Duration::from_secs(60);
/// The same when something is left: it is continued.
const AGAIN: Duration = Duration::from_secs(10);
/// Files are counted for at most this time at once.
const TURN: Duration = Duration::from_secs(4);
/// Counting files may take 1/`PART` of the time.
const PART: u32 = 50;
/// Figures that are older are not shown any more.
const OLD: Duration = Duration::from_secs(600);

/// The figures that were counted last, and who asks for newer ones.
#[derive(Debug, Default)]
pub struct DiskViews {
    asked: Notify,
    last: Mutex<Option<(Arc<DiskView>, Instant)>>,
}

impl DiskViews {
    /// The last figures, which are empty before the first ones. Asks for newer ones.
    pub fn get(&self) -> Arc<DiskView> {
        self.asked.notify_one();
        let last = self.last.lock();
        let last = last.as_ref().filter(|(_, at)| at.elapsed() < OLD);
        last.map(|(view, _)| view.clone()).unwrap_or_default()
    }
}

/// Counts whenever it is asked for, until the task is aborted.
pub async fn run(shared: Arc<Shared>, pulse: Pulse) {
    loop {
        pulse.waits();
        shared.disk_views.asked.notified().await;
        pulse.progress();
        let begun = Instant::now();
        let (view, is_settled) = read(&shared).await;
        *shared.disk_views.last.lock() = Some((Arc::new(view), Instant::now()));
        pulse.waits();
        let period = if is_settled { PERIOD } else { AGAIN };
        pause(period.max(begun.elapsed().saturating_mul(PART))).await;
    }
}

/// The figures, and whether counting further would change none of them.
async fn read(shared: &Arc<Shared>) -> (DiskView, bool) {
    let systems = match &shared.deps.collector {
        Some(collector) => collector.file_systems().await.ok(),
        None => None,
    };
    let subjects = shared.deps.subjects.pods();
    let known = figures::read(shared, subjects, Counted::AllButLayers(BTreeSet::new()), Duration::ZERO).await;
    let missing = known.iter().filter(|(_, used)| !is_settled(used));
    let missing: BTreeSet<String> = missing.map(|(subject, _)| subject.pod.uid.clone()).collect();
    let subjects: Vec<Subject> = known.into_iter().map(|(subject, _)| subject).collect();
    let found = figures::read(shared, subjects, Counted::AllButLayers(missing), TURN).await;
    let all = found.iter().all(|(_, used)| is_settled(used));
    // A capacity of 0 is that of a file system that is not known.
    let fs = |fs: FsUse| Some(fs).filter(|fs| fs.capacity > 0);
    let pods: BTreeMap<_, _> =
        found.iter().map(|(subject, used)| (subject.pod.uid.clone(), pod(used))).collect();
    let [node, image, container] = match systems {
        Some(systems) => [fs(systems.node), fs(systems.image), fs(systems.container)],
        None => [None, None, None],
    };
    (DiskView { time: Some(SystemTime::now()), node, image, container, pods }, all)
}

fn is_settled(used: &PodUse) -> bool {
    total(used).is_settled()
}

fn total(used: &PodUse) -> DiskUse {
    let mut total = DiskUse::default();
    [used.disk.root, used.disk.logs, used.disk.volumes].into_iter().for_each(|part| total.add(part));
    total
}

/// Only what is complete is shown: a lower bound would look like the whole.
fn pod(used: &PodUse) -> PodDiskView {
    let container = |own: &ContainerUse| ContainerDiskView {
        root: own.root.and_then(figure),
        logs: own.logs.and_then(figure),
    };
    let volume = |(name, used): (&String, &DiskUse)| Some((name.clone(), figure(*used)?));
    PodDiskView {
        total: figure(total(used)),
        containers: used.containers.iter().map(|(name, own)| (name.clone(), container(own))).collect(),
        volumes: used.volumes.iter().filter_map(volume).collect(),
    }
}

fn figure(used: DiskUse) -> Option<DiskFigure> {
    used.complete.then_some(DiskFigure { bytes: used.bytes, inodes: used.inodes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PodDisk;

    fn used(bytes: u64, complete: bool) -> DiskUse {
        DiskUse { bytes, inodes: 1, complete, ..DiskUse::default() }
    }

    #[test]
    fn what_is_not_counted_completely_is_left_out() {
        let all = |layer: bool, volume: bool| PodUse {
            disk: PodDisk { root: used(1, layer), logs: used(2, true), volumes: used(4, volume) },
            containers: [(
                "c".to_owned(),
                ContainerUse { memory: None, root: Some(used(1, layer)), logs: Some(used(2, true)) },
            )]
            .into(),
            volumes: [("data".to_owned(), used(4, volume))].into(),
        };
        let figure = |bytes, inodes| DiskFigure { bytes, inodes };
        let whole = pod(&all(true, true));
        assert_eq!(whole.total, Some(figure(7, 3)));
        assert_eq!(whole.volumes, [("data".to_owned(), figure(4, 1))].into());
        let c = whole.containers["c"];
        assert_eq!((c.root, c.logs), (Some(figure(1, 1)), Some(figure(2, 1))));
        let part = pod(&all(false, true));
        let c = part.containers["c"];
        assert_eq!((part.total, c.root, c.logs), (None, None, Some(figure(2, 1))));
        let part = pod(&all(true, false));
        assert_eq!((part.total, part.volumes.len()), (None, 0));
        assert!(part.containers["c"].root.is_some());
        let uncountable = DiskUse { uncountable: true, ..used(4, false) };
        let disk = PodDisk { volumes: uncountable, ..PodDisk::default() };
        let volumes = [("data".to_owned(), uncountable)].into();
        let partly = PodUse { disk, volumes, ..PodUse::default() };
        assert!(is_settled(&partly), "counting again would find no more");
        assert_eq!((pod(&partly).total, pod(&partly).volumes.len()), (None, 0));
    }
}
