//! Loads the object with the sizes, offsets and hierarchies of this machine, then attaches the programs topic
//! by topic.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::{MapData, RingBuf};
use aya::{Btf, Ebpf, EbpfLoader, Endianness, VerifierLogLevel};
use nodewarden_ebpf_abi::{CELL_ARRAYS, Index, NO_SLOT, Space};
use tracing::{debug, info, warn};

use super::btf::BtfError;
use super::cells::Cells;
use super::cost;
use super::devices::DEVICE_SIZES;
use super::error::KernelError;
use super::exclusive_cpus::BY_CPU;
use super::layout::Layout;
use super::neighbours::{self, Neighbours};
use super::programs::{self, Attached, EMPTY_PROGRAMS};
use super::slots::SlotPool;
use super::spaces::Spaces;
use super::symbols::OomSymbols;
use super::usage::USAGES;
use nodewarden_model::{HookState, Program, ProgramCost, Topic, TopicStatus};

/// The object, built by `cargo xtask build` and part of the binary.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/nodewarden-ebpf.o"));

/// The running kernel's types. Some 6 MB, so they are read once.
pub(super) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// What determines how the programs are loaded.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The hierarchies in which cgroups are counted.
    pub spaces: Spaces,
    /// Largest number of cgroups with counters of their own, in each hierarchy.
    pub max_cgroups: u32,
    /// Size of the ring buffer; a power of two of at least a page.
    pub ring_bytes: u32,
    /// Root of the unified hierarchy.
    pub unified: Option<PathBuf>,
    /// Whether the tables have room for pods whose device access is controlled, see `Kernel::attach_devices`.
    pub devices: bool,
    /// The topics that are attached at the start only if they are asked for.
    pub requested: Requested,
    /// Whether the empty programs of the benchmark are attached too.
    pub empty_programs: bool,
    /// Whether the programs' own messages are logged (aya-log).
    pub verbose: bool,
}

#[cfg(test)]
impl LoadOptions {
    /// The programs for cgroups of these hierarchies, without anything on request.
    pub fn plain(spaces: Spaces, max_cgroups: u32) -> Self {
        Self {
            spaces,
            max_cgroups,
            ring_bytes: 1 << 16,
            unified: None,
            devices: false,
            requested: Requested::default(),
            empty_programs: false,
            verbose: false,
        }
    }
}

/// Which topics on request are attached at the start. The others on request have handles of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requested {
    /// Writes to limits of cgroups are recorded (topic limit_writes).
    pub limit_writes: bool,
    /// Waits are counted by whom a cgroup waited for (topic neighbours).
    pub neighbours: bool,
}

impl Requested {
    fn has(self, topic: Topic) -> bool {
        match topic {
            Topic::LimitWrites => self.limit_writes,
            Topic::Neighbours => self.neighbours,
            _ => false,
        }
    }
}

/// The loaded programs. Dropping it detaches and removes them all; so does the kernel when the process dies,
/// as nothing is pinned.
pub struct Kernel {
    pub(super) ebpf: Ebpf,
    /// The ids of the hooks. Takes megabytes, so it is dropped once everything is attached.
    pub(super) btf: Option<Btf>,
    pub(super) options: LoadOptions,
    pub(super) layout: Layout,
    /// What the topic oom lacks though its program is attached, in words.
    oom_degraded: Option<String>,
    pub(super) attached: Vec<Attached>,
    logger: Option<aya_log::EbpfLogger<&'static dyn log::Log>>,
    /// When the kernel began to measure the programs. It measures while the descriptor is open.
    measuring: Option<(Instant, OwnedFd)>,
    measured: Duration,
}

/// The results of loading.
pub struct Loaded {
    /// The programs and maps.
    pub kernel: Kernel,
    /// The counters, mapped into memory.
    pub cells: Arc<Cells>,
    /// The free slots for cgroups.
    pub pool: SlotPool,
    /// The ring buffer of the events.
    pub ring: RingBuf<MapData>,
    /// The sums of topic neighbours, if it was requested.
    pub neighbours: Option<Neighbours>,
}

/// Removes this process's limit on locked memory. Before Linux 5.11 maps and programs count for it, and the
/// default of 64 KiB is too small for any of them (`bpf_charge_memlock`).
///
/// # Errors
/// As of setrlimit(2): without CAP_SYS_RESOURCE the hard limit cannot be raised.
pub fn allow_locked_memory() -> io::Result<()> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    if soft == RLIM_INFINITY {
        return Ok(());
    }
    Ok(setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY)?)
}

