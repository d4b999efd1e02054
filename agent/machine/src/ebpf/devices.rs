//! The program that controls access to devices, and its tables. It is attached on request, to the cgroup that
//! the caller names.

#[cfg(any(test, feature = "testing"))]
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError};
use aya::programs::{CgroupAttachMode, CgroupDevice};
use nodewarden_ebpf_abi::{DeviceCount, DeviceKey, PLACE_CLASSES, PLACE_LEVEL};

use super::error::KernelError;
use super::load::Kernel;
use super::programs::{Attached, chain};
use nodewarden_model::{Hook, Program, Topic};

/// BPF_ANY, BPF_NOEXIST
const ANY: u64 = 0;
const NO_EXIST: u64 = 1;

const PLACES: &str = "DEVICE_PLACES";

/// Names of the program that controls access to devices, and of the one that is tried if the kernel refuses
/// it.
const PROGRAM: Program = Program::new("device_access", Hook::Device);
const SUBSTITUTE: Program = Program::new("device_access_probed", Hook::Device);

/// Largest number of entries of each table: guarded pods, devices that they may open, devices whose denials
/// are counted, and records in progress. A table takes memory only for the entries that it has, and 16 bytes
/// for each that it could have.
pub const DEVICE_SIZES: [(&str, u32); 5] = [
    ("DEVICE_PODS", 4096),
    ("DEVICE_RULES", 16_384),
    ("DEVICE_COUNTS", 16_384),
    ("DEVICES_OF", 4096),
    ("DEVICE_TURNS", 1024),
];

/// A key of the tables, as aya takes it.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Key(DeviceKey);
// SAFETY: integers without implicit padding; any bytes are a value.
unsafe impl aya::Pod for Key {}

/// A value of the counts.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Count(DeviceCount);
// SAFETY: as above.
unsafe impl aya::Pod for Count {}

/// The tables of the attached program.
pub struct DeviceTables {
    places: Array<MapData, u64>,
    pods: HashMap<MapData, u64, u32>,
    rules: HashMap<MapData, Key, u32>,
    counts: HashMap<MapData, Key, Count>,
    devices_of: HashMap<MapData, u64, u64>,
}

impl Kernel {
    /// Attaches the program that controls access to devices to the cgroup directory `kubepods`, which is
    /// `level` levels below the root of the unified hierarchy, and returns its tables. Nothing is refused
    /// before a pod is in them. May be called once.
    ///
    /// # Errors
    /// The feature that this kernel lacks, or its error, as text for the status.
    pub fn attach_devices(&mut self, kubepods: &Path, level: u32) -> Result<DeviceTables, String> {
        if let Some(reason) = self.lacking(Topic::Device) {
            return Err(reason);
        }
        let tables = DeviceTables::take(&mut self.ebpf, level).map_err(|error| chain(&error))?;
        let mut result = self.attach_device_program(&PROGRAM, kubepods);
        let fields = ["OFF_CGROUP_LEVEL", "OFF_CGROUP_ANCESTORS"];
        if let Err(first) = &result
            && fields.iter().all(|field| self.layout.globals.contains_key(field))
        {
            let second = self.attach_device_program(&SUBSTITUTE, kubepods);
            result = second.map_err(|second| format!("{first}; {second}"));
        }
        result.map(|()| tables)
    }

    /// As [`Self::attach_devices`], with the program that is tried if the kernel refuses the first one.
    #[cfg(any(test, feature = "testing"))]
    pub fn attach_device_substitute(&mut self, kubepods: &Path, level: u32) -> Result<DeviceTables, String> {
        let tables = DeviceTables::take(&mut self.ebpf, level).map_err(|error| chain(&error))?;
        self.attach_device_program(&SUBSTITUTE, kubepods).map(|()| tables)
    }

    fn attach_device_program(&mut self, program: &Program, kubepods: &Path) -> Result<(), String> {
        let outcome = attach(&mut self.ebpf, program, kubepods);
        self.attached.push(Attached { topic: Topic::Device, program: *program, outcome: outcome.clone() });
        outcome
    }
}

fn attach(ebpf: &mut Ebpf, spec: &Program, kubepods: &Path) -> Result<(), String> {
    let hook = spec.hook;
    let program =
        ebpf.program_mut(spec.name).ok_or_else(|| format!("the eBPF object has no program {}", spec.name))?;
    let said = |what: &str, error: &dyn std::error::Error| format!("{hook}: {what}: {}", chain(error));
    let root = File::open(kubepods).map_err(|e| format!("{hook}: open {}: {e}", kubepods.display()))?;
    let program: &mut CgroupDevice = program.try_into().map_err(|e| said("wrong kind", &e))?;
    program.load().map_err(|e| said("load", &e))?;
    // aya attaches by link, which is always "multi" in the kernel; asking for it again is refused.
    program.attach(root, CgroupAttachMode::Single).map_err(|e| said("attach", &e))?;
    Ok(())
}

