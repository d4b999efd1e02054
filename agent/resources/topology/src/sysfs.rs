//! Reads the topology from `/sys/devices/system/cpu` and `/sys/devices/system/node` (the kernel's
//! Documentation/ABI/stable/sysfs-devices-system-cpu and sysfs-devices-node).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use nodewarden_machine::cgroup::control::PageSize;
use nodewarden_machine::cpu_list::CpuList;
use nodewarden_machine::cpu_set::CpuSet;

use crate::{Cpu, CpuTopology, HugePages, Machine, NodeSet, NumaNode};

/// A file of sysfs could not be read, or is not what the kernel documents.
#[derive(Debug, thiserror::Error)]
pub enum SysfsError {
    /// Reading failed.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has another content.
    #[error("{}: {content:?} is not {expected}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is in it.
        content: String,
        /// What should be in it.
        expected: &'static str,
    },
    /// A NUMA node has a number that hints cannot have.
    #[error("NUMA node {node}: only numbers up to {} are supported", NodeSet::GREATEST)]
    Node {
        /// The number.
        node: u32,
    },
}

/// Reads the CPUs that are online and the NUMA nodes below `system` (`/sys/devices/system`).
///
/// Where the kernel has no NUMA nodes, all CPUs are on node 0, whose memory is then not known (0). A CPU
/// without a known socket is on socket 0, one without a level 3 cache shares one with its NUMA node. Blocks
/// on sysfs; it reads some files of each CPU.
///
/// # Errors
/// A file that every such kernel has cannot be read or understood.
pub fn read(system: &Path) -> Result<Machine, SysfsError> {
    let online = set(&system.join("cpu/online"))?;
    let nodes = nodes(&system.join("node"))?;
    let cpus = online.iter().map(|cpu| {
        let node = nodes.iter().find(|(_, cpus)| cpus.contains(cpu)).map_or(0, |(node, _)| node.id);
        one_cpu(&system.join(format!("cpu/cpu{cpu}")), cpu, node, &online)
    });
    let cpus: Vec<(Cpu, bool)> = cpus.collect::<Result<_, _>>()?;
    let mut first_of_node = BTreeMap::new();
    cpus.iter().for_each(|(cpu, _)| _ = first_of_node.entry(cpu.node).or_insert(cpu.cpu));
    let with_cache = |(cpu, has_cache): (Cpu, bool)| match has_cache {
        true => cpu,
        false => Cpu { cache: first_of_node.get(&cpu.node).copied().unwrap_or(cpu.cpu), ..cpu },
    };
    Ok(Machine {
        cpus: CpuTopology::new(cpus.into_iter().map(with_cache)),
        nodes: nodes.into_iter().map(|(node, _)| node).collect(),
    })
}

/// A CPU, and whether its level 3 cache is known.
fn one_cpu(dir: &Path, cpu: u32, node: u32, online: &CpuSet) -> Result<(Cpu, bool), SysfsError> {
    let topology = dir.join("topology");
    let socket = match number(&topology.join("physical_package_id"))? {
        // -1: the firmware does not say.
        Some(socket) => u32::try_from(socket).unwrap_or(0),
        None => 0,
    };
    let siblings = topology.join("thread_siblings_list");
    let core = optional(&siblings)?.map(|text| parsed(&siblings, &text)).transpose()?;
    let core = core.and_then(|cpus| cpus.intersection(online).first()).unwrap_or(cpu);
    let cache = level_three(&dir.join("cache"), online)?;
    Ok((Cpu { cpu, core, socket, node, cache: cache.unwrap_or(cpu) }, cache.is_some()))
}