/// Whether this kernel says which process the OOM killer kills: its tracepoint oom:mark_victim gives the task
/// (Linux 6.9), which the topic oom needs.
///
/// # Errors
/// The kernel's types cannot be read.
pub fn names_oom_victims() -> Result<bool, KernelError> {
    let explain = |source| KernelError::Btf { path: VMLINUX.into(), source };
    let bytes = std::fs::read(VMLINUX).map_err(|source| explain(BtfError::Read(source)))?;
    let types = super::btf::Btf::parse(&bytes).map_err(explain)?;
    Ok(super::prototype::gives_a_pointer(&types, "mark_victim", 1))
}

impl Kernel {
    /// Creates the maps and attaches the programs of the cgroup lifecycle, so that no cgroup created from now
    /// on is missed. The caller then registers the existing cgroups and calls `attach`.
    ///
    /// # Errors
    /// When the kernel has no BTF or refuses the maps. A refused program is no error, see `programs`.
    pub fn load(options: LoadOptions) -> Result<Loaded, KernelError> {
        if let Err(error) = allow_locked_memory() {
            debug!(%error, "the limit on locked memory stays: before Linux 5.11 the kernel refuses the maps");
        }
        // Beside each other. aya's loader reads all of the kernel's types, although none is used here.
        let symbols = thread::Builder::new().spawn(OomSymbols::read).map_err(KernelError::Thread)?;
        let loader = thread::Builder::new().spawn(EbpfLoader::new).map_err(KernelError::Thread)?;
        let (layout, btf) = read_types(Path::new(VMLINUX))?;
        let symbols = symbols.join().unwrap_or_else(|panic| resume_unwind(panic));
        let cpus = possible_cpus()?;
        let capacity = options.max_cgroups + 1;
        let spaces = options.spaces.hierarchies.len().max(1) as u32;
        let mut hierarchies = [u32::MAX; 4];
        for (to, from) in hierarchies.iter_mut().zip(&options.spaces.hierarchies) {
            *to = *from;
        }
        let space = |s: Space| options.spaces.of(s).unwrap_or(0) as u32;
        let subsystem = |s: Space, name: &str| {
            if options.spaces.is_v1(s) {
                layout.subsystems.get(name).copied().unwrap_or(u32::MAX)
            } else {
                u32::MAX
            }
        };
        let places = [space(Space::Memory), space(Space::Cpu), space(Space::Io), space(Space::Unified)];
        let subsystems = [subsystem(Space::Memory, "memory"), subsystem(Space::Cpu, "cpu")];
        let memcg = symbols.memcg_out_of_memory.unwrap_or_default();
        let kill = symbols.oom_kill_process.unwrap_or_default();
        let verbose = u32::from(options.verbose);
        let own = std::process::id();

        let mut loader: EbpfLoader<'_> = loader.join().unwrap_or_else(|panic| resume_unwind(panic));
        // The offsets are set below: nothing in the object is relocated by the kernel's types.
        loader.btf(None).verifier_log_level(VerifierLogLevel::VERBOSE | VerifierLogLevel::STATS);
        for (name, value) in &layout.globals {
            loader.override_global(name, value, true);
        }
        let sizes = [
            ("EVENTS", options.ring_bytes),
            ("SLOTS", capacity * spaces),
            ("CPU_STATES", cpus),
            (USAGES, capacity),
        ];
        let cells = CELL_ARRAYS.iter().map(|array| match array.index {
            Index::Slot => (array.name, capacity),
            Index::CpuAndSlot => (array.name, capacity * cpus),
        });
        let tables = Topic::ALL.into_iter().flat_map(|topic| topic.spec().tables).copied();
        let by_cpu = BY_CPU.into_iter().chain([neighbours::CPUS]).map(|map| (map, cpus));
        for (map, entries) in sizes.into_iter().chain(by_cpu).chain(cells).chain(tables) {
            loader.map_max_entries(map, entries);
        }
        if options.devices {
            for (map, entries) in DEVICE_SIZES {
                loader.map_max_entries(map, entries);
            }
        }
        if options.requested.neighbours {
            for (map, entries) in neighbours::SIZES {
                loader.map_max_entries(map, entries);
            }
        }
        for (i, map) in ["FREE_0", "FREE_1", "FREE_2", "FREE_3"].into_iter().enumerate() {
            loader.map_max_entries(map, if i < spaces as usize { capacity } else { 1 });
        }
        for (i, name) in ["HIERARCHY_0", "HIERARCHY_1", "HIERARCHY_2", "HIERARCHY_3"].into_iter().enumerate()
        {
            loader.override_global(name, &hierarchies[i], true);
        }
        for (i, name) in ["SPACE_MEMORY", "SPACE_CPU", "SPACE_IO", "SPACE_UNIFIED"].into_iter().enumerate() {
            loader.override_global(name, &places[i], true);
        }
        loader
            .override_global("SUBSYS_MEMORY", &subsystems[0], true)
            .override_global("SUBSYS_CPU", &subsystems[1], true)
            .override_global("CAPACITY", &capacity, true)
            .override_global("SYM_MEMCG_OOM", &memcg.start, true)
            .override_global("SYM_MEMCG_OOM_END", &memcg.end, true)
            .override_global("SYM_OOM_KILL", &kill.start, true)
            .override_global("SYM_OOM_KILL_END", &kill.end, true)
            .override_global("OWN_TGID", &own, true)
            .override_global("VERBOSE", &verbose, true);
        let mut ebpf = loader.load(OBJECT)?;
        drop(loader);

        // Until the first switch it is not known which task is on a CPU.
        set_no_slot(&mut ebpf, cpus)?;
        let cells = Arc::new(Cells::new(&ebpf, capacity as usize, cpus as usize)?);
        let pool = SlotPool::new(&mut ebpf, spaces as usize, capacity)?;
        let ring = ebpf.take_map("EVENTS").ok_or(KernelError::NoMap("EVENTS"))?;
        let ring = RingBuf::try_from(ring).map_err(|source| KernelError::Map { map: "EVENTS", source })?;
        let wanted = options.requested.neighbours;
        let neighbours = wanted.then(|| Neighbours::take(&mut ebpf)).transpose()?;
        let logger = if options.verbose { aya_log::EbpfLogger::init(&mut ebpf).ok() } else { None };
        let mut kernel = Self {
            ebpf,
            btf: Some(btf),
            options,
            layout,
            oom_degraded: symbols.degraded,
            attached: Vec::new(),
            logger,
            measuring: None,
            measured: Duration::ZERO,
        };
        kernel.attach_where(|topic| topic == Topic::CgroupLifecycle);
        Ok(Loaded { kernel, cells, pool, ring, neighbours })
    }

