//! What pods truly use, and how far the node is from its threshold: from the kernel's files, read by the soak
//! itself.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::statvfs::statvfs;

use super::plan::{Place, Pressure};
use super::victim::{Subject, expected};
use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::fixture::Layout;
use crate::harness::Failure;

/// Name of the directory in a pod's volume at which a file system hangs. It is never looked at.
pub const HUNG: &str = "hung";
/// How often everything is read while the pressure grows.
const PERIOD: Duration = Duration::from_millis(20);

/// Where the use of one pod is read.
#[derive(Debug, Clone)]
struct Source {
    /// Its cgroup with the memory controller, the one with pids, and its container's.
    memory: PathBuf,
    pids: PathBuf,
    container: PathBuf,
    /// Its files.
    folder: PathBuf,
}

/// Reads the use of the pods of a round.
#[derive(Debug, Clone)]
pub struct Meter {
    pressure: Pressure,
    is_v2: bool,
    sources: Vec<Source>,
    /// The cgroup of all pods.
    pool: PathBuf,
    /// A directory of the disk.
    disk: PathBuf,
    /// What is available at the threshold: bytes of memory, pids, bytes or inodes of the disk. Of memory what
    /// may be used.
    threshold: u64,
}

/// What was read at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// What is available above the threshold; negative below it.
    pub above: i64,
    /// What each pod uses; of disks not read, since that takes long.
    pub used: Option<Vec<u64>>,
    /// Whether every pod has processes.
    pub alive: bool,
}

impl Meter {
    /// Of pods that are up, in this order.
    pub fn new(
        pressure: Pressure,
        layout: &Layout,
        fixture: &PodFixture<'_>,
        pods: &[ListedPod],
        disk: &Path,
        threshold: u64,
    ) -> Result<Self, Failure> {
        let hierarchy = |name: &str| {
            layout.controller(name).ok_or_else(|| Failure::Skip(format!("no {name} controller")))
        };
        let (memory, pids) = (hierarchy("memory")?, hierarchy("pids")?);
        let below = |mount: &Path, path: &str| mount.join(path.trim_start_matches('/'));
        let sources = pods.iter().map(|pod| {
            let (group, container) = (fixture.cgroup(pod)?, fixture.container_cgroup(pod, "c")?);
            let container = below(&pids.mount, &container);
            let folder = match pressure {
                Pressure::Bytes(Place::Layer) | Pressure::Inodes(Place::Layer) => layer(&container)?,
                _ => fixture.pod_dir(pod)?.join("volumes"),
            };
            let [memory, pids] = [memory, pids].map(|hierarchy| below(&hierarchy.mount, &group));
            Ok(Source { memory, pids, container, folder })
        });
        Ok(Self {
            pressure,
            is_v2: memory.v2,
            sources: sources.collect::<Result<_, Failure>>()?,
            pool: below(&memory.mount, &fixture.managed().level("kubepods")),
            disk: disk.to_owned(),
            threshold,
        })
    }

    /// What is available above the threshold.
    ///
    /// # Errors
    /// The kernel's files cannot be read.
    pub fn above(&self) -> Result<i64, Failure> {
        let threshold = self.threshold.cast_signed();
        Ok(match self.pressure {
            Pressure::Memory => threshold - working_set(&self.pool, self.is_v2)?.cast_signed(),
            Pressure::Processes => available_pids()?.cast_signed() - threshold,
            Pressure::Bytes(_) | Pressure::Inodes(_) => {
                let seen = statvfs(&self.disk).map_err(|error| Failure::file(&self.disk)(error.into()))?;
                let available = match self.pressure {
                    Pressure::Inodes(_) => seen.files_available(),
                    _ => seen.blocks_available() * seen.fragment_size(),
                };
                available.cast_signed() - threshold
            }
        })
    }

    /// Whether it measures a disk.
    pub fn is_of_disk(&self) -> bool {
        matches!(self.pressure, Pressure::Bytes(_) | Pressure::Inodes(_))
    }

