//! The sums of topic neighbours: how long tasks of one cgroup waited for another.

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError};
use nodewarden_ebpf_abi::WaitKey;

use super::error::KernelError;

const WAITS: &str = "NEIGHBOUR_WAITS";
const LOST: &str = "NEIGHBOURS_LOST";
/// The array that is indexed by CPU.
pub(super) const CPUS: &str = "NEIGHBOUR_CPUS";
/// The tables and how many entries each has: sums (of 100 bytes of kernel memory each), disks, and requests
/// and reclaims under way, of which the oldest are forgotten beyond that.
pub(super) const SIZES: [(&str, u32); 4] =
    [(WAITS, 16_384), ("NEIGHBOUR_DISKS", 256), ("NEIGHBOUR_REQUESTS", 8192), ("NEIGHBOUR_RECLAIMS", 8192)];

/// The sums, while the topic is attached. Its programs count for as long as `Kernel` exists.
pub struct Neighbours {
    waits: HashMap<MapData, [u64; 3], u64>,
    lost: Array<MapData, u64>,
}

/// Tasks of one cgroup waited so long for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairWait {
    /// Which cgroups, and what for.
    pub key: WaitKey,
    /// How long, in nanoseconds, since the start.
    pub ns: u64,
}

impl Neighbours {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        let mut taken = |name: &'static str| ebpf.take_map(name).ok_or(KernelError::NoMap(name));
        Ok(Self {
            waits: HashMap::try_from(taken(WAITS)?).map_err(failed(WAITS))?,
            lost: Array::try_from(taken(LOST)?).map_err(failed(LOST))?,
        })
    }

    /// Every sum. Takes two system calls for each pair. Where a pair is removed meanwhile, some others may be
    /// read twice or be left out.
    pub fn read(&self) -> Vec<PairWait> {
        let sums = self.waits.iter().filter_map(Result::ok);
        let pair = |([waiting, neighbour, resource], ns): ([u64; 3], u64)| PairWait {
            key: WaitKey { waiting, neighbour, resource },
            ns,
        };
        sums.map(pair).collect()
    }

    /// Removes sums, such as those of cgroups that are gone. A wait that is counted in this moment is lost
    /// with them.
    pub fn forget(&mut self, keys: &[WaitKey]) {
        for WaitKey { waiting, neighbour, resource } in keys {
            // Gone already is as wanted.
            let _ = self.waits.remove(&[*waiting, *neighbour, *resource]);
        }
    }

    /// Waits for which there was no room in all, in nanoseconds; `None` if the kernel does not say.
    pub fn lost_ns(&self) -> Option<u64> {
        self.lost.get(&0, 0).ok()
    }
}

fn failed(map: &'static str) -> impl Fn(MapError) -> KernelError {
    move |source| KernelError::Map { map, source }
}