    /// Attaches everything else. Called once.
    pub fn attach(&mut self) {
        self.attach_where(|topic| topic != Topic::CgroupLifecycle);
        if self.options.empty_programs {
            for (topic, program) in EMPTY_PROGRAMS {
                self.attach_one(*topic, program);
            }
        }
        self.btf = None;
        for topic in self.topics() {
            match topic.state {
                HookState::On => {}
                HookState::Partial => warn!(topic = topic.topic.name(), reason = topic.reason, "partly off"),
                HookState::Off => warn!(topic = topic.topic.name(), reason = topic.reason, "off"),
            }
        }
        let on = self.attached.iter().filter(|a| a.outcome.is_ok()).count();
        info!(programs = on, refused = self.attached.len() - on, "eBPF programs attached");
    }

    fn attach_where(&mut self, wanted: impl Fn(Topic) -> bool) {
        let requested = self.options.requested;
        for topic in attached_at_start(requested).filter(|topic| wanted(*topic)) {
            for program in topic.spec().programs {
                self.attach_one(topic, program);
            }
        }
    }

    fn attach_one(&mut self, topic: Topic, program: &Program) {
        let fitting = self.layout.fitting(program);
        let outcome = match (self.lacking(topic), &fitting, &self.btf) {
            (Some(reason), _, _) => Err(reason),
            (None, Err(reason), _) => Err(reason.clone()),
            (None, Ok(program), Some(btf)) => {
                programs::attach(&mut self.ebpf, btf, program, self.options.unified.as_deref())
            }
            (None, Ok(_), None) => Err("attached too late".into()),
        };
        self.attached.push(Attached { topic, program: fitting.unwrap_or(*program), outcome });
    }