    /// What each pod uses, however long that takes.
    ///
    /// # Errors
    /// The kernel's files cannot be read.
    pub fn used(&self) -> Result<Vec<u64>, Failure> {
        let of = |source: &Source| match self.pressure {
            Pressure::Memory => working_set(&source.memory, self.is_v2),
            Pressure::Processes => number(&source.pids.join("pids.current")),
            Pressure::Bytes(_) => Ok(tree(&source.folder)?.0),
            Pressure::Inodes(_) => Ok(tree(&source.folder)?.1),
        };
        self.sources.iter().map(of).collect()
    }

    fn sample(&self) -> Option<Sample> {
        let alive = self.sources.iter().all(|source| {
            fs::read_to_string(source.container.join("cgroup.procs")).is_ok_and(|text| !text.is_empty())
        });
        let walks = matches!(self.pressure, Pressure::Bytes(_) | Pressure::Inodes(_));
        let used = if walks { None } else { Some(self.used().ok()?) };
        Some(Sample { above: self.above().ok()?, used, alive })
    }

    /// Reads until `stop`, or until a pod has no process. Each reading is kept that differs from the one
    /// before.
    pub fn follow(&self, stop: &AtomicBool) -> Vec<Sample> {
        let mut samples: Vec<Sample> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            if let Some(sample) = self.sample() {
                let ends = !sample.alive;
                if samples.last() != Some(&sample) {
                    samples.push(sample);
                }
                if ends {
                    break;
                }
            }
            std::thread::sleep(PERIOD);
        }
        samples
    }
}

/// The pods that may be evicted by what was read: those expected at the moments at which the threshold was
/// passed, or at the moment nearest to that. `subjects` are the pods before the growth of one of them,
/// `first` the reading of that time.
pub fn judge(
    samples: &[Sample],
    subjects: &[Subject],
    grows: usize,
    first: i64,
    ranks_requests: bool,
) -> BTreeSet<String> {
    let at = |sample: &Sample| {
        let mut now = subjects.to_vec();
        match &sample.used {
            // Those that do not grow use what they did, or they are being killed.
            Some(used) => now.iter_mut().zip(used).enumerate().for_each(|(number, (one, used))| {
                one.used = if number == grows { *used } else { one.used.max(*used) };
            }),
            // Only one pod grows, so that what is missing from the disk is its.
            None => now[grows].used += u64::try_from(first - sample.above).unwrap_or(0),
        }
        expected(&now, ranks_requests).map(str::to_owned)
    };
    // From the lowest reading on, a pod is being killed.
    let alive: Vec<_> = samples.iter().take_while(|sample| sample.alive).collect();
    let lowest = alive.iter().enumerate().min_by_key(|(number, sample)| (sample.above, *number));
    let Some((lowest, last)) = lowest else { return BTreeSet::new() };
    let passed: BTreeSet<_> =
        alive[..=lowest].iter().filter(|sample| sample.above < 0).filter_map(|sample| at(sample)).collect();
    if passed.is_empty() { at(last).into_iter().collect() } else { passed }
}

/// How many processes may still start: as in kubelet `getPidStats` the smaller of the two limits, less the
/// number of threads by loadavg.
///
/// # Errors
/// A file of /proc cannot be read.
pub fn available_pids() -> Result<u64, Failure> {
    let most = number(Path::new("/proc/sys/kernel/pid_max"))?
        .min(number(Path::new("/proc/sys/kernel/threads-max"))?);
    let text = fs::read_to_string("/proc/loadavg").map_err(Failure::file("/proc/loadavg"))?;
    let threads = text.split_whitespace().nth(3).and_then(|word| word.split_once('/')?.1.parse().ok());
    let threads: u64 = threads.ok_or_else(|| Failure::Unexpected(format!("/proc/loadavg: {text:?}")))?;
    Ok(most.saturating_sub(threads))
}