impl DeviceTables {
    fn take(ebpf: &mut Ebpf, level: u32) -> Result<Self, KernelError> {
        let mut taken = |name: &'static str| ebpf.take_map(name).ok_or(KernelError::NoMap(name));
        let mut places = Array::try_from(taken(PLACES)?).map_err(failed(PLACES))?;
        places.set(PLACE_LEVEL, u64::from(level), ANY).map_err(failed(PLACES))?;
        Ok(Self {
            places,
            pods: HashMap::try_from(taken("DEVICE_PODS")?).map_err(failed("DEVICE_PODS"))?,
            rules: HashMap::try_from(taken("DEVICE_RULES")?).map_err(failed("DEVICE_RULES"))?,
            counts: HashMap::try_from(taken("DEVICE_COUNTS")?).map_err(failed("DEVICE_COUNTS"))?,
            devices_of: HashMap::try_from(taken("DEVICES_OF")?).map_err(failed("DEVICES_OF"))?,
        })
    }

    /// Registers the cgroup of a QoS class, the first or the second. Pods in it are controlled only
    /// afterwards.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_class(&mut self, place: usize, id: u64) -> Result<(), KernelError> {
        self.places.set(PLACE_CLASSES[place], id, ANY).map_err(failed(PLACES))
    }

    /// Replaces the rule of this key by one that allows these accesses.
    ///
    /// # Errors
    /// The table is full or the kernel refuses.
    pub fn set_rule(&mut self, key: DeviceKey, access: u32) -> Result<(), KernelError> {
        self.rules.insert(Key(key), access, ANY).map_err(failed("DEVICE_RULES"))
    }

    /// Removes a rule, if there is one with this key.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove_rule(&mut self, key: DeviceKey) -> Result<(), KernelError> {
        absent_is_fine(self.rules.remove(&Key(key))).map_err(failed("DEVICE_RULES"))
    }

    /// From now on the rules of the pod whose cgroup has this id apply to its processes.
    ///
    /// # Errors
    /// The table is full or the kernel refuses.
    pub fn set_pod(&mut self, pod: u64, mode: u32) -> Result<(), KernelError> {
        match self.devices_of.insert(pod, 0, NO_EXIST) {
            Err(MapError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::EEXIST) => {}
            other => other.map_err(failed("DEVICES_OF"))?,
        }
        self.pods.insert(pod, mode, ANY).map_err(failed("DEVICE_PODS"))
    }

    /// From now on the pod may open everything. Its rules are not removed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn release_pod(&mut self, pod: u64) -> Result<(), KernelError> {
        absent_is_fine(self.pods.remove(&pod)).map_err(failed("DEVICE_PODS"))
    }

    /// Removes the counts of a pod.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn forget_counts(&mut self, pod: u64) -> Result<(), KernelError> {
        let counted = self.devices_of.get(&pod, 0).unwrap_or(0);
        absent_is_fine(self.devices_of.remove(&pod)).map_err(failed("DEVICES_OF"))?;
        if counted == 0 {
            return Ok(());
        }
        let keys: Vec<Key> = self.counts.keys().filter_map(Result::ok).filter(|k| k.0.pod == pod).collect();
        keys.iter()
            .try_for_each(|key| absent_is_fine(self.counts.remove(key)).map_err(failed("DEVICE_COUNTS")))
    }

    /// The counts of all devices. Takes two system calls for each.
    pub fn counts(&self) -> Vec<(DeviceKey, DeviceCount)> {
        self.counts.iter().filter_map(Result::ok).map(|(key, count)| (key.0, count.0)).collect()
    }

    /// The rules in the kernel.
    #[cfg(any(test, feature = "testing"))]
    pub fn rules(&self) -> BTreeMap<(u64, u32, u32, u32), u32> {
        let rules = self.rules.iter().filter_map(Result::ok);
        rules.map(|(Key(k), access)| ((k.pod, k.kind, k.major, k.minor), access)).collect()
    }
}

fn failed(map: &'static str) -> impl Fn(MapError) -> KernelError {
    move |source| KernelError::Map { map, source }
}

fn absent_is_fine(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::SyscallError(e)) if e.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        Err(MapError::KeyNotFound | MapError::ElementNotFound) => Ok(()),
        other => other,
    }
}
