//! The programs that count who runs on exclusive CPUs, and their tables. They are loaded and attached when
//! the first CPU becomes exclusive and detached when none is, so that a machine without such CPUs pays
//! nothing for them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aya::maps::{Array, MapData, MapError};
use aya::programs::BtfTracePoint;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::{Btf, Ebpf};
use nodewarden_ebpf_abi as abi;
use nodewarden_ebpf_abi::{LONGEST_KINDS, LongestTurn, owner_word};

use super::cells::Array as Mapped;
use super::clock::MonotonicClock;
use super::error::KernelError;
use super::load::{Kernel, VMLINUX, read_types};
use super::programs::{Attached, chain, load_tracepoint, status};
use crate::cgroup::{Hierarchy, join};
use nodewarden_model::{CpuTurn, CpuUse, CpuUser, Hook, HookState, Program, Topic, TopicStatus};

const OWNERS: &str = "EXCLUSIVE_CPU_OWNERS";
const CPUS: &str = "EXCLUSIVE_CPUS";
const PERIOD: &str = "EXCLUSIVE_CPU_PERIOD";

/// The arrays that are indexed by CPU.
pub(super) const BY_CPU: [&str; 2] = [OWNERS, CPUS];

/// How often a CPU's words are read until no switch came in between.
const TRIES: usize = 16;

/// Why exclusive CPUs are not observed.
#[derive(Debug, thiserror::Error)]
pub enum ExclusiveCpusError {
    /// The kernel lacks something, or refuses a program.
    #[error("{0}")]
    Unavailable(String),
    /// The CPU does not exist.
    #[error("the machine has no CPU {cpu}: it has {cpus}")]
    NoCpu {
        /// Its number.
        cpu: u32,
        /// How many the machine may have.
        cpus: u32,
    },
    /// The kernel refuses a call on a map.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// The cgroup whose tasks a CPU is for, as the kernel programs know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerCgroup {
    id: u64,
    level: u8,
}

impl OwnerCgroup {
    /// Finds the cgroup `path` in the cpu controller's hierarchy.
    ///
    /// # Errors
    /// As of stat(2): the cgroup does not exist. `Unsupported` if it is more than 255 levels deep, or if the
    /// hierarchy is seen from a cgroup namespace, where levels are not known.
    pub fn find(cpu: &Hierarchy, path: &str) -> io::Result<Self> {
        let Some(level) = level(&cpu.mount_root, path) else {
            let text = format!("the level of {path} below {} is not known", cpu.mount_root);
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        Ok(Self { id: fs::metadata(join(&cpu.mount, path))?.ino(), level })
    }
}

/// The depth of a cgroup below the root of its hierarchy; `mount_root` is the part of it that is mounted.
fn level(mount_root: &str, path: &str) -> Option<u8> {
    let parts = || mount_root.split('/').chain(path.split('/')).filter(|part| !part.is_empty());
    if parts().any(|part| part == "..") {
        return None;
    }
    u8::try_from(parts().count()).ok()
}

/// One reading of one exclusive CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuReading {
    /// Totals since the programs were loaded. They never decrease. Between two readings they grow together by
    /// the time that has passed, from the first switch on that came after the CPU got its owner.
    pub used: CpuUse,
    /// Whether there was such a switch.
    pub since_switch: bool,
    /// The longest turn of each foreign user that ended since the reading before; of tasks also the one that
    /// runs.
    pub longest: Vec<CpuTurn>,
}

/// Which CPUs are exclusive, as the programs know it, and what they counted.
pub struct ExclusiveCpus {
    owners: Array<MapData, u64>,
    period: Array<MapData, u64>,
    cells: Mapped,
    possible: u32,
    /// Number of the running period.
    periods: u64,
    /// By CPU: the owner as the programs have it, and its word.
    set: BTreeMap<u32, (OwnerCgroup, u64)>,
    /// By CPU: how often it became exclusive, and the last totals.
    generations: BTreeMap<u32, u8>,
    last: BTreeMap<u32, CpuUse>,
    /// The attached programs; dropping them detaches.
    links: Vec<BtfTracePointLink>,
    loaded: bool,
}