    /// Why a topic cannot work whatever the hooks: a field, a hierarchy or an argument of a tracepoint is
    /// missing. With one of its programs, a topic would count some of it, and show the rest as 0.
    pub(super) fn lacking(&self, topic: Topic) -> Option<String> {
        if let Some(fields) = self.layout.missing.get(&topic) {
            return Some(format!("this kernel has no {}", fields.join(", ")));
        }
        let required = topic.spec().programs.iter().filter(|program| !program.optional);
        let unfit: Vec<String> = required.filter_map(|program| self.layout.fitting(program).err()).collect();
        if !unfit.is_empty() {
            return Some(unfit.join("; "));
        }
        let space = topic.spec().space?;
        let missing = self.options.spaces.of(space).is_none();
        missing.then(|| format!("no {} cgroup hierarchy is mounted", space.name()))
    }

    /// State of each topic that is attached at the start. Attaching another one returns its outcome.
    pub fn topics(&self) -> Vec<TopicStatus> {
        let topics = attached_at_start(self.options.requested);
        let degraded = |topic| self.oom_degraded.as_deref().filter(|_| topic == Topic::Oom);
        topics.map(|topic| programs::status(topic, &self.attached, degraded(topic))).collect()
    }

    /// Makes the kernel begin to measure the programs' runs, or stop.
    pub fn measure(&mut self, on: bool) {
        match (&self.measuring, on) {
            (None, true) => match aya::sys::enable_stats(aya::sys::Stats::RunTime) {
                Ok(stats) => self.measuring = Some((Instant::now(), stats)),
                Err(error) => debug!(%error, "the kernel does not measure program run times"),
            },
            (Some((since, _)), false) => {
                self.measured += since.elapsed();
                self.measuring = None;
            }
            _ => {}
        }
    }

    /// How long the programs have been measured in total.
    pub fn measured(&self) -> Duration {
        self.measured + self.measuring.as_ref().map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    /// CPU time of the programs while they were measured.
    pub fn costs(&self) -> Vec<ProgramCost> {
        let on = self.attached.iter().filter(|a| a.outcome.is_ok());
        on.filter_map(|a| cost::of(self.ebpf.program(a.program.name)?, a)).collect()
    }

    /// Writes the programs' own diagnostics to the log.
    pub fn flush_log(&mut self) {
        if let Some(logger) = &mut self.logger {
            logger.flush();
        }
    }
}

/// The topics that are attached at the start: all but those on request, and those of them that are requested.
pub fn attached_at_start(requested: Requested) -> impl Iterator<Item = Topic> {
    Topic::ALL.into_iter().filter(move |topic| !topic.spec().on_request || requested.has(*topic))
}

pub(super) fn possible_cpus() -> Result<u32, KernelError> {
    let count =
        aya::util::nr_cpus().map_err(|(path, source)| KernelError::Read { path: path.into(), source })?;
    Ok(count as u32)
}

fn set_no_slot(ebpf: &mut Ebpf, cpus: u32) -> Result<(), KernelError> {
    const MAP: &str = "CPU_STATES";
    let map = ebpf.map_mut(MAP).ok_or(KernelError::NoMap(MAP))?;
    let mut states: aya::maps::Array<_, [u64; 8]> =
        aya::maps::Array::try_from(map).map_err(|source| KernelError::Map { map: MAP, source })?;
    // since, run_delay, slot + padding (see CpuState, 64 bytes)
    let idle = [0, 0, u64::from(NO_SLOT), 0, 0, 0, 0, 0];
    for cpu in 0..cpus {
        states.set(cpu, idle, 0).map_err(|source| KernelError::Map { map: MAP, source })?;
    }
    Ok(())
}

/// The running kernel's types: what the layout takes from them, and the ids of the hooks for aya.
pub(super) fn read_types(path: &Path) -> Result<(Layout, Btf), KernelError> {
    let explain = |source| KernelError::Btf { path: path.into(), source };
    let bytes = std::fs::read(path).map_err(|source| explain(BtfError::Read(source)))?;
    let types = super::btf::Btf::parse(&bytes).map_err(explain)?;
    let hooks = Btf::parse(&types.only_hooks(), Endianness::default())?;
    Ok((Layout::from_btf(&types), hooks))
}

#[cfg(test)]
mod tests;