/// A cgroup's use of memory without the part of the page cache that is easily reclaimed.
fn working_set(group: &Path, is_v2: bool) -> Result<u64, Failure> {
    let (current, key) = match is_v2 {
        true => ("memory.current", "inactive_file"),
        false => ("memory.usage_in_bytes", "total_inactive_file"),
    };
    let path = group.join("memory.stat");
    let text = fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let inactive = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    Ok(number(&group.join(current))?.saturating_sub(inactive.unwrap_or(0)))
}

fn number(path: &Path) -> Result<u64, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::file(path))?;
    text.trim().parse().map_err(|_| Failure::Unexpected(format!("{}: {text:?}", path.display())))
}

/// The directory of the writable layer of a container: `upperdir` of the overlay that is its process's root.
fn layer(container: &Path) -> Result<PathBuf, Failure> {
    let path = container.join("cgroup.procs");
    let procs = fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let pid = procs.lines().next().unwrap_or_default();
    let path = format!("/proc/{pid}/mountinfo");
    let table = fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let upper = table.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let root = before.split(' ').nth(4)? == "/" && after.starts_with("overlay ");
        let options = after.rsplit(' ').next().filter(|_| root)?;
        options.split(',').find_map(|option| option.strip_prefix("upperdir="))
    });
    upper.map(PathBuf::from).ok_or_else(|| Failure::Skip(format!("{path}: no overlay at /")))
}

/// Bytes and inodes below a directory and of itself, on its file system, as du(1) and find(1) count them.
fn tree(top: &Path) -> Result<(u64, u64), Failure> {
    let device = fs::symlink_metadata(top).map_err(Failure::file(top))?.dev();
    let (mut bytes, mut inodes) = (0, 0);
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        let found = fs::symlink_metadata(&folder).map_err(Failure::file(&folder))?;
        if found.dev() != device {
            continue;
        }
        bytes += found.blocks() * 512;
        inodes += 1;
        for entry in fs::read_dir(&folder).map_err(Failure::file(&folder))?.flatten() {
            if entry.file_name() == HUNG {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if let Ok(found) = entry.metadata() {
                bytes += found.blocks() * 512;
                inodes += 1;
            }
        }
    }
    Ok((bytes, inodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str, used: u64) -> Subject {
        Subject { name: name.to_owned(), priority: 0, request: 0, used }
    }

    #[test]
    fn the_moments_below_the_threshold_say_who_is_expected() {
        let pods = [subject("a", 10), subject("b", 30)];
        let sample = |above, used: Option<Vec<u64>>, alive| Sample { above, used, alive };
        let names = |samples: &[Sample]| {
            judge(samples, &pods, 0, 100, true).into_iter().collect::<Vec<_>>().join(" ")
        };
        // With figures of its own.
        let memory = |above, a, alive| sample(above, Some(vec![a, 30]), alive);
        assert_eq!(names(&[memory(5, 35, true), memory(-5, 45, true), memory(40, 0, false)]), "a");
        assert_eq!(names(&[memory(-5, 25, true), memory(-15, 35, true)]), "a b");
        assert_eq!(names(&[memory(5, 25, true), memory(40, 0, false)]), "b", "never seen below it");
        assert_eq!(names(&[memory(1, 66, true), memory(69, 1, true), memory(70, 0, false)]), "a", "dying");
        let others = |above, b, alive| sample(above, Some(vec![20, b]), alive);
        assert_eq!(
            names(&[others(9, 30, true), others(2, 4, true), others(40, 0, false)]),
            "b",
            "dying early"
        );
        // By what is missing from the disk.
        assert_eq!(names(&[sample(85, None, true), sample(-1, None, true)]), "a");
        assert_eq!(names(&[sample(95, None, true)]), "b");
        assert_eq!(names(&[]), "");
    }

    #[test]
    fn a_tree_is_counted_with_its_directories() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("d/f"), vec![1; 100_000]).unwrap();
        let (bytes, inodes) = tree(folder.path()).unwrap();
        assert!(inodes == 3 && (98_304..200_000).contains(&bytes), "{bytes} {inodes}");
        assert!(tree(&folder.path().join("none")).is_err());
    }
}