/// The number of the level 3 cache: the lowest CPU that is online and shares it. (The kernel's `id` is not
/// on every architecture.)
fn level_three(dir: &Path, online: &CpuSet) -> Result<Option<u32>, SysfsError> {
    for index in 0.. {
        let entry = dir.join(format!("index{index}"));
        match number(&entry.join("level"))? {
            None => return Ok(None),
            Some(3) => {
                let shared = set(&entry.join("shared_cpu_list"))?;
                return Ok(shared.intersection(online).first());
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

/// The NUMA nodes that are online, with the CPUs of each.
fn nodes(dir: &Path) -> Result<Vec<(NumaNode, CpuSet)>, SysfsError> {
    let online = dir.join("online");
    let Some(text) = optional(&online)? else {
        let only = NumaNode { id: 0, memory_bytes: 0, huge_pages: Vec::new(), distances: vec![10] };
        return Ok(vec![(only, CpuSet::default())]);
    };
    let node = |id: u32| {
        if id > NodeSet::GREATEST {
            return Err(SysfsError::Node { node: id });
        }
        let dir = dir.join(format!("node{id}"));
        let node = NumaNode {
            id,
            memory_bytes: memory(&dir.join("meminfo"))?,
            huge_pages: huge_pages(&dir.join("hugepages"))?,
            distances: distances(&dir.join("distance"))?,
        };
        Ok((node, set(&dir.join("cpulist"))?))
    };
    parsed(&online, &text)?.iter().map(node).collect()
}

/// `MemTotal` of a node, in bytes; 0 if there is none.
fn memory(path: &Path) -> Result<u64, SysfsError> {
    let Some(text) = optional(path)? else { return Ok(0) };
    let total = text.lines().find_map(|line| line.split_once("MemTotal:")).map(|(_, rest)| rest);
    let kib =
        total.and_then(|rest| rest.trim().strip_suffix("kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
    let error = || SysfsError::Content {
        path: path.to_owned(),
        content: text.clone(),
        expected: "memory with MemTotal in kB",
    };
    Ok(kib.ok_or_else(error)? * 1024)
}

/// The huge pages of a node, by size: directories `hugepages-2048kB` with a file `nr_hugepages`.
fn huge_pages(dir: &Path) -> Result<Vec<HugePages>, SysfsError> {
    let fail = |source| SysfsError::Read { path: dir.to_owned(), source };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    let mut sizes = Vec::new();
    for entry in entries {
        let name = entry.map_err(fail)?.file_name();
        let Some(PageSize(size)) = name.to_str().and_then(PageSize::of_directory) else { continue };
        let count = number(&dir.join(&name).join("nr_hugepages"))?.unwrap_or(0);
        sizes.push(HugePages { size_kib: size / 1024, count: u64::try_from(count).unwrap_or(0) });
    }
    sizes.sort_unstable_by_key(|pages| pages.size_kib);
    Ok(sizes)
}

fn distances(path: &Path) -> Result<Vec<u64>, SysfsError> {
    let Some(text) = optional(path)? else { return Ok(Vec::new()) };
    let row = text.split_whitespace().map(str::parse).collect::<Result<_, _>>();
    row.map_err(|_| SysfsError::Content {
        path: path.to_owned(),
        content: text.trim().to_owned(),
        expected: "a list of distances",
    })
}

fn number(path: &Path) -> Result<Option<i64>, SysfsError> {
    let Some(text) = optional(path)? else { return Ok(None) };
    let text = text.trim();
    let error =
        |_| SysfsError::Content { path: path.to_owned(), content: text.to_owned(), expected: "a number" };
    text.parse().map(Some).map_err(error)
}

fn set(path: &Path) -> Result<CpuSet, SysfsError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| SysfsError::Read { path: path.to_owned(), source })?;
    parsed(path, &text)
}

fn parsed(path: &Path, text: &str) -> Result<CpuSet, SysfsError> {
    let list = CpuList::parse_cpuset(text.trim());
    list.map(|list| list.iter().collect()).map_err(|_| SysfsError::Content {
        path: path.to_owned(),
        content: text.trim().to_owned(),
        expected: "a list of CPUs or nodes",
    })
}

/// The content of a file; `None` if there is none.
fn optional(path: &Path) -> Result<Option<String>, SysfsError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SysfsError::Read { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests;
