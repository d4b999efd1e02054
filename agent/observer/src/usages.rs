//! What the kernel programs read of all cgroups at once, for a reading that a client waits for.

use std::fs;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::info;

use super::registry::Group;
use nodewarden_machine::cgroup::{Controller, KnownUsage, Layout, join};
use nodewarden_machine::ebpf::{GroupUsages, Kernel, Spaces, UsageReading};

/// Reads the usage of all cgroups in the hierarchies of the memory and pids controllers.
pub struct Usages {
    groups: GroupUsages,
    /// The place of the memory controller's hierarchy in a group.
    space: usize,
    pids: Arc<PidsHierarchy>,
    /// Whether the log says already that it failed.
    has_failed: bool,
}

/// Where the pids controller is.
enum PidsHierarchy {
    /// On the memory controller's.
    Same,
    /// On one of its own, which is mounted there; the registry does not know the ids of the cgroups in it.
    Own(PathBuf),
    None,
}

impl Usages {
    /// Prepares to read them; `None` where the kernel can't do that, or has no memory controller.
    pub fn prepare(kernel: &mut Kernel, layout: &Layout, spaces: &Spaces) -> Option<Self> {
        let memory = layout.hierarchy(Controller::Memory)?;
        let space = spaces.memory?;
        let pids = match layout.hierarchy(Controller::Pids) {
            None => PidsHierarchy::None,
            Some(pids) if pids.id == memory.id => PidsHierarchy::Same,
            Some(pids) => PidsHierarchy::Own(pids.mount.clone()),
        };
        let mut roots: Vec<&Path> = vec![&memory.mount];
        if let PidsHierarchy::Own(mount) = &pids {
            roots.push(mount);
        }
        match kernel.group_usages(&roots) {
            Ok(groups) => Some(Self { groups, space, pids: Arc::new(pids), has_failed: false }),
            Err(error) => {
                info!(%error, "memory and processes of idle cgroups are read from their files");
                None
            }
        }
    }

    /// Reads them now; `None` if the kernel refuses, which the log says once.
    pub(crate) fn read(&mut self) -> Option<ReadUsages> {
        match self.groups.read() {
            Ok(reading) => Some(ReadUsages { reading, space: self.space, pids: self.pids.clone() }),
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    info!(%error, "memory and processes of idle cgroups are read from their files");
                }
                None
            }
        }
    }
}

/// What was read of all cgroups.
pub(crate) struct ReadUsages {
    reading: UsageReading,
    space: usize,
    pids: Arc<PidsHierarchy>,
}

impl ReadUsages {
    /// What was read of one. `pids_cgroup` is its id in the pids controller's own hierarchy, once that is
    /// known.
    pub fn of(&self, group: &Group, pids_cgroup: &mut Option<NonZeroU64>) -> KnownUsage {
        // The files of the root contain other figures than its counters.
        let Some(Some(place)) = group.places.get(self.space).filter(|_| &*group.path != "/") else {
            return KnownUsage::default();
        };
        let memory_bytes = self.reading.memory_bytes(place.id);
        let threads = match &*self.pids {
            PidsHierarchy::None => None,
            PidsHierarchy::Same => self.reading.threads(place.id),
            PidsHierarchy::Own(mount) => {
                if pids_cgroup.is_none() {
                    let found = fs::metadata(join(mount, &group.path));
                    *pids_cgroup = found.ok().and_then(|found| NonZeroU64::new(found.ino()));
                }
                let threads = pids_cgroup.and_then(|id| self.reading.threads(id.get()));
                if threads.is_none() {
                    // It was removed there, or is not the one of this path any more.
                    *pids_cgroup = None;
                }
                threads
            }
        };
        KnownUsage { memory_bytes, threads }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use nodewarden_ebpf_abi::{GroupUsage, NOT_COUNTED};
    use nodewarden_machine::cgroup::identify;

    use super::*;
    use crate::registry::Place;

    fn group(path: &str, id: u64) -> Group {
        let place = Place { id, slot: 1, released: false, removed_ns: None };
        Group {
            path: path.into(),
            identity: Arc::new(identify(path)),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            removed: None,
            places: [None, Some(place), None, None],
        }
    }

    fn read(usages: &[(u64, u64, u64)], pids: PidsHierarchy) -> ReadUsages {
        let usages = usages.iter().map(|&(id, pages, threads)| GroupUsage { id, pages, threads });
        ReadUsages { reading: UsageReading::of(usages, 4096), space: 1, pids: Arc::new(pids) }
    }

    #[test]
    fn one_hierarchy_of_both_controllers_has_one_id() {
        let usages = read(&[(5, 2, 3), (6, 1, NOT_COUNTED)], PidsHierarchy::Same);
        let of = |path, id| {
            let known = usages.of(&group(path, id), &mut None);
            (known.memory_bytes, known.threads)
        };
        assert_eq!(of("/a", 5), (Some(8192), Some(3)));
        assert_eq!(of("/a", 6), (Some(4096), None), "the controller is off there");
        assert_eq!(of("/a", 7), (None, None), "it was not there");
        assert_eq!(of("/", 5), (None, None), "the root's files contain something else");
        let no_pids = read(&[(5, 2, 3)], PidsHierarchy::None);
        assert_eq!(no_pids.of(&group("/a", 5), &mut None).threads, None);
    }

    #[test]
    fn in_a_hierarchy_of_its_own_the_id_is_looked_up_until_it_is_gone() {
        let mount = tempfile::tempdir().unwrap();
        let directory = mount.path().join("a");
        fs::create_dir(&directory).unwrap();
        let id = fs::metadata(&directory).unwrap().ino();
        let all = [(5, 2, NOT_COUNTED), (id, NOT_COUNTED, 4)];
        let usages = read(&all, PidsHierarchy::Own(mount.path().to_owned()));
        let (a, mut known) = (group("/a", 5), None);
        let found = KnownUsage { memory_bytes: Some(8192), threads: Some(4) };
        assert_eq!((usages.of(&a, &mut known), known), (found, NonZeroU64::new(id)));
        fs::remove_dir(&directory).unwrap();
        assert_eq!(usages.of(&a, &mut known), found, "it is not looked up again");
        let later = read(&all[..1], PidsHierarchy::Own(mount.path().to_owned()));
        assert_eq!((later.of(&a, &mut known).threads, known), (None, None));
        assert_eq!((usages.of(&a, &mut known).threads, known), (None, None), "the directory is gone");
    }
}