impl Kernel {
    /// The handle for exclusive CPUs. Nothing is loaded before the first CPU is exclusive. May be called
    /// once.
    ///
    /// # Errors
    /// What this kernel lacks.
    pub fn exclusive_cpus(&mut self) -> Result<ExclusiveCpus, ExclusiveCpusError> {
        if let Some(reason) = self.lacking(Topic::ExclusiveCpus) {
            return Err(ExclusiveCpusError::Unavailable(reason));
        }
        Ok(ExclusiveCpus::take(&mut self.ebpf)?)
    }
}

impl ExclusiveCpus {
    fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        let possible = super::load::possible_cpus()?;
        let cells = Mapped::new(ebpf, CPUS, size_of::<abi::ExclusiveCpu>(), possible as usize)?;
        let mut taken = |name: &'static str| {
            let map = ebpf.take_map(name).ok_or(KernelError::NoMap(name))?;
            Array::try_from(map).map_err(failed(name))
        };
        Ok(Self {
            owners: taken(OWNERS)?,
            period: taken(PERIOD)?,
            cells,
            possible,
            periods: 0,
            set: BTreeMap::new(),
            generations: BTreeMap::new(),
            last: BTreeMap::new(),
            links: Vec::new(),
            loaded: false,
        })
    }

    /// Makes exactly these CPUs exclusive. What was counted stays: totals are of the CPU, not of its owner. A
    /// CPU with another owner than before is counted again from the next switch on it.
    ///
    /// # Errors
    /// A CPU does not exist, or the kernel refuses a program or a call. Then no CPU is exclusive.
    pub fn set(
        &mut self,
        kernel: &mut Kernel,
        wanted: &BTreeMap<u32, OwnerCgroup>,
    ) -> Result<(), ExclusiveCpusError> {
        let result = self.change(kernel, wanted);
        if result.is_err() {
            self.links.clear();
            for cpu in std::mem::take(&mut self.set).into_keys() {
                // The programs are detached: what they do not read does no harm.
                let _ = self.owners.set(cpu, 0, 0);
            }
        }
        result
    }

    fn change(
        &mut self,
        kernel: &mut Kernel,
        wanted: &BTreeMap<u32, OwnerCgroup>,
    ) -> Result<(), ExclusiveCpusError> {
        if let Some(cpu) = wanted.keys().find(|cpu| **cpu >= self.possible) {
            return Err(ExclusiveCpusError::NoCpu { cpu: *cpu, cpus: self.possible });
        }
        let gone: Vec<u32> = self.set.keys().filter(|cpu| !wanted.contains_key(cpu)).copied().collect();
        for cpu in gone {
            self.owners.set(cpu, 0, 0).map_err(failed(OWNERS))?;
            self.set.remove(&cpu);
        }
        if wanted.is_empty() {
            self.links.clear();
            return Ok(());
        }
        if self.links.is_empty() {
            self.forget_turns();
        }
        for (cpu, owner) in wanted {
            let before = self.set.get(cpu);
            if before.is_some_and(|(set, _)| set == owner) {
                continue;
            }
            let generation = self.generations.entry(*cpu).or_default();
            if before.is_none() {
                *generation = generation.wrapping_add(1);
            }
            let word = owner_word(owner.id, owner.level, *generation);
            self.owners.set(*cpu, word, 0).map_err(failed(OWNERS))?;
            self.set.insert(*cpu, (*owner, word));
        }
        if self.links.is_empty() {
            self.attach(kernel)?;
        }
        Ok(())
    }

    /// Forgets what was running when the programs were detached.
    fn forget_turns(&self) {
        for cpu in 0..self.possible as usize {
            if let Some(cell) = self.cells.at(cpu).map(|at| at.cast::<abi::ExclusiveCpu>()) {
                // SAFETY: a value of the array, which no program writes now.
                unsafe {
                    (&raw mut (*cell).owner).write_volatile(0);
                    (&raw mut (*cell).interrupt_since_ns).write_volatile(0);
                    (&raw mut (*cell).softirq_since_ns).write_volatile(0);
                }
            }
        }
    }

    fn attach(&mut self, kernel: &mut Kernel) -> Result<(), ExclusiveCpusError> {
        if !self.loaded {
            kernel.load_exclusive_cpus()?;
            self.loaded = true;
        }
        let of_topic = |attached: &&mut Attached| attached.topic == Topic::ExclusiveCpus;
        for attached in kernel.attached.iter_mut().filter(of_topic).filter(|own| own.outcome.is_ok()) {
            match attach(&mut kernel.ebpf, &attached.program) {
                Ok(link) => self.links.push(link),
                Err(reason) => {
                    attached.outcome = Err(reason.clone());
                    if !attached.program.optional {
                        return Err(ExclusiveCpusError::Unavailable(reason));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the programs are attached.
    pub fn is_attached(&self) -> bool {
        !self.links.is_empty()
    }

    /// Reads every exclusive CPU and begins a new period for the longest turns.
    ///
    /// # Errors
    /// The kernel refuses to write the period.
    pub fn read(&mut self) -> Result<BTreeMap<u32, CpuReading>, ExclusiveCpusError> {
        let ended = self.periods;
        self.periods += 1;
        self.period.set(0, self.periods, 0).map_err(failed(PERIOD))?;
        let mut readings = BTreeMap::new();
        for (cpu, (_, word)) in &self.set {
            let Some((cell, now)) = self.cell(*cpu as usize) else { continue };
            let last = self.last.entry(*cpu).or_default();
            let used = totals(&cell, *word, now).at_least(last);
            *last = used;
            let longest = longest(&cell, ended, running(&cell, *word, now));
            readings.insert(*cpu, CpuReading { used, since_switch: cell.owner == *word, longest });
        }
        Ok(readings)
    }

    /// The words of a CPU as they were between two switches, and when that was. If there are too many
    /// switches, words of before and after one.
    fn cell(&self, cpu: usize) -> Option<(abi::ExclusiveCpu, u64)> {
        let read = || {
            // SAFETY: a structure of integers.
            unsafe { self.cells.read::<abi::ExclusiveCpu>(cpu) }
        };
        let mut cell = read()?;
        for _ in 0..TRIES {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            let now = MonotonicClock::now_ns();
            let again = read()?;
            if again.since_ns == cell.since_ns && again.task_ns == cell.task_ns {
                return Some((again, now.max(cell.since_ns)));
            }
            cell = again;
        }
        Some((cell, cell.since_ns))
    }
}

impl Kernel {
    /// Loads the programs of the topic without attaching them. An optional one that the kernel refuses stays
    /// off.
    fn load_exclusive_cpus(&mut self) -> Result<(), ExclusiveCpusError> {
        let (_, btf) = read_types(Path::new(VMLINUX))?;
        for listed in Topic::ExclusiveCpus.spec().programs {
            let fitting = self.layout.fitting(listed);
            let program = fitting.clone().unwrap_or(*listed);
            let outcome = fitting.and_then(|program| load(&mut self.ebpf, &btf, &program));
            self.attached.push(Attached { topic: Topic::ExclusiveCpus, program, outcome: outcome.clone() });
            if let (Err(reason), false) = (outcome, listed.optional) {
                return Err(ExclusiveCpusError::Unavailable(reason));
            }
        }
        Ok(())
    }

    /// The state of the topic: before the first exclusive CPU whether it could work by what the kernel has.
    pub fn exclusive_cpus_status(&self) -> TopicStatus {
        if self.attached.iter().any(|attached| attached.topic == Topic::ExclusiveCpus) {
            return status(Topic::ExclusiveCpus, &self.attached, None);
        }
        let reason = self.lacking(Topic::ExclusiveCpus);
        let state = if reason.is_some() { HookState::Off } else { HookState::On };
        TopicStatus { topic: Topic::ExclusiveCpus, state, reason: reason.unwrap_or_default() }
    }
}

fn load(ebpf: &mut Ebpf, btf: &Btf, spec: &Program) -> Result<(), String> {
    let Hook::Tracepoint(name) = spec.hook else { return Err(format!("{}: no tracepoint", spec.hook)) };
    load_tracepoint(ebpf, btf, spec, name).map(drop)
}

fn attach(ebpf: &mut Ebpf, spec: &Program) -> Result<BtfTracePointLink, String> {
    let hook = spec.hook;
    let said = |error: &dyn std::error::Error| format!("{hook}: attach: {}", chain(error));
    let program = ebpf.program_mut(spec.name).ok_or_else(|| format!("no program {}", spec.name))?;
    let program: &mut BtfTracePoint = program.try_into().map_err(|error| said(&error))?;
    let link = program.attach().map_err(|error| said(&error))?;
    program.take_link(link).map_err(|error| said(&error))
}

/// How many nanoseconds the running turn has taken so far, without interrupts and softirqs; `None` if it
/// began under another owner, whose word differs.
fn running(cell: &abi::ExclusiveCpu, word: u64, now: u64) -> Option<u64> {
    let interrupted = (cell.interrupt_ns.wrapping_sub(cell.interrupt_ns_before))
        .saturating_add(cell.softirq_ns.wrapping_sub(cell.softirq_ns_before));
    (cell.owner == word).then(|| now.saturating_sub(cell.since_ns).saturating_sub(interrupted))
}

/// The user that a kind of task in the programs is.
fn user_of(kind: usize) -> CpuUser {
    match kind {
        abi::BY_OWNER => CpuUser::Owner,
        abi::BY_KERNEL_THREAD => CpuUser::KernelThread,
        abi::BY_OTHER => CpuUser::Other,
        _ => CpuUser::Idle,
    }
}

/// Totals of a CPU whose owner has this word, with the turn that is still running.
fn totals(cell: &abi::ExclusiveCpu, word: u64, now: u64) -> CpuUse {
    let mut used = CpuUse::default();
    for kind in 0..abi::TASK_KINDS {
        used.add(user_of(kind), cell.task_ns[kind], cell.switches[kind]);
    }
    used.add(CpuUser::Interrupt, cell.interrupt_ns, cell.interrupts);
    used.add(CpuUser::Softirq, cell.softirq_ns, cell.softirqs);
    if let Some(ns) = running(cell, word, now) {
        used.add(user_of(cell.kind as usize), ns, 0);
    }
    used
}

/// The longest turns of the period that has ended; `running` is the length of the running turn so far.
fn longest(cell: &abi::ExclusiveCpu, ended: u64, running: Option<u64>) -> Vec<CpuTurn> {
    const USERS: [(CpuUser, usize); LONGEST_KINDS] = [
        (CpuUser::KernelThread, abi::LONGEST_KERNEL_THREAD),
        (CpuUser::Other, abi::LONGEST_OTHER),
        (CpuUser::Interrupt, abi::LONGEST_INTERRUPT),
        (CpuUser::Softirq, abi::LONGEST_SOFTIRQ),
    ];
    let turns = USERS.into_iter().filter_map(|(user, which)| {
        let turn = cell.longest[(ended & 1) as usize][which];
        let turn = Some(turn).filter(|turn| turn.period == ended && turn.ns > 0);
        let ended_ns = turn.map_or(0, |turn| turn.ns);
        let now = running.filter(|ns| user_of(cell.kind as usize) == user && *ns > ended_ns);
        match (now, turn) {
            (Some(ns), _) => {
                let name = command_of(cell.pid).unwrap_or_default();
                Some(CpuTurn { user, ns, pid: cell.pid, name })
            }
            (None, Some(turn)) => Some(CpuTurn { user, ns: turn.ns, pid: turn.pid, name: name(user, &turn) }),
            (None, None) => None,
        }
    });
    turns.collect()
}

/// The command of a running task.
fn command_of(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// What the kernel calls it.
fn name(user: CpuUser, turn: &LongestTurn) -> String {
    // include/linux/interrupt.h
    const SOFTIRQS: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    match user {
        CpuUser::Interrupt if turn.number & abi::VECTOR != 0 => vector(turn.number & !abi::VECTOR),
        CpuUser::Interrupt => format!("irq {}", turn.number),
        CpuUser::Softirq => match SOFTIRQS.get(turn.number as usize) {
            Some(name) => (*name).to_owned(),
            None => format!("softirq {}", turn.number),
        },
        _ => nodewarden_model::text::until_zero(&turn.command),
    }
}

/// An interrupt of x86 by its vector (arch/x86/include/asm/irq_vectors.h).
fn vector(number: u32) -> String {
    match number {
        0xec => "local timer".to_owned(),
        0xf6 => "irq work".to_owned(),
        0xfb => "function call (one CPU)".to_owned(),
        0xfc => "function call".to_owned(),
        0xfd => "rescheduling".to_owned(),
        _ => format!("vector {number:#x}"),
    }
}

fn failed(map: &'static str) -> impl Fn(MapError) -> KernelError {
    move |source| KernelError::Map { map, source }
}

#[cfg(test)]
mod tests;
